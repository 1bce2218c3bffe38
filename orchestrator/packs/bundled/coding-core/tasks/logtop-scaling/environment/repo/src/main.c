#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

static int usage(void)
{
    fprintf(stderr, "usage: logtop [-n COUNT] [-s requests|bytes|clients] [FILE...]\n");
    return 2;
}

static int column_of(const char *name, enum column *column)
{
    static const char *const names[] = {"requests", "bytes", "clients"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) {
            *column = (enum column)i;
            return 1;
        }
    return 0;
}

static void read_log(struct report *report, FILE *file)
{
    struct line line = {0};
    while (line_read(&line, file))
        report_add(report, &line);
    line_free(&line);
}

static int read_all(struct report *report, char **names)
{
    if (!*names)
        read_log(report, stdin);
    for (; *names; names++) {
        FILE *file = fopen(*names, "rb");
        if (!file) {
            fprintf(stderr, "logtop: %s: %s\n", *names, strerror(errno));
            return 1;
        }
        read_log(report, file);
        fclose(file);
    }
    return 0;
}

int main(int argc, char **argv)
{
    enum column column = BY_REQUESTS;
    size_t count = 10;
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i += 2) {
        char *end;
        if (i + 1 == argc)
            return usage();
        if (!strcmp(argv[i], "-n")) {
            count = strtoul(argv[i + 1], &end, 10);
            if (*end || end == argv[i + 1] || argv[i + 1][0] == '-')
                return usage();
        } else if (strcmp(argv[i], "-s") || !column_of(argv[i + 1], &column)) {
            return usage();
        }
    }
    struct report report;
    report_init(&report);
    int status = read_all(&report, argv + i);
    if (!status)
        report_print(&report, stdout, count, column);
    report_free(&report);
    return status;
}
