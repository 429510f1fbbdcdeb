/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
        THREADS = 1024, /* one block keeps a multiprocessor busy: four independent chains each */
        DEPTH_US = 12320,
        DEPTH_MOST = 16, /* kernels queued ahead: keeps any device busy; at most 12 ms of work where kernels are long */
        SPANS_MAX = 1 << 18,
        CALIBRATE_US = 10000,
        ROUNDS_FIRST = 52, /* per microsecond: the first guess, about an H200's */
};

/* burn(sink, rounds): `rounds` rounds of four multiply-adds in each thread. The simulator knows it by name. */
static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry burn(.param .u64 sink, .param .u32 rounds)\n{\n"
                          "        .reg .pred %p<2>; .reg .f32 %f<7>; .reg .b32 %r<3>; .reg .b64 %d<2>;\n"
                          "        ld.param.u64 %d1, [sink]; ld.param.u32 %r1, [rounds]; mov.u32 %r2, 0;\n"
                          "        mov.f32 %f1, 0f3F800001; mov.f32 %f2, 0f3F7FFFFF; mov.f32 %f3, 0f3F800000;\n"
                          "        mov.f32 %f4, %f3; mov.f32 %f5, %f3; mov.f32 %f6, %f3;\n"
                          "ROUND:  fma.rn.f32 %f3, %f3, %f1, %f2; fma.rn.f32 %f4, %f4, %f1, %f2;\n"
                          "        fma.rn.f32 %f5, %f5, %f1, %f2; fma.rn.f32 %f6, %f6, %f1, %f2;\n"
                          "        add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra ROUND;\n"
                          "        add.f32 %f3, %f3, %f4; add.f32 %f5, %f5, %f6; add.f32 %f3, %f3, %f5;\n"
                          "        setp.eq.f32 %p1, %f3, 0f00000000; @%p1 st.global.f32 [%d1], %f3;\n"
                          "        ret;\n}\n";

static int check(struct load *load, CUresult r, const char *what, struct err *err)
{
        const char *text = "?";

        if (r == CUDA_SUCCESS)
                return 0;
        (void)load->calls.cuGetErrorString(r, &text);
        return err_say(err, -EIO, "%s: %s", what, text);
}

#define CALL(load, name, ...) check(load, (load)->calls.name(__VA_ARGS__), #name, err)

static int find_calls(struct load *load, struct err *err)
{
        const struct {
                const char *name;
                void **to;
        } rows[] = {
#define CUDA(entry) { #entry, (void **)&load->calls.entry },
#include "bench/cuda.def"
#undef CUDA
        };

        load->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!load->library)
                return err_say(err, -ENOTSUP, "%s", dlerror());
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                *rows[i].to = dlsym(load->library, rows[i].name);
                if (!*rows[i].to)
                        return err_say(err, -ENOTSUP, "this libcuda.so.1 has no %s", rows[i].name);
        }
        return 0;
}

static int launch(struct load *load, unsigned int us, struct err *err)
{
        unsigned int rounds = (unsigned int)((double)us * load->rounds_per_us);
        void *arguments[] = { &load->sink, &rounds };

        if (!rounds)
                rounds = 1;
        return CALL(load, cuLaunchKernel, load->burn, load->blocks, 1, 1, THREADS, 1, 1, 0, load->stream, arguments,
                    NULL);
}

static int finish(struct load *load, struct err *err)
{
        return CALL(load, cuStreamSynchronize, load->stream);
}

int load_open(struct load *load, struct err *err)
{
        CUcontext context;
        CUmodule module;
        int r;

        load->rounds_per_us = ROUNDS_FIRST;
        if ((r = find_calls(load, err)) < 0 || (r = CALL(load, cuInit, 0)) < 0 ||
            (r = CALL(load, cuDeviceGet, &load->device, 0)) < 0 ||
            (r = CALL(load, cuDevicePrimaryCtxRetain, &context, load->device)) < 0 ||
            (r = CALL(load, cuCtxSetCurrent, context)) < 0 ||
            (r = CALL(load, cuDeviceGetAttribute, &load->sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, load->device)) <
                    0 ||
            (r = CALL(load, cuModuleLoadData, &module, ptx)) < 0 ||
            (r = CALL(load, cuModuleGetFunction, &load->burn, module, "burn")) < 0 ||
            (r = CALL(load, cuMemAlloc_v2, &load->sink, 4096)) < 0 ||
            (r = CALL(load, cuStreamCreate, &load->stream, CU_STREAM_NON_BLOCKING)) < 0)
                return r;
        load->blocks = load->sms > 0 ? (unsigned int)load->sms : 1;
        r = launch(load, 1, err); /* loads and maps everything before anything is measured */
        return r < 0 ? r : finish(load, err);
}

int load_calibrate(struct load *load, struct err *err)
{
        nsec best = 0;

        load->rounds_per_us = ROUNDS_FIRST;
        for (int i = 0; i < 20; i++) {
                nsec since = clock_now(), took;
                int r = launch(load, CALIBRATE_US, err);

                if (r < 0 || (r = finish(load, err)) < 0)
                        return r;
                took = clock_now() - since;
                if (i >= 10 && (!best || took < best)) /* the clocks have risen by then */
                        best = took;
        }
        load->rounds_per_us = (double)ROUNDS_FIRST * CALIBRATE_US / ((double)best / NSEC_PER_USEC);
        return 0;
}

/* ---- spans ----------------------------------------------------------------------------------------- */

struct spans {
        float *us;
        size_t n;
};

static void spans_done(struct spans *spans)
{
        free(spans->us);
}

static int spans_init(struct spans *spans, struct err *err)
{
        *spans = (struct spans){ .us = malloc(SPANS_MAX * sizeof(*spans->us)) };
        return spans->us ? 0 : err_set(err, -ENOMEM, "measuring");
}

static void spans_put(struct spans *spans, nsec span)
{
        if (spans->n < SPANS_MAX)
                spans->us[spans->n++] = (float)span / NSEC_PER_USEC;
}

static int number_compare(const void *a, const void *b)
{
        const float *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static void spans_sum_up(struct spans *spans, struct load_result *ret)
{
        if (!spans->n)
                return;
        qsort(spans->us, spans->n, sizeof(*spans->us), number_compare);
        ret->p50 = (double)spans->us[spans->n / 2];
        ret->p99 = (double)spans->us[spans->n * 99 / 100];
}

static void sleep_until(nsec when)
{
        struct timespec t = { (time_t)(when / NSEC_PER_SEC), (long)(when % NSEC_PER_SEC) };

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
                ;
}

/* ---- the loads --------------------------------------------------------------------------------------- */

int load_deep(struct load *load, unsigned int us, nsec from, nsec until, struct load_result *ret, struct err *err)
{
        size_t depth = us * DEPTH_MOST <= DEPTH_US ? DEPTH_MOST : us * 4 <= DEPTH_US ? DEPTH_US / us : 4;
        struct load_result found = { 0 };
        CUevent events[DEPTH_MOST];
        size_t n = 0, done = 0;
        int r = 0;

        for (size_t i = 0; i < depth && r == 0; i++)
                r = CALL(load, cuEventCreate, &events[i], CU_EVENT_DISABLE_TIMING);
        for (; r == 0 && clock_now() < until; n++) {
                if (n - done == depth) {
                        nsec now;

                        if ((r = CALL(load, cuEventSynchronize, events[done++ % depth])) < 0)
                                return r;
                        now = clock_now();
                        found.n += now >= from && now < until;
                }
                r = launch(load, us, err);
                if (r == 0)
                        r = CALL(load, cuEventRecord, events[n % depth], load->stream);
        }
        *ret = found;
        return r < 0 ? r : finish(load, err);
}

int load_periodic(struct load *load, unsigned int us, nsec period, nsec from, nsec until, struct load_result *ret,
                  struct err *err)
{
        _cleanup_(spans_done) struct spans spans;
        struct load_result found = { 0 };
        nsec next = clock_now(), since;
        int r = spans_init(&spans, err);

        while (r == 0 && (since = clock_now()) < until) {
                if ((r = launch(load, us, err)) < 0 || (r = finish(load, err)) < 0)
                        return r;
                if (since >= from) {
                        spans_put(&spans, clock_now() - since);
                        found.n += clock_now() < until;
                }
                next += period;
                if (period)
                        sleep_until(next);
        }
        spans_sum_up(&spans, &found);
        *ret = found;
        return r;
}

int load_sync(struct load *load, unsigned int us, nsec from, nsec until, struct load_result *ret, struct err *err)
{
        return load_periodic(load, us, 0, from, until, ret, err);
}

int load_alloc(struct load *load, bytes size, nsec from, nsec until, struct load_result *ret, struct err *err)
{
        _cleanup_(spans_done) struct spans spans;
        struct load_result found = { 0 };
        int r = spans_init(&spans, err);
        CUdeviceptr at;
        nsec since;

        while (r == 0 && (since = clock_now()) < until) {
                if ((r = CALL(load, cuMemAlloc_v2, &at, size)) < 0 || (r = CALL(load, cuMemFree_v2, at)) < 0)
                        return r;
                if (since < from)
                        continue;
                spans_put(&spans, clock_now() - since);
                found.n++;
        }
        spans_sum_up(&spans, &found);
        *ret = found;
        return r;
}

int load_grab(struct load *load, bytes most, bytes *ret, struct err *err)
{
        static const bytes sizes[] = { GIB, 64 * MIB, 2 * MIB };
        bytes taken = 0;
        CUdeviceptr at;

        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                while (taken + sizes[i] <= most && load->calls.cuMemAlloc_v2(&at, sizes[i]) == CUDA_SUCCESS)
                        taken += sizes[i];
        *ret = taken;
        return taken ? 0 : err_say(err, -ENOMEM, "not even 2 MiB were given");
}
