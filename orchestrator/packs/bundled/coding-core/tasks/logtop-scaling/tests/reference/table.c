#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* Both sets are hash tables with open addressing that double when they are three quarters full. */

#define FIRST_SLOTS 4

struct slot {
    uint64_t hash;
    char *text; /* NULL: free */
    size_t length;
    struct path *path;
};

struct map {
    struct slot *slots;
    size_t capacity;
    size_t count;
};

struct names {
    struct map map;
};

struct table {
    struct map map;
};

static void *checked(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* FNV-1a, with a final mix because the low bits select the slot. */
static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

static struct slot *find(const struct map *map, uint64_t hash, const char *text, size_t length)
{
    size_t i = hash & (map->capacity - 1);
    for (;;) {
        struct slot *slot = &map->slots[i];
        if (!slot->text || (slot->hash == hash && slot->length == length && !memcmp(slot->text, text, length)))
            return slot;
        i = (i + 1) & (map->capacity - 1);
    }
}

static void grow(struct map *map)
{
    struct map larger = {NULL, map->capacity ? map->capacity * 2 : FIRST_SLOTS, map->count};
    larger.slots = checked(calloc(larger.capacity, sizeof *larger.slots));
    for (size_t i = 0; i < map->capacity; i++) {
        struct slot *old = &map->slots[i];
        if (!old->text)
            continue;
        size_t place = old->hash & (larger.capacity - 1);
        while (larger.slots[place].text)
            place = (place + 1) & (larger.capacity - 1);
        larger.slots[place] = *old;
    }
    free(map->slots);
    *map = larger;
}

/* The slot of a text; *added says whether it was made now. */
static struct slot *put(struct map *map, const char *text, size_t length, int *added)
{
    uint64_t hash = hash_of(text, length);
    if (map->count * 4 >= map->capacity * 3)
        grow(map);
    struct slot *slot = find(map, hash, text, length);
    *added = !slot->text;
    if (*added) {
        slot->text = checked(malloc(length + 1));
        memcpy(slot->text, text, length);
        slot->text[length] = 0;
        slot->length = length;
        slot->hash = hash;
        map->count++;
    }
    return slot;
}

static void map_free(struct map *map)
{
    for (size_t i = 0; i < map->capacity; i++)
        free(map->slots[i].text);
    free(map->slots);
}

struct names *names_new(void)
{
    return checked(calloc(1, sizeof(struct names)));
}

int names_add(struct names *names, const char *text, size_t length)
{
    int added;
    put(&names->map, text, length, &added);
    return added;
}

size_t names_count(const struct names *names)
{
    return names->map.count;
}

void names_free(struct names *names)
{
    map_free(&names->map);
    free(names);
}

struct table *table_new(void)
{
    return checked(calloc(1, sizeof(struct table)));
}

struct path *table_get(struct table *table, const char *text, size_t length)
{
    int added;
    struct slot *slot = put(&table->map, text, length, &added);
    if (added) {
        slot->path = checked(calloc(1, sizeof *slot->path));
        slot->path->text = slot->text;
        slot->path->clients = names_new();
    }
    return slot->path;
}

size_t table_count(const struct table *table)
{
    return table->map.count;
}

struct path **table_entries(const struct table *table)
{
    struct path **entries = checked(malloc((table->map.count + 1) * sizeof *entries));
    size_t count = 0;
    for (size_t i = 0; i < table->map.capacity; i++)
        if (table->map.slots[i].text)
            entries[count++] = table->map.slots[i].path;
    return entries;
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->map.capacity; i++)
        if (table->map.slots[i].text) {
            names_free(table->map.slots[i].path->clients);
            free(table->map.slots[i].path);
        }
    map_free(&table->map);
    free(table);
}
