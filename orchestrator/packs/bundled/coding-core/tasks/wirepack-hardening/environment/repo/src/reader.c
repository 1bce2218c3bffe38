#include "reader.h"

size_t reader_left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

int reader_u8(struct reader *reader, uint8_t *value)
{
    if (reader->at == reader->end)
        return -1;
    *value = *reader->at++;
    return 0;
}

int reader_u16(struct reader *reader, uint16_t *value)
{
    if (reader->at == reader->end)
        return -1;
    *value = (uint16_t)(reader->at[0] << 8 | reader->at[1]);
    reader->at += 2;
    return 0;
}

int reader_u32(struct reader *reader, uint32_t *value)
{
    if (reader->at == reader->end)
        return -1;
    *value = reader->at[0] << 24 | reader->at[1] << 16 | reader->at[2] << 8 | reader->at[3];
    reader->at += 4;
    return 0;
}

int reader_varint(struct reader *reader, uint32_t *value)
{
    uint8_t byte;
    *value = 0;
    do {
        if (reader_u8(reader, &byte))
            return -1;
        *value = *value << 7 | (byte & 0x7f);
    } while (byte & 0x80);
    return 0;
}
