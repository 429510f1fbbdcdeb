/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what an answer says of its tokens, wherever that stands in it: `usage` of the object itself, of its `response`
 * (events of the Responses API), or of its `message` (events of the Anthropic API). All else is skipped: text that a
 * model or a client wrote is inside of strings or deeper, and cannot say it.
 *
 * A reader without a tree: it keeps where it is in the few objects that matter, and a depth. Bytes may come in pieces
 * of any size. It reads each byte about once and allocates nothing. Of several figures for the same thing the largest
 * counts: those of a stream grow.
 *
 * Server-sent events are documents one after the other, each between `data:` and the empty line. They tell of one
 * answer. Documents of the form `many` (lines of a file of results, messages of a session) tell of one answer each, and
 * are added up.
 *
 * Threads: a struct usage is one thread's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        USAGE_WORD = 32, /* longest word that is told from others, and NUL */
        USAGE_ID = 96,   /* longest id that is kept, and NUL */
};

#define USAGE_MAX (1ull << 40) /* of a figure; what is more counts as this */

enum usage_form { USAGE_ONE, USAGE_EVENTS, USAGE_MANY };

struct usage {
        /* The result, as far as it was read. */
        bool is_said; /* it has a figure */
        uint64_t prompt, answer, total;
        uint64_t earlier;         /* of the form `many`: tokens of the documents that have ended */
        uint64_t cached, caching; /* of the prompt and not in it: as the Anthropic API counts */
        char id[USAGE_ID]; /* of the object, or of its response; "": none, or one that is longer or has escapes */

        /* The state of the reader. */
        enum usage_form form;
        bool is_number;
        unsigned char line;          /* enum line: where in a line of events */
        unsigned char n_line;        /* bytes of its name */
        unsigned char state;         /* enum state */
        unsigned char where, key;    /* enum place: the object it is in; what its last name means */
        unsigned char above, around; /* the object around `usage`, and the one around an answer */
        bool is_name;                /* the next string is a name */
        uint32_t skipped;            /* depth inside of what is skipped */
        uint32_t n_word;
        char word[USAGE_WORD];
        uint64_t number;
};

void usage_begin(struct usage *usage, enum usage_form form);
void usage_feed(struct usage *usage, const void *data, size_t size);

/* A document has ended, wherever it was: the next byte begins another. */
void usage_next(struct usage *usage);

/* Tokens of prompt and answer together; 0 if nothing was said. */
uint64_t usage_tokens(const struct usage *usage);
