/* Decodes length-prefixed messages from standard input; prints each dump, or "invalid", and a zero byte.
 * With an argument every message has a process of its own, and "crashed" stands for one that did not end well. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wirepack.h"

static void answer(const uint8_t *bytes, size_t size)
{
    struct wp_message message = {0};
    if (wp_decode(bytes, size, &message)) {
        fputs(message.error && !message.first ? "invalid" : "no reason", stdout);
    } else {
        wp_print(stdout, &message);
        wp_free(&message);
    }
}

static void answer_apart(const uint8_t *bytes, size_t size)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        answer(bytes, size);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fputs("crashed", stdout);
}

int main(int argc, char **argv)
{
    unsigned char head[4];
    (void)argv;
    while (fread(head, 1, 4, stdin) == 4) {
        size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        uint8_t *bytes = malloc(size); /* exactly as long as the message, so that every overread is seen */
        if (size && (!bytes || fread(bytes, 1, size, stdin) != size))
            return 9;
        fflush(stdout);
        if (argc > 1)
            answer_apart(bytes, size);
        else
            answer(bytes, size);
        fputc(0, stdout);
        free(bytes);
    }
    return 0;
}
