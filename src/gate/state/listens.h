/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tenant has in the driver's list of events of the operating system (requests 0xce and 0xcf): a client and a
 * number each.
 *
 * The list is one for the whole machine. The driver walks it from end to end, under a spin lock with interrupts off,
 * for each of these requests and for each event object, of everybody; it bounds nothing, and takes any number. So a
 * tenant has LISTENS_MAX at most: a CUDA process has 9 for each device. Nothing is in the list twice.
 * Source: allocate_os_event, free_os_event (osapi.c), osUserHandleToKernelPtr (os.c), 525 to 595.
 *
 * One goes when it is freed, when its client is, or with the file that it was made on, which is seldom the client's. Of
 * the last nothing is seen; so those of clients that are gone are asked about when there are too many.
 *
 * The caller locks.
 */
#pragma once

#include "base/map.h"

enum {
        LISTENS_MAX = 16384,
};

struct listens {
        struct map numbers;
        size_t from; /* where listens_some goes on */
};

void listens_done(struct listens *listens);

/* 0; -EEXIST: it is there; -ENOSPC: there are too many; -ENOMEM. */
int listens_put(struct listens *listens, uint32_t client, uint32_t number);
void listens_take(struct listens *listens, uint32_t client, uint32_t number);

/* At most n_room of clients that are gone; each call goes on where the last one ended. How many. */
struct listen {
        uint32_t client, number;
};
size_t listens_some(struct listens *listens, bool (*is_gone)(void *context, uint32_t client), void *context,
                    struct listen *ret, size_t n_room);
