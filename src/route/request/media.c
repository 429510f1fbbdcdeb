/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/media.h"

#include "base/cleanup.h"
#include "route/hash.h"
#include "route/pick.h"
#include "route/prefix.h"

#include <string.h>

enum form { GRID, TILES, FIXED };

static const struct media_family {
        const char *word;
        enum form form;
        uint32_t side, tokens, least, most, video;
} families[] = {
#define FAMILY(word, form, side, tokens, least, most, video) { word, form, side, tokens, least, most, video },
#include "route/request/families.def"
#undef FAMILY
};

/* PNG is read into the head; a JPEG is a chain of parts: a mark, a length, that many bytes. */
enum state { BEGIN, PNG, MARK, CODE, LENGTH_HIGH, LENGTH_LOW, FRAME, PASS, OVER };

void media_begin(struct media *media)
{
        memset(media, 0, sizeof(*media));
}

static uint32_t number(const unsigned char *at, size_t size)
{
        uint32_t value = 0;

        for (size_t i = 0; i < size; i++)
                value = value << 8 | at[i];
        return value;
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
        return value < most ? value : most;
}

static void has_size(struct media *media, uint32_t width, uint32_t height)
{
        media->state = OVER;
        if (!width || !height)
                return;
        media->width = at_most(width, MEDIA_SIDE_MOST);
        media->height = at_most(height, MEDIA_SIDE_MOST);
}

static void png(struct media *media)
{
        static const unsigned char first[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n',
                                               0,    0,   0,   13,  'I',  'H',  'D',  'R' };

        if (memcmp(media->head, first, sizeof(first)) == 0)
                has_size(media, number(media->head + 16, 4), number(media->head + 20, 4));
        else
                media->state = OVER;
}

/* SOF0 to SOF15 have the size; DHT, JPG and DAC are among their numbers. Picture data or the end before one: none. */
static unsigned char after_code(unsigned char code)
{
        if (code == 0xff) /* filling */
                return CODE;
        return code == 0x01 || (code >= 0xd0 && code <= 0xd8) ? MARK :
               code < 0xc0 || code == 0xd9 || code == 0xda    ? OVER :
                                                                LENGTH_HIGH;
}

static bool is_frame(unsigned char code)
{
        return code >= 0xc0 && code <= 0xcf && code != 0xc4 && code != 0xc8 && code != 0xcc;
}

static void length_known(struct media *media)
{
        media->n_bytes = 0;
        if (media->length < 2 || (is_frame(media->code) && media->length < 7)) {
                media->state = OVER;
                return;
        }
        media->length -= 2;
        media->state = is_frame(media->code) ? FRAME : media->length ? PASS : MARK;
}

static void take_byte(struct media *media, unsigned char byte)
{
        switch ((enum state)media->state) {
        case BEGIN:
                media->head[media->n_bytes++] = byte;
                media->state = byte == 0xff ? CODE : byte == 0x89 ? PNG : OVER;
                break;
        case PNG:
                media->head[media->n_bytes++] = byte;
                if (media->n_bytes == MEDIA_HEAD)
                        png(media);
                break;
        case MARK:
                media->state = byte == 0xff ? CODE : OVER;
                break;
        case CODE:
                media->code = byte;
                media->state = after_code(byte);
                break;
        case LENGTH_HIGH:
                media->length = (uint32_t)byte << 8;
                media->state = LENGTH_LOW;
                break;
        case LENGTH_LOW:
                media->length |= byte;
                length_known(media);
                break;
        case FRAME: /* precision, height, width */
                media->head[media->n_bytes++] = byte;
                if (media->n_bytes == 5)
                        has_size(media, number(media->head + 3, 2), number(media->head + 1, 2));
                break;
        case PASS:
                if (++media->n_bytes == media->length)
                        media->state = MARK;
                break;
        case OVER:
                break;
        }
}

/* The value of a base64 digit; 64: none. */
static uint32_t digit(char c)
{
        return c >= 'A' && c <= 'Z' ? (uint32_t)(c - 'A') :
               c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') + 26 :
               c >= '0' && c <= '9' ? (uint32_t)(c - '0') + 52 :
               c == '+'             ? 62 :
               c == '/'             ? 63 :
                                      64;
}

/* "data:image/png;base64," goes before; without it, it is base64 from the start. */
static void take_char(struct media *media, char c)
{
        uint32_t value = digit(c);

        if (!media->n_text++)
                media->is_address = c == 'd'; /* neither a PNG nor a JPEG begins so in base64 */
        if (media->is_address) {
                media->is_address = c != ',';
                return;
        }
        if (value == 64) {
                media->state = OVER;
                return;
        }
        media->bits = (media->bits << 6 | value) & 0xffff;
        media->n_bits = (unsigned char)(media->n_bits + 6);
        if (media->n_bits >= 8) {
                media->n_bits = (unsigned char)(media->n_bits - 8);
                take_byte(media, (unsigned char)(media->bits >> media->n_bits));
        }
}

/* In pieces of one size: the hash must not depend on the pieces of the body. */
static void hash_more(struct media *media, const char *text, size_t size)
{
        while (size) {
                size_t n = MEDIA_PIECE - media->n_piece < size ? MEDIA_PIECE - media->n_piece : size;

                memcpy(media->piece + media->n_piece, text, n);
                media->n_piece += (uint32_t)n;
                text += n;
                size -= n;
                if (media->n_piece == MEDIA_PIECE) {
                        media->hash = XXH3_64bits_withSeed(media->piece, MEDIA_PIECE, media->hash);
                        media->n_piece = 0;
                }
        }
}

uint64_t media_hash(struct media *media)
{
        return media->hash = XXH3_64bits_withSeed(media->piece, media->n_piece, media->hash);
}

void media_feed(struct media *media, const void *text, size_t size)
{
        const char *at = text;

        hash_more(media, text, size);

        for (size_t i = 0; i < size && media->state != OVER; i++) {
                take_char(media, at[i]);
                if (media->n_text == MEDIA_READ / 3 * 4)
                        media->state = OVER;
        }
}

/* ---- cost ------------------------------------------------------------------------------------------------ */

const struct media_family *media_family(const char *model)
{
        for (size_t i = 0; *model && i < ARRAY_SIZE(families) - 1; i++)
                if (strcasestr(model, families[i].word))
                        return &families[i];
        return &families[ARRAY_SIZE(families) - 1];
}

static uint32_t squares(uint32_t pixels, uint32_t side)
{
        uint32_t n = (pixels + side / 2) / side;

        return n ? n : 1;
}

/* The shape whose ratio is nearest; of equal ones the greater if the picture fills more than half of it. */
static uint32_t tiles(const struct media_family *f, uint32_t width, uint32_t height)
{
        double best = 1e9, area = (double)width * height, tile = (double)f->side * f->side;
        uint32_t result = 1;

        for (uint32_t n = 1; n <= f->most; n++)
                for (uint32_t across = 1; across <= n; across++) {
                        double far = (double)width / height - (double)across * across / n;

                        if (n % across)
                                continue;
                        far = far < 0 ? -far : far;
                        if (far > best || (far >= best && area <= 0.5 * tile * n))
                                continue;
                        best = far;
                        result = n;
                }
        return result;
}

uint32_t media_tokens(const struct media_family *f, enum media_kind kind, uint32_t width, uint32_t height)
{
        uint32_t n;

        if (kind != MEDIA_IMAGE)
                return kind == MEDIA_VIDEO ? f->video : 0;
        if (!width || !height)
                width = height = MEDIA_SIDE;
        if (f->form == FIXED)
                return f->tokens;
        if (f->form == TILES) {
                n = tiles(f, width, height);
                return (n > 1 ? n + 1 : 1) * f->tokens;
        }
        n = at_most(squares(at_most(width, MEDIA_SIDE_MOST), f->side) *
                            squares(at_most(height, MEDIA_SIDE_MOST), f->side),
                    f->most);
        return n > f->least ? n : f->least;
}

void media_put(struct prefix *prefix, uint64_t hash, uint32_t tokens)
{
        uint64_t fill[PREFIX_SMALL / sizeof(uint64_t)];
        size_t left = (size_t)tokens * PICK_BYTES_PER_TOKEN;

        for (size_t i = 0; i < ARRAY_SIZE(fill); i++)
                fill[i] = hash;
        prefix_text(prefix, &hash, sizeof(hash));
        left -= left < sizeof(hash) ? left : sizeof(hash);
        for (size_t n; left && prefix->n_blocks < PREFIX_BLOCKS; left -= n) {
                n = left < sizeof(fill) ? left : sizeof(fill);
                prefix_text(prefix, fill, n);
        }
}
