/* SPDX-License-Identifier: Apache-2.0 */
/* Inside gpu/copy: the state, and the room in host memory. */
#pragma once

#include "base/text.h"
#include "gpu/client.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_copy;

enum {
        ROOM_PIECES = 4096,

        COPY_CLASS = 0xc8b5, /* of an engine's object */

        /* The object of host memory: the ring, then the words of each entry, then the word that counts copies. */
        COPY_ENTRIES = 512,
        COPY_ENTRY_WORDS = 32,
        COPY_WORDS_AT = 0x2000,
        COPY_DONE_AT = COPY_WORDS_AT + COPY_ENTRIES * COPY_ENTRY_WORDS * 4,
        COPY_OBJECT_BYTES = 1 << 20,
};

struct copy_channel {
        uint32_t group, handle, token; /* 0: not made */
        uint32_t memory, error, positions, bell;
        char *host;               /* the object of ring, words and count, as the processor sees it */
        volatile uint32_t *userd; /* video memory, through the bus */
        volatile uint32_t *doorbell;
        uint64_t at;             /* where the engine sees the object */
        uint32_t entry, n_asked; /* the next entry; copies ever asked for */
};

struct room_piece {
        char *memory; /* NULL: not made */
        bytes size;
        uint64_t at; /* where the engine sees it, of one that is ready */
};

/* Host memory: pieces of which the first are touched, and of those the first are ready. */
struct room {
        bytes (*host_available)(bytes *ret_total); /* without swapping; UINT64_MAX: it does not say */
        int (*node_of)(const struct rm_device *);  /* whose memory is near the device; -1: not known */
        int node;
        struct room_piece pieces[ROOM_PIECES];
        size_t n; /* changed while no thread runs */
        pthread_t threads[2];
        size_t n_threads;
        pthread_mutex_t mutex; /* a leaf: these */
        pthread_cond_t changed;
        size_t n_touched, n_ready;
        int error; /* of a thread; there will be no more until room_grow */
};

struct gpu_copy {
        const struct gpu_backend *backend;
        unsigned int device;
        bool is_open;
        struct gpu_client client;
        uint32_t space, range;
        uint32_t first;         /* handle of the next object, when only the client itself had been made */
        atomic_bool is_leaking; /* the driver has refused to free an object of ours: it is there while the client is */
        struct copy_channel channel;
        struct room room;
};

/* A call of our client's: 0; as client_error. */
int copy_call(struct gpu_copy *copy, int fd, uint32_t nr, void *block, uint32_t size, uint32_t status_at);

/* Frees an object of ours, if it is not 0. 0; -errno: is_leaking. */
int copy_free(struct gpu_copy *copy, uint32_t object);

/* A channel, once; -ENOTSUP: no engine takes one. copy_channel_end: also of what was begun only. */
int copy_channel_begin(struct gpu_copy *copy);
void copy_channel_end(struct gpu_copy *copy);

/* Where the engine sees a memory of ours from now on; and no more. */
int copy_map(struct gpu_copy *copy, uint32_t memory, bytes size, bool is_host, uint64_t *ret);
void copy_unmap(struct gpu_copy *copy, uint32_t memory, uint64_t at, bytes size);

void room_init(struct room *room);

/* The room will have at least `size` bytes: threads make what is missing, and what could not be made before. What is
 * ready stays as it is. -ENOMEM: the host has not so much to give. */
int room_grow(struct gpu_copy *copy, bytes size);

/* Where the engine sees an offset of the room, and how much stands there in a row; waits until it does. -ENOMEM;
 * -ETIMEDOUT; -errno. */
int room_at(struct gpu_copy *copy, bytes offset, uint64_t *ret, bytes *ret_length);

/* No thread runs: how much is ready; and no more than so much is there from here on. */
bytes room_size(const struct room *room);
void room_shrink(struct gpu_copy *copy, bytes size);

/* For the threads, before a client that they call with may go. */
void room_wait(struct gpu_copy *copy);

/* After the client has gone: the memory goes back to the host. */
void room_clear(struct gpu_copy *copy);
