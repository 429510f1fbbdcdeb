/* SPDX-License-Identifier: Apache-2.0 */
/* The interposed calls of calls.def. Without a partition each calls the driver's own; with one see partition.h. */
#include "preload/inside.h"
#include "preload/partition.h"

#include <stddef.h>

/* Calls the driver's entry point, or fails as an old driver without it does. */
#define DRIVER(symbol, ...) (driver_get()->symbol ? driver_get()->symbol(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)

/* ---- devices ------------------------------------------------------------------------------------- */

EXPORTED CUresult cuDeviceGetAttribute(int *ret, int attribute, CUdevice device)
{
        CUresult r = DRIVER(cuDeviceGetAttribute, ret, attribute, device);
        unsigned int size;

        if (r != CUDA_SUCCESS || attribute != CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT || !partition_is_requested())
                return r;
        size = partition_size(device); /* P3 */
        if (size)
                *ret = (int)size;
        return r;
}

/* A program that divides the device itself divides the lease's part. */
EXPORTED CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *ret, int type)
{
        if (ret && type == CU_DEV_RESOURCE_TYPE_SM && partition_is_requested())
                return partition_resource(device, ret);
        return DRIVER(cuDeviceGetDevResource, device, ret, type);
}

EXPORTED CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *ret, int type)
{
        return DRIVER(cuCtxGetDevResource, partition_inside(context), ret, type);
}

/* ---- the primary context ------------------------------------------------------------------------- */

static CUresult primary_release(CUdevice device)
{
        CUresult r = DRIVER(cuDevicePrimaryCtxRelease_v2, device);

        return r != CUDA_ERROR_NOT_FOUND ? r : DRIVER(cuDevicePrimaryCtxRelease, device);
}

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
        CUresult r = DRIVER(cuDevicePrimaryCtxRetain, ret, device);

        if (r != CUDA_SUCCESS || !partition_is_requested())
                return r;
        r = partition_hold(device, *ret);
        if (r != CUDA_SUCCESS)
                (void)primary_release(device);
        return r;
}

EXPORTED CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
        partition_drop(device, false);
        return DRIVER(cuDevicePrimaryCtxRelease, device);
}

EXPORTED CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
        partition_drop(device, false);
        return DRIVER(cuDevicePrimaryCtxRelease_v2, device);
}

/* The driver does not reset a primary context that has a green one. */
EXPORTED CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
        partition_drop(device, true);
        return DRIVER(cuDevicePrimaryCtxReset, device);
}

EXPORTED CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
        partition_drop(device, true);
        return DRIVER(cuDevicePrimaryCtxReset_v2, device);
}

/* ---- contexts of the program --------------------------------------------------------------------- */

/* True: *ret_result is the result. False: there is no partition (P5), and the driver makes the context. */
static bool context_create(CUcontext *ret, CUdevice device, CUresult *ret_result)
{
        CUcontext context = NULL;

        if (!partition_is_requested())
                return false;
        *ret_result = ret ? partition_new(device, &context) : CUDA_ERROR_INVALID_VALUE;
        if (*ret_result != CUDA_SUCCESS)
                return true;
        if (!context)
                return false;
        *ret_result = DRIVER(cuCtxPushCurrent_v2, context);
        *ret = context;
        return true;
}

EXPORTED CUresult cuCtxCreate(CUcontext *ret, unsigned int flags, CUdevice device)
{
        CUresult r;

        return context_create(ret, device, &r) ? r : DRIVER(cuCtxCreate, ret, flags, device);
}

EXPORTED CUresult cuCtxCreate_v2(CUcontext *ret, unsigned int flags, CUdevice device)
{
        CUresult r;

        return context_create(ret, device, &r) ? r : DRIVER(cuCtxCreate_v2, ret, flags, device);
}

EXPORTED CUresult cuCtxCreate_v3(CUcontext *ret, void *params, int n, unsigned int flags, CUdevice device)
{
        CUresult r;

        if (partition_is_requested() && n)
                return CUDA_ERROR_NOT_SUPPORTED; /* an execution affinity, which needs MPS */
        return context_create(ret, device, &r) ? r : DRIVER(cuCtxCreate_v3, ret, params, n, flags, device);
}

EXPORTED CUresult cuCtxCreate_v4(CUcontext *ret, void *params, unsigned int flags, CUdevice device)
{
        CUresult r;

        if (partition_is_requested() && params)
                return CUDA_ERROR_NOT_SUPPORTED;
        return context_create(ret, device, &r) ? r : DRIVER(cuCtxCreate_v4, ret, params, flags, device);
}

/* As with any context, the calling thread's current context is popped if it is the destroyed one. */
static bool context_destroy(CUcontext context, CUresult *ret)
{
        CUcontext now = NULL;

        if (!partition_delete(context, ret))
                return false;
        if (*ret == CUDA_SUCCESS && DRIVER(cuCtxGetCurrent, &now) == CUDA_SUCCESS && now == context)
                (void)DRIVER(cuCtxPopCurrent_v2, &now);
        return true;
}

EXPORTED CUresult cuCtxDestroy(CUcontext context)
{
        CUresult r;

        return context_destroy(context, &r) ? r : DRIVER(cuCtxDestroy, context);
}

EXPORTED CUresult cuCtxDestroy_v2(CUcontext context)
{
        CUresult r;

        return context_destroy(context, &r) ? r : DRIVER(cuCtxDestroy_v2, context);
}

/* ---- which is current ---------------------------------------------------------------------------- */

EXPORTED CUresult cuCtxSetCurrent(CUcontext context)
{
        return DRIVER(cuCtxSetCurrent, partition_inside(context));
}

EXPORTED CUresult cuCtxPushCurrent(CUcontext context)
{
        return DRIVER(cuCtxPushCurrent, partition_inside(context));
}

EXPORTED CUresult cuCtxPushCurrent_v2(CUcontext context)
{
        return DRIVER(cuCtxPushCurrent_v2, partition_inside(context));
}

static CUresult outside_name(CUresult r, CUcontext *context)
{
        if (r == CUDA_SUCCESS && context)
                *context = partition_outside(*context);
        return r;
}

EXPORTED CUresult cuCtxGetCurrent(CUcontext *ret)
{
        return outside_name(DRIVER(cuCtxGetCurrent, ret), ret);
}

EXPORTED CUresult cuCtxPopCurrent(CUcontext *ret)
{
        return outside_name(DRIVER(cuCtxPopCurrent, ret), ret);
}

EXPORTED CUresult cuCtxPopCurrent_v2(CUcontext *ret)
{
        return outside_name(DRIVER(cuCtxPopCurrent_v2, ret), ret);
}

EXPORTED CUresult cuStreamGetCtx(CUstream stream, CUcontext *ret)
{
        return outside_name(DRIVER(cuStreamGetCtx, stream, ret), ret);
}

/* It distinguishes streams of green contexts; the program must not learn of the partition's. */
EXPORTED CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *ret, CUgreenCtx *ret_green)
{
        CUcontext context = NULL;
        CUresult r;

        if (!ret || !partition_is_requested() || DRIVER(cuStreamGetCtx, stream, &context) != CUDA_SUCCESS ||
            partition_outside(context) == context)
                return DRIVER(cuStreamGetCtx_v2, stream, ret, ret_green);
        r = DRIVER(cuStreamGetCtx_v2, stream, ret, ret_green);
        *ret = partition_outside(context);
        if (ret_green)
                *ret_green = NULL;
        return r;
}

EXPORTED CUresult cuCtxSynchronize_v2(CUcontext context)
{
        return DRIVER(cuCtxSynchronize_v2, partition_inside(context));
}
