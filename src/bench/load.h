/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loads that `sublet bench` measures with. They are part of `sublet`, so nothing has to be built on the measured
 * machine: libcuda is loaded at run time, and the kernel is PTX that the driver compiles.
 *
 *      load_open(&load, &err); load_deep(&load, kernel, from, until, &ret); ...
 */
#pragma once

#include "base/clock.h"
#include "base/text.h"
#include "sublet/sim/cuda.h"

#include <stdbool.h>
#include <stddef.h>

struct err;

struct load_calls {
#define CUDA(entry) __typeof__(&entry) entry;
#include "bench/cuda.def"
#undef CUDA
};

struct load {
        void *library;
        struct load_calls calls;
        CUdevice device;
        CUfunction burn;
        CUdeviceptr sink;
        CUstream stream;
        int sms;              /* multiprocessors that this process may use */
        unsigned int blocks;  /* of a kernel; set by load_open to fill the device */
        double rounds_per_us; /* of arithmetic; 0: not calibrated */
};

struct load_result {
        size_t n;        /* kernels that ended between from and until */
        double p50, p99; /* of a request, from launch to done, us; 0: not asked for */
};

/* The first device that this process sees. 0; -ENOTSUP: no libcuda, or one without an entry; -EIO: a call failed. */
int load_open(struct load *load, struct err *err);

/* Rounds per microsecond of a kernel that has the device alone. */
int load_calibrate(struct load *load, struct err *err);

/*
 * Kernels of `us` microseconds: queued 16 ahead; each after the one before has ended; one every `period`. They run
 * until `until`; those that end after `from` count.
 */
int load_deep(struct load *load, unsigned int us, nsec from, nsec until, struct load_result *ret, struct err *err);
int load_sync(struct load *load, unsigned int us, nsec from, nsec until, struct load_result *ret, struct err *err);
int load_periodic(struct load *load, unsigned int us, nsec period, nsec from, nsec until, struct load_result *ret,
                  struct err *err);

/* Allocates and frees; p50 is the time of one pair. */
int load_alloc(struct load *load, bytes size, nsec from, nsec until, struct load_result *ret, struct err *err);

/* Allocates memory until an allocation fails or `most` bytes are held. */
int load_grab(struct load *load, bytes most, bytes *ret, struct err *err);
