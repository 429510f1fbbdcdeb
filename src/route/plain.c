#include "route/plain.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t vector __attribute__((vector_size(16), may_alias, aligned(1)));

/* The high bit of each byte that is a quote, a backslash or a control character; above the first such byte, of
 * others too. */
static uint64_t special(uint64_t x)
{
        const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
        uint64_t quote = x ^ ones * '"', slash = x ^ ones * '\\';

        return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((x - ones * 0x20) & ~x)) & highs;
}

static bool has_special(const char *text)
{
        const vector x = *(const vector *)text;
        union {
                vector bytes;
                uint64_t words[2];
        } hit = { .bytes = (vector)((x == '"') | (x == '\\') | (x < 0x20)) };

        return hit.words[0] | hit.words[1];
}

size_t plain_run(const char *text, size_t size)
{
        size_t n = 0;

        while (n + sizeof(vector) <= size && !has_special(text + n))
                n += sizeof(vector);
        for (; n + 8 <= size; n += 8) {
                uint64_t x, found;

                memcpy(&x, text + n, 8);
                found = special(x); /* little endian: the first byte is the lowest */
                if (found)
                        return n + (size_t)__builtin_ctzll(found) / 8;
        }
        while (n < size && text[n] != '"' && text[n] != '\\' && (unsigned char)text[n] >= 0x20)
                n++;
        return n;
}
