/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/scan_inside.h"

#include <string.h>

typedef uint8_t vector __attribute__((vector_size(16), may_alias, aligned(1)));

/* Each byte that is a quote, a backslash or a control character. */
static vector special(const vector x)
{
        return (vector)((x == '"') | (x == '\\') | (x < 0x20));
}

static vector special_at(const char *text)
{
        return special(*(const vector *)text);
}

static bool is_special(char c)
{
        return c == '"' || c == '\\' || (unsigned char)c < 0x20;
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

/* Bytes up to the next quote, backslash or control character; size if there is none. For what is long. */
static size_t plain_run(const char *text, size_t size)
{
        enum {
                ONE = sizeof(vector),
                FOUR = 4 * ONE,
        };
        size_t n = 0;

        while (n + FOUR <= size && first_of(special_at(text + n) | special_at(text + n + ONE) |
                                            special_at(text + n + 2 * ONE) | special_at(text + n + 3 * ONE)) == ONE)
                n += FOUR;
        for (; n + ONE <= size; n += ONE) {
                size_t i = first_of(special_at(text + n));
                if (i < ONE)
                        return n + i;
        }
        while (n < size && !is_special(text[n]))
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
        GATHER_RUN = 128,  /* of one run, a multiple of a vector; the rest of a longer one is a piece of its own */
};

struct gathered {
        char text[GATHER_MOST];
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

/* Copies GATHER_RUN bytes, less if there is a special one. Returns how many; behind them in `to` is anything. */
static size_t copy_run(char *to, const char *at, size_t size)
{
        size_t n = 0, i = sizeof(vector);

        while (n < GATHER_RUN && n + sizeof(vector) <= size) {
                const vector x = *(const vector *)(at + n);

                *(vector *)(to + n) = x;
                i = first_of(special(x));
                n += i;
                if (i < sizeof(vector))
                        return n;
        }
        for (; n < GATHER_RUN && n < size && !is_special(at[n]); n++)
                to[n] = at[n];
        return n;
}

/* Returns how many bytes were used: a whole run of the string, with its short escapes. */
static size_t runs(struct scan *scan, const char *at, size_t size)
{
        struct gathered gathered;
        size_t n = 0;

        gathered.n = 0; /* its text is not cleared */
        while (n < size && !scan->failed) {
                size_t run = copy_run(gathered.text + gathered.n, at + n, size - n);
                char c;

                gathered.n += run;
                n += run;
                if (run == GATHER_RUN) {
                        run = plain_run(at + n, size - n);
                        give_gathered(scan, &gathered);
                        give(scan, at + n, run);
                        n += run;
                }
                c = size - n >= 2 && at[n] == '\\' ? short_escape(at[n + 1]) : 0;
                if (!c)
                        break;
                gathered.text[gathered.n++] = c;
                n += 2;
                if (gathered.n + GATHER_RUN >= GATHER_MOST)
                        give_gathered(scan, &gathered);
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
