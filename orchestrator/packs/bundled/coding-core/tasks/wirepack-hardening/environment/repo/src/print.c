#include <inttypes.h>

#include "wirepack.h"

static void print_name(FILE *out, const struct wp_record *record)
{
    fprintf(out, "name \"%s\"\n", record->name);
}

static void print_list(FILE *out, const struct wp_record *record)
{
    fprintf(out, "list %zu:", record->id_count);
    for (size_t i = 0; i < record->id_count; i++)
        fprintf(out, " %u", (unsigned)record->ids[i]);
    fputc('\n', out);
}

static void print_records(FILE *out, const struct wp_record *record, int depth)
{
    for (; record; record = record->next) {
        fprintf(out, "%*s", depth * 2, "");
        switch (record->type) {
        case WP_NAME:
            print_name(out, record);
            break;
        case WP_INTEGER:
            fprintf(out, "integer %" PRIu64 "\n", record->integer);
            break;
        case WP_LIST:
            print_list(out, record);
            break;
        case WP_GROUP:
            fprintf(out, "group %zu\n", record->child_count);
            print_records(out, record->first_child, depth + 1);
            break;
        case WP_CHECKSUM:
            fprintf(out, "checksum %08" PRIx32 "\n", record->checksum);
            break;
        }
    }
}

void wp_print(FILE *out, const struct wp_message *message)
{
    print_records(out, message->first, 0);
}
