/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the body of a request in one pass: the fields that the router needs, and the prompt's text into a prefix.
 *
 * A JSON reader without a tree: it checks the grammar, keeps a stack of contexts, and knows the few keys that matter
 * (keys.def). Bytes may come in pieces of any size. It reads each byte about once and allocates nothing.
 *
 * A body that is not one JSON object is refused: a request that an engine would answer with 400 must not wait in a
 * queue. Of two equal keys the last counts, as for the engines' own readers.
 *
 * Threads: a struct scan is one thread's.
 */
#pragma once

#include "route/prefix.h"
#include "route/request/media.h"

#include <stdbool.h>

enum {
        SCAN_OK,
        SCAN_E_JSON,   /* not JSON; scan->at is where */
        SCAN_E_DEPTH,  /* nested deeper than SCAN_DEPTH */
        SCAN_E_OBJECT, /* JSON, but no object */
        SCAN_E_TYPE,   /* a known key has a value of another type */
        SCAN_E_LONG,   /* the model or a session key is longer than SCAN_WORD - 1 bytes */
        SCAN_E_SHORT,  /* the body ends before the object does */

        SCAN_DEPTH = 64,
        SCAN_WORD = 256,
        SCAN_KEY = 32,
        SCAN_NUMBER = 32,
};

struct scan_word {
        char text[SCAN_WORD]; /* unescaped; NUL-terminated */
        uint32_t size;
};

struct scan {
        /* The result. */
        struct scan_word model, session, user, salt;
        bool has_model, is_stream, is_background, has_prompt;
        bool has_link;                     /* it goes on with something that one replica has stored */
        int64_t priority;                  /* as engines mean it: the lower goes first */
        uint64_t priority_at;              /* where the digits of the last one stand in the body */
        uint32_t n_priority, n_priorities; /* how many digits; how often the key is there */
        int64_t max_tokens, n;
        uint32_t n_media;
        bool is_misjudged; /* the model's family came after its media: scan again with it, see scan_family() */
        uint64_t at;       /* bytes read; on failure where it stopped */

        /* The state of the reader. */
        struct prefix *prefix;
        int failed;
        unsigned char state, literal, depth, action, escape;
        unsigned char stack[SCAN_DEPTH]; /* enum context, with a bit for an array */
        unsigned char context;           /* of the next value */
        char key[SCAN_KEY];
        uint32_t n_key;
        char number[SCAN_NUMBER];
        uint32_t n_number;
        bool is_long_number; /* not all of its digits are there */
        uint32_t unicode, surrogate;
        struct scan_word *word;
        const struct media_family *family;
        struct media medium;
        struct media mark;            /* its hash */
        unsigned char kind;           /* enum media_kind */
        bool has_media_key, has_mark; /* of the part it is in */
        bool is_medium_due;           /* its medium is read, and not in the prefix yet */
        uint64_t medium_hash;
        uint32_t medium_tokens;
};

const char *scan_error(int error); /* what to tell the client; a sentence without its full stop */

void scan_begin(struct scan *scan, struct prefix *prefix);
void scan_family(struct scan *scan, const struct media_family *family); /* of a model not yet read; after begin */
int scan_feed(struct scan *scan, const void *data, size_t size);        /* SCAN_OK, or the error; then always that */
int scan_end(struct scan *scan); /* the body is complete; binds the prefix to model and salt */
