/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/scan_inside.h"

#include <string.h>

typedef uint8_t vector __attribute__((vector_size(16), may_alias, aligned(1)));

/* Each byte that is a quote, a backslash or a control character. */
static vector special(const char *text)
{
        const vector x = *(const vector *)text;

        return (vector)((x == '"') | (x == '\\') | (x < 0x20));
}

/* The first byte that is set; 16: none is. Little endian: the first is the lowest. */
static size_t first_of(vector bytes)
{
        union {
                vector bytes;
                uint64_t words[2];
        } set = { .bytes = bytes };

        if (set.words[0])
                return (size_t)__builtin_ctzll(set.words[0]) / 8;
        return set.words[1] ? 8 + (size_t)__builtin_ctzll(set.words[1]) / 8 : 16;
}

/* Bytes up to the next quote, backslash or control character; size if there is none. Most strings are short, and most
 * bytes are in long ones. */
static size_t plain_run(const char *text, size_t size)
{
        enum {
                ONE = sizeof(vector),
                FOUR = 4 * ONE,
        };
        size_t n = 0, i = ONE;

        if (size >= ONE)
                n = i = first_of(special(text));
        if (i < ONE)
                return n;
        for (; n + FOUR <= size; n += FOUR) {
                const vector found[4] = { special(text + n), special(text + n + ONE), special(text + n + 2 * ONE),
                                          special(text + n + 3 * ONE) };

                if (first_of(found[0] | found[1] | found[2] | found[3]) == ONE)
                        continue;
                for (size_t k = 0; k < 4; k++) {
                        i = first_of(found[k]);
                        if (i < ONE)
                                return n + k * ONE + i;
                }
        }
        for (; n + ONE <= size; n += ONE) {
                i = first_of(special(text + n));
                if (i < ONE)
                        return n + i;
        }
        while (n < size && text[n] != '"' && text[n] != '\\' && (unsigned char)text[n] >= 0x20)
                n++;
        return n;
}

/* A code point as UTF-8; a lone half of a pair becomes the replacement character. */
static int take_point(struct scan *scan, uint32_t c)
{
        char text[4];
        int n_more;

        if (c >= 0xd800 && c < 0xe000)
                c = 0xfffd;
        n_more = (c >= 0x80) + (c >= 0x800) + (c >= 0x10000);
        for (int i = n_more; i > 0; i--, c >>= 6)
                text[i] = (char)(0x80 | (c & 0x3f));
        text[0] = (char)(n_more ? (0xff00u >> (n_more + 1) & 0xff) | c : c);
        return scan_take_text(scan, text, (size_t)n_more + 1);
}

/* The first half of a pair waits for the second. */
static int flush_surrogate(struct scan *scan)
{
        uint32_t half = scan->surrogate;

        scan->surrogate = 0;
        return half ? take_point(scan, half) : SCAN_OK;
}

static int unicode_done(struct scan *scan)
{
        uint32_t c = scan->unicode;
        int r;

        scan->state = STRING;
        if (scan->surrogate && c >= 0xdc00 && c < 0xe000) {
                c = 0x10000 + ((scan->surrogate - 0xd800) << 10) + (c - 0xdc00);
                scan->surrogate = 0;
                return take_point(scan, c);
        }
        r = flush_surrogate(scan);
        if (r == SCAN_OK && c >= 0xd800 && c < 0xdc00)
                scan->surrogate = c;
        else if (r == SCAN_OK)
                r = take_point(scan, c);
        return r;
}

/* The character meant by \n, \" and other short escapes; 0: another escape. */
static char short_escape(char c)
{
        static const char meant[128] = {
                ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
        };

        return (unsigned char)c < sizeof(meant) ? meant[(unsigned char)c] : '\0';
}

/* The byte after a backslash, where it comes in another piece of the body, or begins \u. */
static int escape(struct scan *scan, char c)
{
        char meant = short_escape(c);
        int r;

        if (c == 'u') {
                scan->state = UNICODE;
                scan->unicode = scan->escape = 0;
                return SCAN_OK;
        }
        if (!meant)
                return scan_fail(scan, SCAN_E_JSON);
        scan->state = STRING;
        r = flush_surrogate(scan);
        return r == SCAN_OK ? scan_take_text(scan, &meant, 1) : r;
}

static int unicode(struct scan *scan, char c)
{
        uint32_t digit = c >= '0' && c <= '9' ? (uint32_t)(c - '0') :
                         c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10) :
                         c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10) :
                                                16;

        if (digit == 16)
                return scan_fail(scan, SCAN_E_JSON);
        scan->unicode = scan->unicode << 4 | digit;
        return ++scan->escape == 4 ? unicode_done(scan) : SCAN_OK;
}

/* ---- runs between short escapes are gathered: each piece of text costs whom it goes to some time ------------ */

enum {
        GATHER_MOST = 512, /* bytes */
        GATHER_RUN = 128,  /* a longer run is a piece of its own */
};

struct gathered {
        char text[GATHER_MOST + sizeof(vector)];
        size_t n;
};

static void give(struct scan *scan, const char *text, size_t size)
{
        if (size && flush_surrogate(scan) == SCAN_OK)
                (void)scan_take_text(scan, text, size);
}

static void give_gathered(struct scan *scan, struct gathered *gathered)
{
        give(scan, gathered->text, gathered->n);
        gathered->n = 0;
}

/* `size` bytes may be read there; copied are whole vectors where that is possible. */
static void gather(struct scan *scan, struct gathered *gathered, const char *at, size_t run, size_t size)
{
        if (gathered->n + run > GATHER_MOST - 1)
                give_gathered(scan, gathered);
        if (size < GATHER_RUN + sizeof(vector))
                memcpy(gathered->text + gathered->n, at, run);
        else
                for (size_t i = 0; i < run; i += sizeof(vector))
                        *(vector *)(gathered->text + gathered->n + i) = *(const vector *)(at + i);
        gathered->n += run;
}

/* Returns how many bytes were used: a whole run of the string, with its short escapes. */
static size_t runs(struct scan *scan, const char *at, size_t size)
{
        struct gathered gathered;
        size_t n = 0;

        gathered.n = 0; /* its text is not cleared */
        while (n < size && !scan->failed) {
                size_t run = plain_run(at + n, size - n);
                char c = size - n - run >= 2 && at[n + run] == '\\' ? short_escape(at[n + run + 1]) : 0;

                if (run >= GATHER_RUN || (!c && !gathered.n)) {
                        give_gathered(scan, &gathered);
                        give(scan, at + n, run);
                } else {
                        gather(scan, &gathered, at + n, run, size - n);
                }
                n += run;
                if (!c)
                        break;
                gathered.text[gathered.n++] = c;
                n += 2;
        }
        give_gathered(scan, &gathered);
        return n;
}

static size_t string(struct scan *scan, const char *at, size_t size)
{
        size_t n = runs(scan, at, size);

        if (n || scan->failed)
                return n;
        if (*at == '\\') {
                scan->state = ESCAPE;
        } else if (*at == '"') {
                if (flush_surrogate(scan) == SCAN_OK)
                        scan_string_done(scan);
        } else {
                (void)scan_fail(scan, SCAN_E_JSON);
        }
        return 1;
}

size_t scan_string(struct scan *scan, const char *at, size_t size)
{
        if (scan->state == STRING)
                return string(scan, at, size);
        if (scan->state == ESCAPE)
                (void)escape(scan, *at);
        else
                (void)unicode(scan, *at);
        return 1;
}
