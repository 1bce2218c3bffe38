/* What is known about each path, and about the log as a whole. */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>

struct names; /* a set of texts */

struct names *names_new(void);
/* Add a text of `length` bytes; returns 1 if it is new, 0 if it was there. */
int names_add(struct names *names, const char *text, size_t length);
size_t names_count(const struct names *names);
void names_free(struct names *names);

struct path {
    char *text;
    unsigned long long requests;
    unsigned long long bytes;
    struct names *clients;
};

struct table; /* the paths */

struct table *table_new(void);
/* The entry of a path, made on first use. */
struct path *table_get(struct table *table, const char *text, size_t length);
size_t table_count(const struct table *table);
/* All entries as a new array of table_count() pointers, in no particular order; free the array only. */
struct path **table_entries(const struct table *table);
void table_free(struct table *table);

#endif
