#include <stdlib.h>
#include <string.h>

#include "reader.h"
#include "wirepack.h"

static int decode_records(struct reader *reader, struct wp_record **first, size_t *count, const char **error);

static void free_records(struct wp_record *record)
{
    while (record) {
        struct wp_record *next = record->next;
        free(record->ids);
        free_records(record->first_child);
        free(record);
        record = next;
    }
}

static int decode_name(struct reader *value, struct wp_record *record)
{
    record->name_length = reader_left(value);
    memcpy(record->name, value->at, record->name_length);
    record->name[record->name_length] = 0;
    return 0;
}

static int decode_integer(struct reader *value, struct wp_record *record, const char **error)
{
    uint8_t byte;
    if (reader_left(value) > 8) {
        *error = "integer too long";
        return -1;
    }
    while (!reader_u8(value, &byte))
        record->integer = record->integer << 8 | byte;
    return 0;
}

static int decode_list(struct reader *value, struct wp_record *record, const char **error)
{
    uint16_t count;
    if (reader_u16(value, &count)) {
        *error = "list without count";
        return -1;
    }
    uint16_t bytes = count * 2;
    if (reader_left(value) < bytes) {
        *error = "list is cut off";
        return -1;
    }
    record->ids = malloc(bytes);
    record->id_count = count;
    for (size_t i = 0; i < count; i++)
        reader_u16(value, &record->ids[i]);
    return 0;
}

static int decode_value(struct reader *value, struct wp_record *record, const char **error)
{
    switch (record->type) {
    case WP_NAME:
        return decode_name(value, record);
    case WP_INTEGER:
        return decode_integer(value, record, error);
    case WP_LIST:
        return decode_list(value, record, error);
    case WP_GROUP:
        return decode_records(value, &record->first_child, &record->child_count, error);
    case WP_CHECKSUM:
        return reader_u32(value, &record->checksum);
    }
    *error = "unknown record type";
    return -1;
}

static int decode_records(struct reader *reader, struct wp_record **first, size_t *count, const char **error)
{
    struct wp_record **tail = first;
    while (reader_left(reader)) {
        uint8_t type;
        uint32_t length;
        struct reader value;
        struct wp_record *record = calloc(1, sizeof *record);
        reader_u8(reader, &type);
        record->type = type;
        if (reader_varint(reader, &length)) {
            *error = "length is cut off";
            free(record);
            return -1;
        }
        value.at = reader->at;
        value.end = reader->at + length;
        *tail = record;
        tail = &record->next;
        if (decode_value(&value, record, error)) {
            free_records(record);
            return -1;
        }
        reader->at += length;
        ++*count;
    }
    return 0;
}

static int verify_checksum(const uint8_t *body, size_t size, const struct wp_record *record)
{
    uint32_t sum = 0;
    while (record && record->type != WP_CHECKSUM)
        record = record->next;
    if (!record)
        return 0; /* old units send none */
    for (size_t i = 0; i < size - 6; i++)
        sum += body[i];
    return sum == record->checksum ? 0 : -1;
}

int wp_decode(const uint8_t *bytes, size_t size, struct wp_message *message)
{
    struct reader reader = {bytes, bytes + size};
    uint8_t version, flags;
    uint32_t body_length;
    size_t count = 0;
    message->first = NULL;
    message->error = "header is cut off";
    if (size < 4 || memcmp(bytes, "WP", 2)) {
        message->error = "not a wirepack file";
        return -1;
    }
    reader.at += 2;
    if (reader_u8(&reader, &version) || reader_u8(&reader, &flags) || reader_u32(&reader, &body_length))
        return -1;
    if (version != 3) {
        message->error = "unsupported version";
        return -1;
    }
    reader.end = reader.at + body_length;
    const uint8_t *body = reader.at;
    if (decode_records(&reader, &message->first, &count, &message->error)) {
        free_records(message->first);
        message->first = NULL;
        return -1;
    }
    if (verify_checksum(body, body_length, message->first)) {
        message->error = "checksum mismatch";
        free_records(message->first);
        message->first = NULL;
        return -1;
    }
    message->error = NULL;
    return 0;
}

void wp_free(struct wp_message *message)
{
    free_records(message->first);
    message->first = NULL;
}
