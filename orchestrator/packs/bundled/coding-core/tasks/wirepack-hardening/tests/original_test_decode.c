/* Plain assertions over small messages; prints one line per failed test. */
#include <stdio.h>
#include <string.h>

#include "wirepack.h"

static int failures;

static void expect(int condition, const char *what)
{
    if (!condition) {
        printf("FAILED: %s\n", what);
        failures++;
    }
}

static void test_name_and_integer(void)
{
    const uint8_t bytes[] = {'W', 'P', 3, 0, 0, 0, 0, 15, 1, 3, 'a', 'b', 'c', 2, 2, 1, 0,
                             5,   4,   0, 0, 1, 0x2f};
    struct wp_message message;
    expect(wp_decode(bytes, sizeof bytes, &message) == 0, "name and integer: decodes");
    if (!message.first)
        return;
    expect(message.first->type == WP_NAME && !strcmp(message.first->name, "abc"), "name is abc");
    expect(message.first->next->integer == 256, "integer is 256");
    wp_free(&message);
    expect(message.first == NULL, "free empties the message");
}

static void test_bad_magic(void)
{
    const uint8_t bytes[] = {'X', 'P', 3, 0, 0, 0, 0, 0};
    struct wp_message message;
    expect(wp_decode(bytes, sizeof bytes, &message) == -1, "bad magic is refused");
    expect(message.error != NULL, "bad magic has a reason");
}

static void test_wrong_checksum(void)
{
    const uint8_t bytes[] = {'W', 'P', 3, 0, 0, 0, 0, 9, 2, 1, 7, 5, 4, 0, 0, 0, 99};
    struct wp_message message;
    expect(wp_decode(bytes, sizeof bytes, &message) == -1, "wrong checksum is refused");
}

int main(void)
{
    test_name_and_integer();
    test_bad_magic();
    test_wrong_checksum();
    if (!failures)
        printf("all tests passed\n");
    return failures ? 1 : 0;
}
