/* Decodes length-prefixed messages from standard input; prints each dump, or "invalid", and a zero byte. */
#include <stdio.h>
#include <stdlib.h>

#include "wirepack.h"

int main(void)
{
    unsigned char head[4];
    while (fread(head, 1, 4, stdin) == 4) {
        size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        uint8_t *bytes = malloc(size); /* exactly as long as the message, so that every overread is seen */
        struct wp_message message = {0};
        if (size && (!bytes || fread(bytes, 1, size, stdin) != size))
            return 9;
        if (wp_decode(bytes, size, &message)) {
            fputs("invalid", stdout);
        } else {
            wp_print(stdout, &message);
            wp_free(&message);
        }
        fputc(0, stdout);
        free(bytes);
    }
    return 0;
}
