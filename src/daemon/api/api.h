/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API: a request and its caller in, a response out (docs/api.md). No sockets here: http.c carries requests, and a
 * fuzz target calls api_answer directly.
 *
 * Some answers take time: a change waits for the tenant's shim, a trace for its span, a follower for the next event.
 * Those set `wait`, and api_continue is called when something has happened.
 *
 * This room reads and changes daemon/state and daemon/store, and knows no other socket than its own. Thread: the loop.
 * Nothing blocks, except that a first lease asks NVML (daemon/state/mig.h).
 */
#pragma once

#include "daemon/state/daemon.h"
#include "daemon/api/page/assets.h"

#include <jansson.h>

enum {
        API_VERSION = 1,
        API_BODY_MAX = 256 * 1024,
        API_ARGUMENTS = 16,

        API_OK = 200,
        API_BAD_REQUEST = 400,
        API_UNAUTHORIZED = 401,
        API_FORBIDDEN = 403,
        API_NOT_FOUND = 404,
        API_NOT_ALLOWED = 405,
        API_CONFLICT = 409,
        API_TOO_LARGE = 413,
        API_FAILED = 500,
        API_UNAVAILABLE = 503,
        API_TIMEOUT = 504,
};

struct api_argument {
        const char *name, *value; /* of the query, decoded; value may be NULL */
};

struct api_request {
        const char *method, *path; /* the path decoded, without the query */
        struct api_argument arguments[API_ARGUMENTS];
        size_t n_arguments;
        const char *body;
        size_t body_size;

        uid_t uid;         /* of the caller */
        bool sees_all;     /* the caller is root, the daemon's own user, or came over TCP */
        bool may_only_ask; /* TCP */
};

enum api_wait {
        API_WAIT_NOT,    /* the response is complete */
        API_WAIT_SET,    /* for the shim's answer to a change */
        API_WAIT_MOVED,  /* until the tenant is suspended, or is not */
        API_WAIT_TIME,   /* for the end of a trace */
        API_WAIT_EVENTS, /* without end: lines of events, by api_follow */
};

struct api_response {
        int status;
        const char *type;               /* Content-Type */
        const struct page_asset *asset; /* instead of a body */
        char *body;                     /* malloc'd; NULL: empty */
        size_t size;

        enum api_wait wait;
        nsec since, deadline;    /* clock_now */
        uint64_t tenant, serial; /* API_WAIT_SET, _MOVED: there, how often it had come there before */
        bool suspends;           /* API_WAIT_MOVED */
        uint64_t event_id;       /* API_WAIT_EVENTS: the latest seen */
        char only[64];           /* of this tenant only; "": of all */
        int64_t owner;           /* of this user only; -1: of all */
};

/* Fills *ret, which api_done frees. */
void api_answer(struct daemon *daemon, const struct api_request *request, struct api_response *ret);

/* For API_WAIT_SET, _MOVED and _TIME. True: the response is complete now, and wait is API_WAIT_NOT. */
bool api_continue(struct daemon *daemon, struct api_response *response);

/* For API_WAIT_EVENTS: the next lines, as many as fit. Bytes written; 0: none now. */
size_t api_follow(struct daemon *daemon, struct api_response *response, char *buffer, size_t room);

void api_done(struct api_response *response);

/* ---- between the files of the API --------------------------------------------------------------- */

#define API_ROUTE(method, path, handler, meaning)                                                                      \
        void api_##handler(struct daemon *daemon, const struct api_request *request, const char *name,                 \
                           struct api_response *ret);
#include "daemon/api/api.def"
#undef API_ROUTE

const char *api_argument(const struct api_request *request, const char *name); /* NULL: not given; "" without value */
bool api_sees(const struct api_request *request, const struct tenant *tenant);

void api_json(struct api_response *ret, int status, json_t *body); /* consumes body; NULL: API_FAILED */
void api_text(struct api_response *ret, const char *type, char *text, size_t size); /* takes over text */
void api_error(struct api_response *ret, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The tenant of a path, if the caller may see it; NULL: the error is in *ret. */
struct tenant *api_tenant_of(struct daemon *daemon, const struct api_request *request, const char *name,
                             struct api_response *ret);

json_t *api_tenant_json(struct daemon *daemon, struct tenant *tenant);
/* api_holdings.c: parts of that, for one device. Of loans with `is_lender` those that it gave. */
json_t *api_holders(const struct tenant *tenant, unsigned int device);
json_t *api_pid(const struct tenant *tenant); /* of its oldest process, or null */
json_t *api_loans(const struct daemon *daemon, const struct tenant *tenant, unsigned int device, bool is_lender);
/* Puts `minute_permille` into each device of a tenant's JSON, the oldest second first. */
void api_minute_put(const struct tenant *tenant, json_t *body);
json_t *api_event_json(const struct event *event);
void api_trace_end(struct daemon *daemon, struct api_response *response);
/* api_suspend.c: a change that is "suspended". False: it is another one. */
bool api_suspend(struct daemon *daemon, const struct api_request *request, struct tenant *tenant,
                 struct api_response *ret);
bool api_suspend_is_over(struct daemon *daemon, struct api_response *response);
void api_change_end(struct daemon *daemon, struct api_response *response, struct tenant *tenant);

/* The time of `since=` or another `name`; `otherwise` if it is not given. False: the error is in *ret. */
bool api_time(const struct api_request *request, const char *name, nsec otherwise, nsec *ret_time,
              struct api_response *ret);
