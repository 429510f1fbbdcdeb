/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIST, then WATCH, of one kind of a Kubernetes API server's objects: what to ask for next, and what the answer means.
 * It makes no calls.
 *
 *      is_stream = watch_next(&watch, path);
 *      ...                                     GET path
 *      watch_page(&watch, r, status, page);    of a list: one page; too large a page is asked for again, smaller
 *      watch_line(&watch, line, size);         of a stream: each line as it comes,
 *      watch_ended(&watch, r, status);         and its end
 *
 * A stream that ends continues where it was. History that the server no longer has (410, as status or as event) means a
 * new list.
 *
 * Threads: one.
 */
#pragma once

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
        WATCH_PATH = 1024,
        WATCH_SECONDS = 240, /* the server ends a stream then */
};

#define WATCH_LIMIT ((WATCH_SECONDS + 10) * NSEC_PER_SEC) /* ... and the client, if the server has not */

struct watch {
        const char *path;   /* "/api/v1/pods" */
        const char *select; /* "&fieldSelector=...": which of them; NULL: all */
        void *context;
        void (*begin)(void *context);                    /* of a list */
        int (*put)(void *context, const json_t *object); /* -ENOMEM means a new list */
        void (*drop)(void *context, const json_t *object);
        void (*end)(void *context); /* of a list: what was not put does not exist */

        bool is_listed, is_listing;             /* is_listed: there was a whole list, and the stream is next */
        unsigned int limit;                     /* objects of a page */
        size_t most;                            /* bytes of the answer that is asked for */
        char version[64], next[WATCH_PATH / 2]; /* next: of the list, "" at its beginning; quoted */
};

/* The next request's path; true: its answer is a stream of lines. */
bool watch_next(struct watch *watch, char path[static WATCH_PATH]);

/* r, status: how the call ended; -EMSGSIZE: the answer was larger than `most`. 0: ask for what is next; -ESTALE,
 * -EPROTO, -ENOMEM, -EIO or r: the next list begins anew. */
int watch_page(struct watch *watch, int r, long status, const json_t *page);

/* 0; -ESTALE: list again; -EPROTO: this is not an event. What is not 0 has to end the call, as its r. */
int watch_line(struct watch *watch, const char *line, size_t size);
int watch_ended(struct watch *watch, int r, long status);

void watch_renew(struct watch *watch); /* a new list is next */
