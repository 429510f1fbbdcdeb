/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that are linked through a member of their items; what the client's and the server's sides share. */
#pragma once

#include <stddef.h>

/* Takes an item out of the list; does nothing if it is not in it. */
#define LIST_REMOVE_BY(head, item, link)                                                                               \
        do {                                                                                                           \
                __typeof__(head) at_ = (head);                                                                         \
                while (*at_ && *at_ != (item))                                                                         \
                        at_ = &(*at_)->link;                                                                           \
                if (*at_)                                                                                              \
                        *at_ = (item)->link;                                                                           \
        } while (0)

#define LIST_REMOVE(head, item) LIST_REMOVE_BY(head, item, next)

/* The struct whose member the pointer names. */
#define CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
