/* Decodes and frees every file named; prints how many blocks the decoder still holds at the end. */
#include <stdio.h>
#include <stdlib.h>

#include "wirepack.h"

static long live;
static int counting;
void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void __real_free(void *);
void *__wrap_malloc(size_t n) { void *p = __real_malloc(n); live += counting && p; return p; }
void *__wrap_calloc(size_t a, size_t b) { void *p = __real_calloc(a, b); live += counting && p; return p; }
void *__wrap_realloc(void *o, size_t n) { void *p = __real_realloc(o, n); live += counting && p && !o; return p; }
void __wrap_free(void *p) { live -= counting && p; __real_free(p); }

int main(int argc, char **argv)
{
    static uint8_t bytes[1 << 21];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file)
            return 9;
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        struct wp_message message = {0};
        counting = 1;
        if (!wp_decode(bytes, size, &message))
            wp_free(&message);
        counting = 0;
        if (live) {
            printf("%s\n", argv[i]);
            break;
        }
    }
    printf("%ld\n", live);
    return 0;
}
