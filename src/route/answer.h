/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an answer of a replica means: the one place where the breaker, the retry and the learning of the rate look
 * (answers.def). Pure. Threads: any.
 *
 *      enum answer kind = answer_of_status(status, has_retry_after);
 *      if (kind == ANSWER_GOOD)
 *              kind = answer_begun(body so far, ...);
 *      answer_meaning(kind)->breaker ...
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum answer_breaker { BREAKER_CLEARS, BREAKER_KEEPS, BREAKER_COUNTS, BREAKER_TRIPS, BREAKER_FILLS };

enum answer_retry { RETRY_NEVER, RETRY_BOUGHT, RETRY_FREE };

enum answer {
        ANSWER_NONE, /* not known yet */
#define ANSWER(kind, breaker, retry, teaches) ANSWER_##kind,
#define STATUS(...)
#include "route/answers.def"
#undef ANSWER
#undef STATUS
        ANSWERS,
};

struct answer_meaning {
        const char *name; /* "good", "busy", ... */
        enum answer_breaker breaker;
        enum answer_retry retry;
        bool teaches;
};

const struct answer_meaning *answer_meaning(enum answer answer); /* ANSWER_NONE: as ANSWER_LEFT */

/* By the head alone. GOOD: its body decides, see answer_begun. */
enum answer answer_of_status(unsigned int status, bool has_retry_after);

/* How a body comes. */
struct answer_body {
        bool is_chunked, is_events; /* Transfer-Encoding: chunked; Content-Type: text/event-stream */
        bool must_say;              /* what was asked for has an answer that is not empty */
};

/*
 * Whether an answer has begun, from its body as far as it is there (as it came, with its chunks). Of an event stream,
 * comments, pings and what only announces an answer (response.created, message_start, a chunk that has only a role) are
 * no beginning: servers send them while the prompt is computed, or before.
 *
 * ANSWER_NONE: not yet; ANSWER_GOOD: begun, or ended as it should; ANSWER_ERROR: its first event is an error;
 * ANSWER_EMPTY: ended where it must say something.
 */
enum answer answer_begun(const void *body, size_t size, struct answer_body how);
