/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 server for the test replica: one thread, epoll, keep-alive, chunked answers.
 *
 * Not libmicrohttpd: a replica must notice at once that a client left while it says nothing (a
 * suspended connection there notices nothing), and be able to reset, stall and talk nonsense on purpose.
 *
 * The caller owns the loop (http_poll with a timeout) and answers a request whenever it likes, from
 * the same thread. A struct http_conn is valid until on_gone() was called for it.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct http_conn;
struct http;

struct http_request {
        const char *method, *path, *query; /* query: "" if none; NUL-terminated */
        const char *body;                  /* valid until answered */
        size_t body_size;
        bool is_close; /* the client wants the connection closed afterwards */
};

struct http_calls {
        void (*request)(struct http_conn *conn, const struct http_request *request, void *listener);
        void (*gone)(struct http_conn *conn, void *listener); /* closed by the client before its answer ended */
};

int http_new(const struct http_calls *calls, struct http **ret, struct err *err);
struct http *http_free(struct http *http);

/* address: "HOST:PORT" (IPv4) or "unix:PATH". listener: handed to the calls. */
int http_listen(struct http *http, const char *address, void *listener, struct err *err);

/* Serves what there is; waits at most until `until` (INT64_MAX: for ever). -EINTR, or a failure of epoll. */
int http_poll(struct http *http, nsec until);

/* What belongs to this request, for the caller. */
void http_set(struct http_conn *conn, void *data);
void *http_get(struct http_conn *conn);

/* A whole answer. */
void http_reply(struct http_conn *conn, int status, const char *type, const char *body, size_t size);

/* An answer in pieces: begin, any number of chunks, end. */
void http_begin(struct http_conn *conn, int status, const char *type);
void http_chunk(struct http_conn *conn, const char *data, size_t size);
void http_end(struct http_conn *conn);

void http_raw(struct http_conn *conn, const char *data, size_t size); /* these bytes, and nothing about them */
void http_close(struct http_conn *conn, bool reset);                  /* now; reset: with RST. No gone() */
