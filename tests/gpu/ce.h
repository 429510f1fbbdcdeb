/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy engine by plain driver calls, without libcuda: a client, an address space that the driver manages, channels
 * with a ring in host memory, and copies between what is mapped there. For movefacts.c; release 580, Hopper's classes
 * (channel 0xc86f, copies 0xc8b5, doorbell 0xc661), which every chip since Turing has under other numbers.
 *
 *      struct ce ce;
 *      struct ce_channel channel;
 *
 *      if (ce_open(&ce) && ce_channel_open(&ce, 11, &channel)) {
 *              at = ce_map(&ce, memory, bytes, 0);             addresses are the engine's, 0 is none
 *              ce_copy(&channel, to, at, bytes);
 *              ce_wait(&channel, 5);
 *      }
 *
 * Each call that the driver refuses is a line on stdout with its status; the function then says false or 0. One thread
 * at a time. What was made goes with the process.
 */
#pragma once

#include "../hostile/kit.h"

#define GIB (1ull << 30)

enum {
        CE_MEMORY_FIRST = 0x5ce00000, /* handles that are the caller's to choose, 0x100000 of them */
};

struct ce {
        struct kit_rm rm;
        uint32_t space, dma, next; /* next: a handle that is free */
        volatile uint32_t *doorbell;
};

struct ce_channel {
        struct ce *ce;
        uint32_t engine, group, handle, token, entry;
        uint64_t *ring;           /* entries of 8 bytes, host memory */
        uint32_t *words;          /* methods, host memory; the same object as the ring */
        volatile uint32_t *userd; /* video memory, through the bus */
        volatile uint32_t *done;  /* what the engine wrote last, host memory */
        uint64_t at;              /* where the engine sees the object of ring, words and done */
        uint32_t n;               /* copies asked for */
};

bool ce_open(struct ce *ce);
bool ce_channel_open(struct ce *ce, uint32_t engine, struct ce_channel *channel);
void ce_channel_close(struct ce_channel *channel);

/* A handle that is free. */
uint32_t ce_handle(struct ce *ce);

/* Video memory; 0: refused. */
uint32_t ce_video(struct ce *ce, uint64_t bytes);

/* The processor's memory, registered with the driver (class 0x71); 0: refused. `at` and `bytes` are whole pages. */
uint32_t ce_register(struct ce *ce, void *at, uint64_t bytes);

/* Takes a reference to another client's object; 0: refused, *ret_status says why. */
uint32_t ce_dup(struct ce *ce, uint32_t client, uint32_t object, int64_t *ret_status);

void ce_free(struct ce *ce, uint32_t object);

/* Where the engine sees it; 0: refused. */
uint64_t ce_map(struct ce *ce, uint32_t memory, uint64_t bytes, bool is_host);
int64_t ce_unmap(struct ce *ce, uint32_t memory, uint64_t at, uint64_t bytes);

/* Puts one copy in the ring, and rings; waits for room. false: no room in 5 s. */
bool ce_copy(struct ce_channel *channel, uint64_t to, uint64_t from, uint64_t bytes);

/* All copies asked for are done, their contents can be seen. false: not in so many seconds. */
bool ce_wait(struct ce_channel *channel, double seconds);

/* KiB that the device has free by its own account; -1: not known. */
int64_t ce_free_kib(struct ce *ce);

/* Host memory of huge pages, touched by several threads; NULL: none. *ret_pages says of what kind. */
void *ce_host_memory(uint64_t bytes, const char **ret_pages);

double ce_now(void);
void ce_say(const char *what, struct kit_outcome outcome);
