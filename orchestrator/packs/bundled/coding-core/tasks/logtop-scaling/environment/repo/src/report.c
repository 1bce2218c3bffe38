#include <stdlib.h>
#include <string.h>

#include "report.h"

void report_init(struct report *report)
{
    memset(report, 0, sizeof *report);
    report->table = table_new();
    report->clients = names_new();
}

static int digits(const struct field *field)
{
    for (size_t i = 0; i < field->length; i++)
        if (field->text[i] < '0' || field->text[i] > '9')
            return 0;
    return 1;
}

static int valid(const struct field fields[FIELDS])
{
    const struct field *bytes = &fields[5];
    if (fields[4].length != 3 || !digits(&fields[4]))
        return 0;
    if (bytes->length == 1 && bytes->text[0] == '-')
        return 1;
    return digits(bytes) && bytes->length <= 18;
}

static unsigned long long number(const struct field *field)
{
    unsigned long long value = 0;
    if (field->text[0] == '-')
        return 0;
    for (size_t i = 0; i < field->length; i++)
        value = value * 10 + (unsigned long long)(field->text[i] - '0');
    return value;
}

void report_add(struct report *report, const struct line *line)
{
    struct field fields[FIELDS];
    if (!line_split(line, fields) || !valid(fields)) {
        report->malformed++;
        return;
    }
    struct path *path = table_get(report->table, fields[3].text, fields[3].length);
    path->requests++;
    path->bytes += number(&fields[5]);
    names_add(path->clients, fields[1].text, fields[1].length);
    names_add(report->clients, fields[1].text, fields[1].length);
    report->requests++;
    report->statuses[fields[4].text[0] - '0']++;
}

static unsigned long long key(const struct path *path, enum column column)
{
    if (column == BY_BYTES)
        return path->bytes;
    return column == BY_CLIENTS ? names_count(path->clients) : path->requests;
}

static int before(const struct path *left, const struct path *right, enum column column)
{
    unsigned long long a = key(left, column), b = key(right, column);
    return a != b ? a > b : strcmp(left->text, right->text) < 0;
}

static void sort(struct path **entries, size_t count, enum column column)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++)
            if (before(entries[j], entries[i], column)) {
                struct path *other = entries[i];
                entries[i] = entries[j];
                entries[j] = other;
            }
}

void report_print(const struct report *report, FILE *out, size_t count, enum column column)
{
    struct path **entries = table_entries(report->table);
    unsigned long long other = report->requests;
    sort(entries, table_count(report->table), column);
    fprintf(out, "requests     bytes  clients  path\n");
    for (size_t i = 0; i < count && i < table_count(report->table); i++)
        fprintf(out, "%8llu %9llu %8zu  %s\n", entries[i]->requests, entries[i]->bytes, names_count(entries[i]->clients),
                entries[i]->text);
    fprintf(out, "%llu requests, %zu paths, %zu clients, %llu malformed\n", report->requests, table_count(report->table),
            names_count(report->clients), report->malformed);
    for (int digit = 2; digit <= 5; digit++) {
        fprintf(out, "%dxx %llu, ", digit, report->statuses[digit]);
        other -= report->statuses[digit];
    }
    fprintf(out, "other %llu\n", other);
    free(entries);
}

void report_free(struct report *report)
{
    table_free(report->table);
    names_free(report->clients);
}
