/* A cursor over bytes. */
#ifndef READER_H
#define READER_H

#include <stddef.h>
#include <stdint.h>

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

/* Bytes left. */
size_t reader_left(const struct reader *reader);

/* Each returns 0 and advances, or -1. */
int reader_u8(struct reader *reader, uint8_t *value);
int reader_u16(struct reader *reader, uint16_t *value);
int reader_u32(struct reader *reader, uint32_t *value);
int reader_varint(struct reader *reader, uint32_t *value);

#endif
