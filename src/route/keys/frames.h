/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server's side of a websocket says of tokens (RFC 6455): each text message is a document for usage.h, all of
 * them are added up. Bytes may come in pieces of any size; nothing is kept of them.
 *
 * Messages that are compressed or masked are skipped: who wants to read them does not let an extension be agreed on.
 *
 * Threads: a struct frames is one thread's.
 */
#pragma once

#include "route/keys/usage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        FRAMES_HEAD = 14, /* the longest head of a frame */
};

struct frames {
        struct usage usage;
        unsigned char head[FRAMES_HEAD];
        unsigned char n_head;
        uint64_t left;   /* bytes of the frame that is being read; all of its head is there */
        bool is_in_data; /* its head is there */
        bool is_text;    /* the message is one that is read */
};

void frames_begin(struct frames *frames);
void frames_feed(struct frames *frames, const void *data, size_t size);
