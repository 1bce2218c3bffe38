/* Lines of any length, and their fields. */
#ifndef LINES_H
#define LINES_H

#include <stddef.h>
#include <stdio.h>

#define FIELDS 6

struct line {
    char *text;
    size_t length;
    size_t capacity;
};

/* Read the next line without its newline; returns 0 at the end of the file. The buffer is reused. */
int line_read(struct line *line, FILE *file);
void line_free(struct line *line);

struct field {
    const char *text;
    size_t length;
};

/* Cut a line at its single blanks; returns 1 if it has exactly FIELDS non-empty fields. */
int line_split(const struct line *line, struct field fields[FIELDS]);

#endif
