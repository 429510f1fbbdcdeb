/*
 * A copy of one kind of the API server's objects, kept: LIST in pages, then WATCH from there, for ever (net/http/watch.h).
 * Failures are repeated with growing pauses, up to 30 s, with chance in them.
 *
 * Threads: one per informer, its own; the watch's functions are called on it.
 */
#pragma once

#include "kube/client/api.h"
#include "net/http/watch.h"

#include <pthread.h>

struct informer {
        struct watch watch;
        struct api_settings api;
        void (*fail)(void *context, const char *why); /* for a log; context is the watch's */

        atomic_uint n_lists, n_streams, n_events;
        atomic_bool is_synced; /* there was a whole list */
        atomic_bool is_stale;  /* somebody wants a new list */
        pthread_t thread;
        bool is_started;
};

int informer_start(struct informer *informer); /* 0; -errno */
void informer_end(struct informer *informer);  /* after api.is_ending is true */

/* A new list is made, at once; there is none (is_synced) until it is whole. Any thread. */
void informer_renew(struct informer *informer);
