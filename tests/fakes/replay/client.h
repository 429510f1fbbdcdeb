/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many OpenAI requests at once over one address, one thread: send, time the first byte and the end.
 * Connections are kept and reused.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum call_outcome {
        CALL_OK,      /* 200, complete */
        CALL_REFUSED, /* 429 or 503 */
        CALL_STATUS,  /* another status */
        CALL_EARLY,   /* the connection failed before the first byte of the body */
        CALL_LATE,    /* ... after it */
        CALL_LEFT,    /* we left, as planned */
        CALL_OUTCOMES,
};

struct call {
        const char *body;
        size_t body_size;
        nsec leave_at; /* close the connection then; INT64_MAX: never */
        /* results: */
        enum call_outcome outcome;
        int status;
        nsec sent_at, first_at, end_at;
        size_t n_events; /* server-sent */
};

struct client;

/* address: "HOST:PORT" (IPv4) or "unix:PATH"; path: of the requests. done: called once per call. */
int client_new(const char *address, const char *path, void (*done)(struct call *call, void *context), void *context,
               struct client **ret, struct err *err);
struct client *client_free(struct client *client);

void client_send(struct client *client, struct call *call); /* body is copied */
void client_poll(struct client *client, nsec until);
size_t client_n_open(const struct client *client); /* calls under way */
