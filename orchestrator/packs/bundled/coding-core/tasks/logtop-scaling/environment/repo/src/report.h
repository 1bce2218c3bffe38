/* The collected figures and their report. */
#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "lines.h"
#include "table.h"

enum column { BY_REQUESTS, BY_BYTES, BY_CLIENTS };

struct report {
    struct table *table;
    struct names *clients;
    unsigned long long requests;
    unsigned long long malformed;
    unsigned long long statuses[10]; /* by first digit */
};

void report_init(struct report *report);
void report_add(struct report *report, const struct line *line);
void report_print(const struct report *report, FILE *out, size_t count, enum column column);
void report_free(struct report *report);

#endif
