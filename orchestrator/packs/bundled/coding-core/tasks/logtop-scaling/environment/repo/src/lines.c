#include <stdlib.h>
#include <string.h>

#include "lines.h"

int line_read(struct line *line, FILE *file)
{
    int byte;
    line->length = 0;
    while ((byte = getc(file)) != EOF && byte != '\n') {
        char *grown = malloc(line->length + 1);
        if (!grown)
            abort();
        if (line->length)
            memcpy(grown, line->text, line->length);
        free(line->text);
        line->text = grown;
        line->text[line->length++] = (char)byte;
    }
    return byte != EOF || line->length;
}

void line_free(struct line *line)
{
    free(line->text);
    line->text = NULL;
    line->capacity = 0;
}

int line_split(const struct line *line, struct field fields[FIELDS])
{
    size_t start = 0;
    int count = 0;
    for (size_t i = 0; i <= line->length; i++) {
        if (i < line->length && line->text[i] != ' ')
            continue;
        if (count == FIELDS || i == start)
            return 0;
        fields[count].text = line->text + start;
        fields[count].length = i - start;
        count++;
        start = i + 1;
    }
    return count == FIELDS;
}
