/*
 * A copy of one kind of the API server's objects, kept: LIST in pages, then WATCH from there, for ever.
 *
 * A stream that ends is taken up where it was; history that the server no longer has (410, as status or as event) means
 * a new list; failures are repeated with growing pauses (up to 30 s, with chance in them).
 *
 * Threads: one per mirror, its own; the functions below `begin` are called on it.
 */
#pragma once

#include "kube/client/api.h"

#include <pthread.h>

struct informer {
        const char *path;   /* "/api/v1/pods" */
        const char *select; /* "&fieldSelector=...": which of them; NULL: all */
        struct api_settings api;
        void *context;
        void (*begin)(void *context);
        int (*put)(void *context, const json_t *object); /* a failure means a new list */
        void (*drop)(void *context, const json_t *object);
        void (*end)(void *context);                   /* of a list: what was not put is not there */
        void (*fail)(void *context, const char *why); /* for a log */

        atomic_uint n_lists, n_streams, n_events;
        atomic_bool is_synced; /* there was a whole list */
        atomic_bool is_stale;  /* somebody wants a new list */
        pthread_t thread;
        bool is_started;
        char version[64];
};

int informer_start(struct informer *informer); /* 0; -errno */
void informer_end(struct informer *informer);  /* after api.is_ending is true */

/* A new list is made, at once; there is none (is_synced) until it is whole. Any thread. */
void informer_renew(struct informer *informer);

/* One line of a stream, for tests and fuzzers too. 0; -ESTALE: list again; -EPROTO: not an event. */
int informer_take_event(struct informer *informer, const char *line, size_t size);
