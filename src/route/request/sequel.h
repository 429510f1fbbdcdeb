/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of a text completion that can go on at another replica: what of it was given, and the request for the
 * rest of it (X-Sublet-Resume). Pure.
 *
 *      if (sequel_may(body, ...) && sequel_init(&sequel, room) == 0)
 *              each piece of the answer:
 *                      if (nothing of it is on its way) sequel_gone(&sequel);
 *                      if (!sequel_feed(&sequel, piece, n)) ...        from here on nothing is kept back
 *                      sequel_take(&sequel, &at, &size);               whole events, to be sent
 *              where it broke off: if (sequel_is_open(&sequel)) sequel_body(&sequel, body, ...)
 *
 * 1. Only whole events are given: one that was cut is forgotten, and its token comes again.
 * 2. What cannot be understood ends it: is_lost. All that is there is given then, and the stream is as any other.
 * 3. An event with a choice counts as a token.
 *
 * Threads: a struct sequel is one thread's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        SEQUEL_EVENT = 4096,           /* a longer event may end it */
        SEQUEL_TEXT = 1024 * 1024,     /* a longer answer does */
        SEQUEL_BODY = 4 * 1024 * 1024, /* a longer request has none */
};

struct sequel {
        bool is_over; /* its finish_reason or [DONE] has been given, or is about to be */
        bool is_lost;
        uint32_t n_tokens, max_tokens;

        char *buffer; /* on its way up to n_given, whole events up to n_whole, a part of one up to size */
        size_t room, n_given, n_whole, size;
        char *text; /* UTF-8, all of the whole events */
        size_t n_text, text_room;
};

/* Whether the answer to this request could go on elsewhere; ret_max_tokens: of the request. */
bool sequel_may(const void *body, size_t size, uint32_t *ret_max_tokens);

/* room: of what may be on its way at once, besides a part of an event. -ENOMEM. */
int sequel_init(struct sequel *sequel, size_t room);
void sequel_done(struct sequel *sequel); /* also of one that is all zero */

/* False: no room, and nothing of it was kept. It is lost. */
bool sequel_feed(struct sequel *sequel, const void *data, size_t size);

/* What can be sent and was not taken yet; valid until sequel_gone. Of one that is lost or over: all there is. */
void sequel_take(struct sequel *sequel, const char **ret, size_t *ret_size);

void sequel_gone(struct sequel *sequel); /* all that was taken was sent */
void sequel_cut(struct sequel *sequel);  /* the answer broke off: the rest comes from elsewhere */

bool sequel_is_open(const struct sequel *sequel); /* something is missing, and can be asked for */

/* The request for the rest: to be freed. NULL: no memory, or `body` is not what sequel_may has seen. */
char *sequel_body(const struct sequel *sequel, const void *body, size_t size, size_t *ret_size);
