/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/scan_inside.h"

#include "base/cleanup.h"

#include <string.h>

static const struct key {
        const char *name;
        unsigned char below, action;
} keys[] = {
#define KEY(context, name, below, action) { name, below, action },
#include "route/request/keys.def"
#undef KEY
};

/* The same rows by what is compared first, so that a key that is none of them is known by these few bytes. */
#define TAG(context, size) ((uint16_t)((unsigned int)(context) << 8 | (unsigned int)(size)))
static const uint16_t tags[] = {
#define KEY(context, name, below, action) TAG(context, sizeof(name) - 1),
#include "route/request/keys.def"
#undef KEY
};

enum {
        NUMBER_LONG = SCAN_NUMBER - 8, /* there is room for ".11e-11" and its end */
};

static const char *const literals[] = { "true", "false", "null" };

void scan_begin(struct scan *scan, struct prefix *prefix)
{
        memset(scan, 0, sizeof(*scan));
        scan->prefix = prefix;
        scan->state = VALUE;
        scan->context = ROOT;
        scan->n = 1;
        scan->family = media_family("");
        prefix_begin(prefix);
}

void scan_family(struct scan *scan, const struct media_family *family)
{
        scan->family = family;
}

int scan_fail(struct scan *scan, int error)
{
        return scan->failed = error;
}

/* ---- values -------------------------------------------------------------- */

static struct scan_word *word_of(struct scan *scan, enum action action)
{
        return action == MODEL   ? &scan->model :
               action == SESSION ? &scan->session :
               action == LINK    ? &scan->session :
               action == USER    ? &scan->user :
               action == SALT    ? &scan->salt :
                                   NULL;
}

/* The rest of one that is too long to be known is left out. */
static void take_key(struct scan *scan, const char *text, size_t size)
{
        size_t room = SCAN_KEY - scan->n_key, n = size < room ? size : room;

        memcpy(scan->key + scan->n_key, text, n);
        scan->n_key += (uint32_t)n;
}

int scan_take_text(struct scan *scan, const char *text, size_t size)
{
        switch (scan->action) {
        case SKIP:
        case BACKGROUND:
                return SCAN_OK;
        case TEXT:
                prefix_text(scan->prefix, text, size);
                return SCAN_OK;
        case MEDIA:
                media_feed(&scan->medium, text, size);
                return SCAN_OK;
        case MARK:
                media_feed(&scan->mark, text, size);
                return SCAN_OK;
        case A_KEY:
                take_key(scan, text, size);
                if (scan->stack[scan->depth - 1] == TOKENS)
                        prefix_text(scan->prefix, text, size);
                return SCAN_OK;
        default:
                if (!scan->word)
                        return scan_fail(scan, SCAN_E_TYPE);
                if (size >= SCAN_WORD - scan->word->size)
                        return scan_fail(scan, SCAN_E_LONG);
                memcpy(scan->word->text + scan->word->size, text, size);
                scan->word->size += (uint32_t)size;
                return SCAN_OK;
        }
}

/* The kind is the outer key's: "image_url" has the part's text itself, or an object with it. */
static void set_action(struct scan *scan, unsigned char in, enum action action)
{
        bool is_media = action >= MEDIA && action <= VIDEO;

        if (is_media && in == CONTENT && scan_media_key(scan))
                scan->kind = action == IMAGE ? MEDIA_IMAGE : action == VIDEO ? MEDIA_VIDEO : MEDIA_OTHER;
        scan->action = is_media ? MEDIA : (unsigned char)action;
}

/* Finds the row of the key that was read; its value comes next. */
static void key_done(struct scan *scan)
{
        unsigned char in = scan->stack[scan->depth - 1];
        uint16_t tag = TAG(in, scan->n_key);

        scan->context = in == TOKENS ? TOKENS : IGNORED;
        scan->action = in == TOKENS ? TEXT : SKIP;
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (tags[i] == tag && !memcmp(keys[i].name, scan->key, scan->n_key)) {
                        scan->context = keys[i].below;
                        set_action(scan, in, keys[i].action);
                        return;
                }
}

static void model_done(struct scan *scan)
{
        const struct media_family *family = media_family(scan->model.text);

        scan->has_model |= scan->model.size != 0;
        scan->is_misjudged |= family != scan->family && scan->n_media;
        scan->family = family;
}

void scan_string_done(struct scan *scan)
{
        if (scan->action == A_KEY) {
                if (scan->stack[scan->depth - 1] == TOKENS)
                        prefix_text(scan->prefix, SCAN_SEPARATOR, 1);
                key_done(scan);
                scan->state = COLON;
                return;
        }
        if (scan->action == MEDIA || scan->action == MARK)
                scan_media_done(scan);
        if (scan->action == TEXT)
                prefix_text(scan->prefix, SCAN_SEPARATOR, 1);
        scan->has_prompt |= scan->action == TEXT || scan->action == MEDIA;
        if (scan->word)
                scan->word->text[scan->word->size] = '\0';
        if (scan->action == MODEL)
                model_done(scan);
        scan->has_link |= scan->action == LINK && scan->word->size;
        scan->state = AFTER;
}

static int number_done(struct scan *scan)
{
        int64_t whole;

        scan->number[scan->n_number] = '\0';
        scan->state = AFTER;
        if (scan->action == TEXT) { /* token ids */
                prefix_text(scan->prefix, scan->number, scan->n_number);
                prefix_text(scan->prefix, SCAN_SEPARATOR, 1);
                scan->has_prompt = true;
        }
        if (scan->action != PRIORITY && scan->action != MAXIMUM && scan->action != COUNT)
                return scan->action >= MODEL ? scan_fail(scan, SCAN_E_TYPE) : SCAN_OK;
        if (scan->is_long_number || !scan_whole_number(scan->number, &whole))
                return scan_fail(scan, SCAN_E_TYPE);
        if (scan->action == PRIORITY) {
                scan->priority_at = scan->at - scan->n_number;
                scan->n_priority = scan->n_number;
                scan->n_priorities++;
        }
        *(scan->action == PRIORITY ? &scan->priority : scan->action == MAXIMUM ? &scan->max_tokens : &scan->n) = whole;
        return SCAN_OK;
}

static int literal_done(struct scan *scan)
{
        scan->state = AFTER;
        if (scan->literal == 2) /* null: as if the key were absent */
                return SCAN_OK;
        if (scan->action != STREAM && scan->action != BACKGROUND)
                return scan->action >= MODEL ? scan_fail(scan, SCAN_E_TYPE) : SCAN_OK;
        *(scan->action == STREAM ? &scan->is_stream : &scan->is_background) = scan->literal == 0;
        return SCAN_OK;
}

/* ---- the grammar ----------------------------------------------------------------------------------- */

static int push(struct scan *scan, unsigned char what)
{
        if (scan->depth == SCAN_DEPTH)
                return scan_fail(scan, SCAN_E_DEPTH);
        if (scan->action >= MODEL && scan->depth && what != CONVERSATION)
                return scan_fail(scan, SCAN_E_TYPE);
        if (what == CONTENT)
                scan_part_begin(scan);
        scan->stack[scan->depth++] = what;
        scan->state = what & IS_ARRAY ? FIRST : KEY_FIRST;
        return SCAN_OK;
}

static int pop(struct scan *scan)
{
        if (scan->stack[--scan->depth] == CONTENT)
                scan_part_end(scan);
        scan->state = scan->depth ? AFTER : DONE;
        return SCAN_OK;
}

/* Elements of an array have its context. A string in `content` or `input` is text. */
static void element(struct scan *scan)
{
        unsigned char in = scan->stack[scan->depth - 1] & (unsigned char)~IS_ARRAY;

        scan->context = in;
        scan->action = in == TOKENS || in == CONTENT || in == MESSAGE ? TEXT : SKIP;
        scan->state = VALUE;
}

static void string_begin(struct scan *scan, enum action action)
{
        scan->action = (unsigned char)action;
        scan->word = word_of(scan, action);
        if (scan->word) {
                scan->word->size = 0;
                scan->word->text[0] = '\0';
        }
        scan->n_key = scan->surrogate = 0;
        if (action == MEDIA || action == MARK)
                media_begin(action == MEDIA ? &scan->medium : &scan->mark);
        scan->state = STRING;
}

/* A byte order mark may be before the object: some writers of UTF-8 put it there, and engines' readers skip it. */
static bool is_mark(struct scan *scan, char c)
{
        static const char mark[] = "\xef\xbb\xbf";
        bool is = scan->at < 3 && scan->literal == scan->at && c == mark[scan->at];

        scan->literal += is;
        return is;
}

static int value(struct scan *scan, char c)
{
        if (!scan->depth && is_mark(scan, c))
                return SCAN_OK;
        if (!scan->depth && (c != '{' || scan->literal % 3))
                return scan_fail(scan, SCAN_E_OBJECT);
        switch (c) {
        case '{':
                return push(scan, scan->context);
        case '[':
                return push(scan, scan->context | IS_ARRAY);
        case '"':
                if (scan->action >= STREAM && scan->action <= COUNT)
                        return scan_fail(scan, SCAN_E_TYPE);
                string_begin(scan, scan->action);
                return SCAN_OK;
        case 't':
        case 'f':
        case 'n':
                scan->literal = c == 't' ? 0 : c == 'f' ? 1 : 2;
                scan->n_number = 1;
                scan->state = LITERAL;
                return SCAN_OK;
        default:
                if (c != '-' && (c < '0' || c > '9'))
                        return scan_fail(scan, SCAN_E_JSON);
                scan->number[0] = c;
                scan->n_number = 1;
                scan->is_long_number = false;
                scan->state = NUMBER;
                return SCAN_OK;
        }
}

static int after(struct scan *scan, char c)
{
        bool is_array = scan->stack[scan->depth - 1] & IS_ARRAY;

        if (c == (is_array ? ']' : '}'))
                return pop(scan);
        if (c != ',')
                return scan_fail(scan, SCAN_E_JSON);
        if (is_array)
                element(scan);
        else
                scan->state = KEY_NEXT;
        return SCAN_OK;
}

/* One byte outside of strings, numbers and literals; not a blank. */
static int structure(struct scan *scan, char c)
{
        switch ((enum state)scan->state) {
        case VALUE:
                return value(scan, c);
        case FIRST:
                if (c == ']')
                        return pop(scan);
                element(scan);
                return value(scan, c);
        case KEY_FIRST:
                if (c == '}')
                        return pop(scan);
                /* fall through */
        case KEY_NEXT:
                if (c != '"')
                        return scan_fail(scan, SCAN_E_JSON);
                string_begin(scan, A_KEY);
                return SCAN_OK;
        case COLON:
                if (c != ':')
                        return scan_fail(scan, SCAN_E_JSON);
                scan->state = VALUE;
                return SCAN_OK;
        case AFTER:
                return after(scan, c);
        default:
                return scan_fail(scan, SCAN_E_JSON); /* something after the object */
        }
}

/* ---- bytes ------------------------------------------------------------------------------------------------ */

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

/* Of a long number the later digits of each run are left out: that makes no difference to its grammar. */
static void digit(struct scan *scan, char c)
{
        uint32_t n = scan->n_number;

        if (n >= NUMBER_LONG && is_digit(c) && is_digit(scan->number[n - 1]) && is_digit(scan->number[n - 2]))
                scan->is_long_number = true;
        else if (n == sizeof(scan->number) - 1)
                (void)scan_fail(scan, SCAN_E_JSON);
        else
                scan->number[scan->n_number++] = c;
}

/* A number ends with the byte after it, which is not used. */
static size_t number(struct scan *scan, char c)
{
        if (is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-') {
                digit(scan, c);
                return 1;
        }
        scan->number[scan->n_number] = '\0';
        if (!scan_is_number(scan->number))
                (void)scan_fail(scan, SCAN_E_JSON);
        else
                (void)number_done(scan);
        return 0;
}

static size_t step(struct scan *scan, const char *at, size_t size)
{
        switch ((enum state)scan->state) {
        case STRING:
        case ESCAPE:
        case UNICODE:
                return scan_string(scan, at, size);
        case NUMBER:
                return number(scan, *at);
        case LITERAL:
                if (*at != literals[scan->literal][scan->n_number])
                        (void)scan_fail(scan, SCAN_E_JSON);
                else if (!literals[scan->literal][++scan->n_number])
                        (void)literal_done(scan);
                return 1;
        default:
                if (*at != ' ' && *at != '\n' && *at != '\r' && *at != '\t')
                        (void)structure(scan, *at);
                return 1;
        }
}

int scan_feed(struct scan *scan, const void *data, size_t size)
{
        const char *at = data;

        for (size_t n; size && !scan->failed; at += n, size -= n) {
                n = step(scan, at, size);
                scan->at += n;
        }
        return scan->failed;
}

const char *scan_error(int error)
{
        static const char *const texts[] = {
                [SCAN_OK] = "",
                [SCAN_E_JSON] = "The body is not valid JSON",
                [SCAN_E_DEPTH] = "The body is nested too deeply",
                [SCAN_E_OBJECT] = "The body is JSON, but not an object",
                [SCAN_E_TYPE] = "A field has a value of the wrong type",
                [SCAN_E_LONG] = "The name of the model or of the session is too long",
                [SCAN_E_SHORT] = "The body ends before its JSON object does",
        };

        return error >= 0 && (size_t)error < ARRAY_SIZE(texts) ? texts[error] : texts[SCAN_E_JSON];
}

int scan_end(struct scan *scan)
{
        if (!scan->failed && scan->state != DONE)
                (void)scan_fail(scan, SCAN_E_SHORT);
        if (!scan->failed)
                prefix_bind(scan->prefix, scan->model.text, scan->model.size, scan->salt.text, scan->salt.size);
        return scan->failed;
}
