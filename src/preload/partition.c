/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/partition.h"

#include "preload/inside.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
        DEVICES = USAGE_SEGMENT_DEVICES,
        CREATED = 256, /* contexts of cuCtxCreate at one time */
};

/* A device's; the contexts are read without the lock. */
struct part {
        CUcontext _Atomic primary, inner;
        CUgreenCtx green;
        unsigned int n_retained;
};

static struct part parts[DEVICES];
static atomic_int n_parts; /* all later ones are empty */
static struct {
        CUcontext context;
        CUgreenCtx green;
} created[CREATED];

static struct lock lock = LOCK_INIT(LOCK_PARTITION);
static struct sms requested;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void request_read(void)
{
        static struct lease_descriptor descriptor; /* large */
        enum lease_descriptor_source source;

        if (lease_descriptor_find(&descriptor, &source) == 0)
                requested = descriptor.sms;
}

bool partition_is_requested(void)
{
        (void)pthread_once(&once, request_read);
        return requested.permille || requested.count;
}

/* P4 */
__attribute__((format(printf, 2, 3))) static CUresult partition_refuse(CUresult r, const char *format, ...)
{
        static atomic_bool is_said;
        struct preload_guard guard;
        char why[160];
        va_list list;

        if (atomic_exchange(&is_said, true))
                return r; /* programs repeat the call */
        guard = preload_enter();
        va_start(list, format);
        (void)vsnprintf(why, sizeof(why), format, list);
        va_end(list);
        preload_warn("no context is made", why);
        preload_leave(&guard);
        return r;
}

/* ---- how many ------------------------------------------------------------------------------------ */

static unsigned int split_size(void *context, unsigned int n)
{
        const CUdevResource *all = context;
        CUdevResource part;
        unsigned int one = 1;

        return driver_get()->cuDevSmResourceSplitByCount(&part, &one, all, NULL, 0, n) == CUDA_SUCCESS ? part.sms : 0;
}

static bool has_green_contexts(const struct driver *driver)
{
        return driver->cuDeviceGetDevResource && driver->cuDevSmResourceSplitByCount &&
               driver->cuDevResourceGenerateDesc && driver->cuGreenCtxCreate && driver->cuGreenCtxDestroy &&
               driver->cuCtxFromGreenCtx;
}

static CUresult part_of(CUdevice device, const CUdevResource *all, CUdevResource *ret)
{
        unsigned int wanted = sms_wanted(requested, all->sms), size, one = 1;

        if (!wanted)
                return partition_refuse(CUDA_ERROR_NOT_SUPPORTED, "--sms %u: device %d has %u multiprocessors",
                                        requested.count, device, all->sms);
        size = sms_nearest(wanted, split_size, (void *)(uintptr_t)all);
        if (!size)
                return partition_refuse(CUDA_ERROR_NOT_SUPPORTED,
                                        "--sms: device %d cannot give %u of its %u multiprocessors", device, wanted,
                                        all->sms);
        return driver_get()->cuDevSmResourceSplitByCount(ret, &one, all, NULL, 0, size);
}

CUresult partition_resource(CUdevice device, CUdevResource *ret)
{
        const struct driver *driver = driver_get();
        CUdevResource all;
        CUresult r;

        if (!has_green_contexts(driver))
                return partition_refuse(CUDA_ERROR_NOT_SUPPORTED,
                                        "--sms needs a driver with green contexts: 550 or newer");
        r = driver->cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM);
        if (r == CUDA_ERROR_NOT_SUPPORTED)
                return partition_refuse(r, "--sms: the driver cannot divide device %d", device);
        return r == CUDA_SUCCESS ? part_of(device, &all, ret) : r;
}

unsigned int partition_size(CUdevice device)
{
        static atomic_uint known[DEVICES]; /* never changes */
        CUdevResource part;

        if (device < 0 || device >= DEVICES)
                return 0;
        if (!known[device] && partition_resource(device, &part) == CUDA_SUCCESS)
                known[device] = part.sms;
        return known[device];
}

/* ---- the primary context: P1 --------------------------------------------------------------------- */

static void note_size(unsigned int size, unsigned int all)
{
        struct preload *preload = preload_peek();

        if (preload && preload->usage.segment) {
                preload->usage.segment->sms_of = all;
                preload->usage.segment->sms = size;
        }
}

/* *ret_green is NULL if the part is the whole device (P5). */
static CUresult part_make(CUdevice device, CUgreenCtx *ret_green, CUcontext *ret)
{
        const struct driver *driver = driver_get();
        CUdevResource part, all;
        CUdevResourceDesc desc;
        CUresult r = partition_resource(device, &part);

        *ret_green = NULL;
        if (r != CUDA_SUCCESS)
                return r;
        r = driver->cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM);
        if (r != CUDA_SUCCESS)
                return r;
        note_size(part.sms, all.sms);
        if (part.sms == all.sms)
                return CUDA_SUCCESS;
        r = driver->cuDevResourceGenerateDesc(&desc, &part, 1);
        if (r == CUDA_SUCCESS)
                r = driver->cuGreenCtxCreate(ret_green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM);
        if (r != CUDA_SUCCESS)
                return partition_refuse(r, "--sms: the driver refuses a green context on device %d (CUDA error %d)",
                                        device, r);
        r = driver->cuCtxFromGreenCtx(ret, *ret_green);
        if (r != CUDA_SUCCESS)
                (void)driver->cuGreenCtxDestroy(*ret_green);
        return r;
}

/* A thread whose current context is `from`, as the CUDA runtime's when it retains the primary, gets `to`. */
static void make_current(CUcontext from, CUcontext to)
{
        const struct driver *driver = driver_get();
        CUcontext now = NULL;

        if (driver->cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == from)
                (void)driver->cuCtxSetCurrent(to);
}

CUresult partition_hold(CUdevice device, CUcontext primary)
{
        LOCKED(&lock);
        CUcontext inner = NULL;
        struct part *part;
        CUresult r;

        if (device < 0 || device >= DEVICES)
                return partition_refuse(CUDA_ERROR_NOT_SUPPORTED,
                                        "--sms: device %d is beyond the %d that can be divided", device, DEVICES);
        part = &parts[device];
        if (!part->green) {
                r = part_make(device, &part->green, &inner);
                if (r != CUDA_SUCCESS)
                        return r;
                if (!part->green)
                        return CUDA_SUCCESS;
                part->inner = inner;
                part->primary = primary;
                if (n_parts <= device)
                        n_parts = device + 1;
        }
        part->n_retained++;
        make_current(primary, part->inner);
        return CUDA_SUCCESS;
}

static void part_end(struct part *part)
{
        make_current(part->inner, part->primary);
        part->primary = part->inner = NULL;
        part->n_retained = 0;
        (void)driver_get()->cuGreenCtxDestroy(part->green);
        part->green = NULL;
}

void partition_drop(CUdevice device, bool is_reset)
{
        LOCKED(&lock);

        if (device >= 0 && device < DEVICES && parts[device].green && (is_reset || --parts[device].n_retained == 0))
                part_end(&parts[device]);
}

CUcontext partition_inside(CUcontext context)
{
        for (int i = 0; context && i < n_parts; i++)
                if (parts[i].primary == context)
                        return parts[i].inner;
        return context;
}

CUcontext partition_outside(CUcontext context)
{
        for (int i = 0; context && i < n_parts; i++)
                if (parts[i].inner == context)
                        return parts[i].primary;
        return context;
}

/* ---- contexts of the program: P2 ----------------------------------------------------------------- */

CUresult partition_new(CUdevice device, CUcontext *ret)
{
        LOCKED(&lock);
        CUgreenCtx green;
        size_t i = 0;
        CUresult r;

        while (i < CREATED && created[i].green)
                i++;
        if (i == CREATED)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = part_make(device, &green, ret);
        if (r != CUDA_SUCCESS || !green)
                return r;
        created[i].context = *ret;
        created[i].green = green;
        return CUDA_SUCCESS;
}

bool partition_delete(CUcontext context, CUresult *ret)
{
        LOCKED(&lock);

        for (size_t i = 0; context && i < CREATED; i++) {
                if (!created[i].green || created[i].context != context)
                        continue;
                *ret = driver_get()->cuGreenCtxDestroy(created[i].green);
                if (*ret == CUDA_SUCCESS)
                        created[i].green = NULL;
                return true;
        }
        return false;
}
