/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of one kind of the API server's objects, kept: LIST in pages, then WATCH from there, for ever
 * (net/http/watch.h). Failures are repeated with growing pauses, up to 30 s unless the owner says less, with chance in
 * them: a part that runs on each node of a large cluster must not keep an API server down that has just come back.
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
        unsigned int pause_most_msec;                 /* between failures; 0: 30 s */

        atomic_uint n_lists, n_streams, n_events;
        atomic_bool is_synced; /* a whole list has been read */
        atomic_bool is_stale;  /* a new list was requested */
        pthread_t thread;
        bool is_started;
};

int informer_start(struct informer *informer); /* 0; -errno */
void informer_end(struct informer *informer);  /* after api.is_ending is true */

/* Reads the list again, at once; is_synced is false until it is complete. Any thread. */
void informer_renew(struct informer *informer);
