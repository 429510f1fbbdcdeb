/*
 * What the library holds for its process: the driver's client, devices, contexts, and one lock.
 *
 * The lock is taken by every entry point and dropped while one waits for the device. It is a leaf
 * of the process that we are a guest in: no callback of the program runs under it.
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
        CUmemoryPool default_pool, graph_pool; /* made on first use */
};

enum {
        DEVICES_MAX = 32,
};

struct library {
        struct nv nv;
        bool is_ready, was_forked;
        struct device device[DEVICES_MAX];
        int n_devices;
        CUcontext contexts; /* all that are alive */
};

extern struct library library; /* under the lock */

int library_lock(void); /* for the macro */
void library_unlock(int *locked);
void library_wait(pthread_cond_t *condition);

#define LOCKED_LIBRARY __attribute__((cleanup(library_unlock), unused)) int locked_ = library_lock()

/* Is there a library to speak of? CUDA_ERROR_NOT_INITIALIZED also in a child that was forked after
 * cuInit. */
CUresult library_check(void);

/* library_check, and the thread's context, which must be alive and without a sticky error. */
CUresult context_enter(CUcontext *ret);

/* NULL: there is no such device. */
struct device *device_of(CUdevice ordinal);

/* library_check, and the device. */
CUresult device_enter(CUdevice ordinal, struct device **ret);

/* What CUDA says when the driver says `status`. */
CUresult result_of(uint32_t status);
