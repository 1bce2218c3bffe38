/* wirepack: decode and print uploaded messages. See docs/format.md. */
#ifndef WIREPACK_H
#define WIREPACK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WP_NAME_MAX 63
#define WP_DEPTH_MAX 8

enum wp_type { WP_NAME = 1, WP_INTEGER = 2, WP_LIST = 3, WP_GROUP = 4, WP_CHECKSUM = 5 };

struct wp_record {
    enum wp_type type;
    char name[WP_NAME_MAX + 1];
    size_t name_length;
    uint64_t integer;
    uint16_t *ids;
    size_t id_count;
    struct wp_record *first_child;
    size_t child_count;
    uint32_t checksum;
    struct wp_record *next;
};

struct wp_message {
    struct wp_record *first;
    const char *error; /* static text after a failed decode */
};

/* Decode `size` bytes. Returns 0 and fills message->first, or -1 and fills message->error; after a failure
 * message->first is NULL and nothing needs to be freed. */
int wp_decode(const uint8_t *bytes, size_t size, struct wp_message *message);

/* Free the records of a decoded message; safe to call on an empty one. */
void wp_free(struct wp_message *message);

/* Print a decoded message. */
void wp_print(FILE *out, const struct wp_message *message);

#endif
