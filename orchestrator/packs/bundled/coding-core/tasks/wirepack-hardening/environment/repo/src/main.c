#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wirepack.h"

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    *size = 0;
    if (!file)
        return NULL;
    for (;;) {
        if (*size == capacity) {
            capacity = capacity ? capacity * 2 : 4096;
            uint8_t *grown = realloc(bytes, capacity);
            if (!grown)
                break;
            bytes = grown;
        }
        size_t got = fread(bytes + *size, 1, capacity - *size, file);
        *size += got;
        if (!got) {
            if (ferror(file))
                break;
            fclose(file);
            return bytes;
        }
    }
    free(bytes);
    fclose(file);
    return NULL;
}

int main(int argc, char **argv)
{
    struct wp_message message;
    size_t size;
    uint8_t *bytes;
    if (argc != 3 || strcmp(argv[1], "dump")) {
        fprintf(stderr, "usage: wirepack dump FILE\n");
        return 2;
    }
    bytes = read_file(argv[2], &size);
    if (!bytes) {
        fprintf(stderr, "wirepack: cannot read %s\n", argv[2]);
        return 2;
    }
    int status = 0;
    if (wp_decode(bytes, size, &message)) {
        fprintf(stderr, "wirepack: invalid message: %s\n", message.error);
        status = 3;
    } else {
        wp_print(stdout, &message);
        wp_free(&message);
    }
    free(bytes);
    return status;
}
