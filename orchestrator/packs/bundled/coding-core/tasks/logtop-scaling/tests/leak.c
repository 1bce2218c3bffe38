/* Tells on descriptor 3 how many blocks are never freed, and the largest number of bytes in use. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long blocks;
static size_t bytes, peak;
void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void __real_free(void *);

static void *gained(void *p)
{
    if (p) {
        blocks++;
        bytes += malloc_usable_size(p);
        peak = bytes > peak ? bytes : peak;
    }
    return p;
}

static void lost(void *p)
{
    if (p) {
        blocks--;
        bytes -= malloc_usable_size(p);
    }
}

void *__wrap_malloc(size_t n) { return gained(__real_malloc(n)); }
void *__wrap_calloc(size_t a, size_t b) { return gained(__real_calloc(a, b)); }
void *__wrap_realloc(void *p, size_t n) { lost(p); return gained(__real_realloc(p, n)); }
void __wrap_free(void *p) { lost(p); __real_free(p); }

char *__wrap_strdup(const char *text)
{
    char *new = __wrap_malloc(strlen(text) + 1);
    return new ? strcpy(new, text) : NULL;
}

__attribute__((destructor)) static void tell(void)
{
    dprintf(3, "%ld %zu\n", blocks, peak);
}
