/*
 * Keeps a copy of one kind of object current: LIST in pages, then WATCH from there, until it is ended.
 *
 * A stream that ends is resumed. If the server no longer has the history (410, as a status or an event), the list is read
 * again. Failures are retried with growing pauses, up to 30 s, with jitter.
 *
 * Threads: one of its own, which calls begin, put, drop, end and fail.
 */
#pragma once

#include "kube/client/api.h"

#include <pthread.h>

struct informer {
        const char *path;   /* "/api/v1/pods" */
        const char *select; /* "&fieldSelector=..."; NULL: all objects */
        struct api_settings api;
        void *context;
        void (*begin)(void *context);
        int (*put)(void *context, const json_t *object); /* -ENOMEM: the list is read again */
        void (*drop)(void *context, const json_t *object);
        void (*end)(void *context);                   /* of a list: what was not put does not exist */
        void (*fail)(void *context, const char *why); /* for the log */

        atomic_uint n_lists, n_streams, n_events;
        atomic_bool is_synced; /* a whole list has been read */
        atomic_bool is_stale;  /* a new list was requested */
        pthread_t thread;
        bool is_started;
        char version[64];
};

int informer_start(struct informer *informer); /* 0; -errno */
void informer_end(struct informer *informer);  /* after api.is_ending is true */

/* Reads the list again, at once; is_synced is false until it is complete. Any thread. */
void informer_renew(struct informer *informer);

/* One line of a stream. 0; -ESTALE: read the list again; -EPROTO: not an event. */
int informer_take_event(struct informer *informer, const char *line, size_t size);
