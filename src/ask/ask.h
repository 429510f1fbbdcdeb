/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the daemon's API: HTTP and JSON over the socket DIR/sublet.sock (docs/api.md).
 *
 * What goes wrong is said in one line with the next step: no daemon, not allowed, what the daemon answered. A daemon
 * that does not answer within ASK_SECONDS is given up.
 *
 * Threads: an ask belongs to one. It is made once per verb and keeps its connection.
 */
#pragma once

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct ask;
struct err;

enum {
        ASK_SECONDS = 10,
        ASK_PATH = 512,
};

/* dir: NULL is $SUBLET_DIR, or else /run/sublet. Nothing is connected yet. 0; -errno. */
int ask_new(const char *dir, struct ask **ret, struct err *err);
struct ask *ask_free(struct ask *ask);
void ask_freep(struct ask **ask);

/*
 * One question; *ret is the caller's (json_decref). body: borrowed, NULL is none.
 *
 * 0; -ENOENT: there is no such tenant; -EACCES; -EBUSY: it does not fit; -ECONNREFUSED: no daemon; -EPROTO: an answer
 * that is none; -EIO. err always says it.
 */
int ask_get(struct ask *ask, const char *path, json_t **ret, struct err *err);
int ask_patch(struct ask *ask, const char *path, const json_t *body, json_t **ret, struct err *err);
/* A change that takes its time: the answer is waited for as long as `limit`. */
int ask_patch_within(struct ask *ask, const char *path, const json_t *body, nsec limit, json_t **ret, struct err *err);
int ask_put(struct ask *ask, const char *path, const json_t *body, json_t **ret, struct err *err);
int ask_delete(struct ask *ask, const char *path, struct err *err);

/* Receives an answer: `size` bytes, and a NUL after a line. A result that is not 0 ends the call, which returns it. */
typedef int ask_taker(void *context, char *data, size_t size);

/* The answer in arbitrary pieces as they arrive, for at most `limit` (0: without end); or line by line, without line
 * ends and empty lines, for as long as it lasts. `take` is called for a successful answer only. */
int ask_stream(struct ask *ask, const char *path, nsec limit, ask_taker *take, void *context, struct err *err);
int ask_lines(struct ask *ask, const char *path, ask_taker *take, void *context, struct err *err);

/* Whether the latest question made a connection of its own: what answered may be another daemon than before. */
bool ask_is_anew(const struct ask *ask);

/* "/v1/tenants/" and a name, with what a URL cannot have quoted; and a query's value: "/v1/events" "since" "2d".
 * -ENAMETOOLONG. `path` has ASK_PATH bytes. */
int ask_path(char *path, const char *prefix, const char *name);
int ask_query(char *path, const char *key, const char *value);
