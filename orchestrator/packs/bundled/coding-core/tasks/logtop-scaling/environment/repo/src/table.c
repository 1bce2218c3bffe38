#include <stdlib.h>
#include <string.h>

#include "table.h"

struct name {
    char *text;
    struct name *next;
};

struct names {
    struct name *first;
};

struct node {
    struct path path;
    struct node *next;
};

struct table {
    struct node *first;
};

static void *checked(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static char *copy(const char *text, size_t length)
{
    char *new = checked(malloc(length + 1));
    memcpy(new, text, length);
    new[length] = 0;
    return new;
}

struct names *names_new(void)
{
    return checked(calloc(1, sizeof(struct names)));
}

int names_add(struct names *names, const char *text, size_t length)
{
    struct name **place = &names->first;
    while (*place) {
        if (strlen((*place)->text) == length && !memcmp((*place)->text, text, length))
            return 0;
        place = &(*place)->next;
    }
    *place = checked(calloc(1, sizeof(struct name)));
    (*place)->text = copy(text, length);
    return 1;
}

size_t names_count(const struct names *names)
{
    size_t count = 0;
    for (struct name *name = names->first; name; name = name->next)
        count++;
    return count;
}

void names_free(struct names *names)
{
    struct name *name = names->first;
    while (name) {
        struct name *next = name->next;
        free(name->text);
        free(name);
        name = next;
    }
    free(names);
}

struct table *table_new(void)
{
    return checked(calloc(1, sizeof(struct table)));
}

struct path *table_get(struct table *table, const char *text, size_t length)
{
    struct node **place = &table->first;
    while (*place) {
        if (strlen((*place)->path.text) == length && !memcmp((*place)->path.text, text, length))
            return &(*place)->path;
        place = &(*place)->next;
    }
    *place = checked(calloc(1, sizeof(struct node)));
    (*place)->path.text = copy(text, length);
    (*place)->path.clients = names_new();
    return &(*place)->path;
}

size_t table_count(const struct table *table)
{
    size_t count = 0;
    for (struct node *node = table->first; node; node = node->next)
        count++;
    return count;
}

struct path **table_entries(const struct table *table)
{
    struct path **entries = checked(malloc((table_count(table) + 1) * sizeof *entries));
    size_t i = 0;
    for (struct node *node = table->first; node; node = node->next)
        entries[i++] = &node->path;
    return entries;
}

void table_free(struct table *table)
{
    struct node *node = table->first;
    while (node) {
        struct node *next = node->next;
        free(node->path.text);
        names_free(node->path.clients);
        free(node);
        node = next;
    }
    free(table);
}
