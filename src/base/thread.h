/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside a loop. */
#pragma once

#include <pthread.h>

/* Starts a thread with all signals blocked: they are the loop's. 0; -errno. */
int thread_start(pthread_t *ret, void *(*run)(void *context), void *context);

/* The same, with a small stack, and nobody waits for its end. */
int thread_start_alone(void *(*run)(void *context), void *context);
