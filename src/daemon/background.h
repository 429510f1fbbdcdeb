/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that waits for something and hands what it finds to the loop, through a pipe. */
#pragma once

#include "base/loop.h"

#include <pthread.h>
#include <stdatomic.h>

/* Zero is one that has not started. */
struct background {
        struct loop *loop;
        struct loop_source source; /* the pipe's reading end, non-blocking */
        pthread_t thread;
        int pipe[2];
        atomic_bool is_ending; /* run() returns soon after it is set */
};

/* Starts run(context) on the thread; `ready` is called on the loop with source->context == context. What is written
 * must not be larger than PIPE_BUF, so that it is read whole. 0; -errno. */
int background_start(struct background *background, struct loop *loop, void *(*run)(void *context),
                     void (*ready)(struct loop_source *source, uint32_t events), void *context);
void background_stop(struct background *background); /* waits for run() */
