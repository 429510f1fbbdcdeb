/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library holds for its process: the driver's client, devices, contexts, and one lock.
 *
 * Every entry point takes the lock, and drops it while it waits for the device. It is a leaf in the
 * program's order of locks: no callback of the program runs under it.
 */
#pragma once

#include "sim/cuda/driver/start.h"
#include "sim/list.h"
#include "sublet/sim/cuda.h"

#include <pthread.h>
#include <stdbool.h>

struct device {
        struct start_device start;
        struct nv_device_info info;
        CUcontext primary; /* NULL: not active */
        unsigned int n_retained;
        uint32_t reaches;                      /* a bit per device whose memory it may reach */
        CUmemoryPool default_pool, graph_pool; /* made on first use */
};

enum {
        DEVICES_MAX = 32,
};

struct library {
        struct nv nv;
        bool is_ready, was_forked;
        bool has_shared; /* memory with another process, at some time */
        struct device device[DEVICES_MAX];
        int n_devices;
        CUcontext contexts; /* all that are alive */
};

extern struct library library; /* under the lock */

int library_lock(void); /* waits while the process is locked for a checkpoint, but for an insider */
void library_unlock(int *locked);
void library_wait(pthread_cond_t *condition);

/* The calling thread is the library's own: it finishes what was begun, and does checkpoints. */
void library_be_insider(void);
void library_set_locked(bool is_locked);

#define LOCKED_LIBRARY __attribute__((cleanup(library_unlock), unused)) int locked_ = library_lock()

/* CUDA_SUCCESS; CUDA_ERROR_NOT_INITIALIZED: before cuInit, or in a child forked after it. */
CUresult library_check(void);

/* library_check, and the thread's context, which must be alive and without a sticky error. */
CUresult context_enter(CUcontext *ret);

/* NULL: there is no such device. */
struct device *device_of(CUdevice ordinal);

/* library_check, and the device. */
CUresult device_enter(CUdevice ordinal, struct device **ret);

/* The result of a CUDA call that failed with a status of the driver. */
CUresult result_of(uint32_t status);
