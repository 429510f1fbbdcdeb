/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: some of a device's multiprocessors.
 *
 * A green context takes nothing of the driver but 6 MiB of memory; the driver never learns which multiprocessors it has
 * (recorded on an H200, 580.159.04: tests/gpu/calls/green.txt). Sizes are an H200's: groups of eight, or of two without
 * thread block clusters. libcuda has these calls since 550; for older releases this one returns NOT_SUPPORTED.
 */
#include "sim/cuda/context/stream.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <stdlib.h>
#include <string.h>

enum {
        MULTIPROCESSORS = 132,
        STEP = 8,
        STEP_ALONE = 2, /* IGNORE_SM_COSCHEDULING */
        FIRST_BRANCH = 550,
};

struct CUdevResourceDesc_st {
        CUdevResourceDesc next; /* nothing in CUDA frees one */
        uint32_t first, count;
};

static CUdevResourceDesc descs;

static CUdevResource resource_of(uint32_t first, uint32_t count)
{
        CUdevResource resource = { .type = CU_DEV_RESOURCE_TYPE_SM, .sm = { .smCount = count } };

        memcpy(resource._internal_padding, &first, sizeof(first));
        return resource;
}

static uint32_t first_of(const CUdevResource *resource)
{
        uint32_t first;

        memcpy(&first, resource->_internal_padding, sizeof(first));
        return first;
}

static CUresult resource_answer(uint32_t first, uint32_t count, CUdevResource *resource, CUdevResourceType type)
{
        if (!resource)
                return CUDA_ERROR_INVALID_VALUE;
        if (type != CU_DEV_RESOURCE_TYPE_SM)
                return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        *resource = resource_of(first, count);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice ordinal, CUdevResource *resource, CUdevResourceType type)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!device_of(ordinal))
                return CUDA_ERROR_INVALID_DEVICE;
        if (library.nv.layout.version.branch < FIRST_BRANCH)
                return CUDA_ERROR_NOT_SUPPORTED;
        return resource_answer(0, MULTIPROCESSORS, resource, type);
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext context, CUdevResource *resource, CUdevResourceType type)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!context)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (context->is_ended)
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return context->green ? resource_answer(context->green->first, context->green->count, resource, type) :
                                resource_answer(0, MULTIPROCESSORS, resource, type);
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *n_groups, const CUdevResource *input,
                                             CUdevResource *rest, unsigned int flags, unsigned int least)
{
        uint32_t step = flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? STEP_ALONE : STEP;
        uint32_t size = ((least ? least : 1) + step - 1) / step * step, n;

        if (!n_groups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM)
                return CUDA_ERROR_INVALID_VALUE;
        if (size > input->sm.smCount)
                size = input->sm.smCount;
        if (!size || least > input->sm.smCount)
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        n = input->sm.smCount / size;
        if (result && *n_groups < n)
                n = *n_groups;
        for (uint32_t i = 0; result && i < n; i++)
                result[i] = resource_of(first_of(input) + i * size, size);
        if (rest)
                *rest = resource_of(first_of(input) + n * size, input->sm.smCount - n * size);
        *n_groups = n;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *ret, CUdevResource *resources, unsigned int n)
{
        LOCKED_LIBRARY;
        CUdevResourceDesc desc;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret || !resources || n != 1 || resources->type != CU_DEV_RESOURCE_TYPE_SM || !resources->sm.smCount)
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        desc = calloc(1, sizeof(*desc));
        if (!desc)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *desc = (struct CUdevResourceDesc_st){ descs, first_of(resources), resources->sm.smCount };
        *ret = descs = desc;
        return CUDA_SUCCESS;
}

/* ---- making and ending --------------------------------------------------------------------- */

/* Two groups of streams, three pieces of memory, in the order that was recorded. */
static CUresult take_all(CUgreenCtx green)
{
        CUresult r = CUDA_SUCCESS;

        for (size_t i = 0; i < ARRAY_SIZE(green->mapping) && r == CUDA_SUCCESS; i++) {
                uint32_t status = i == 0 ? nv_uvm_group(&library.nv, &green->stream.group) :
                                  i == 1 ? nv_uvm_group(&library.nv, &green->group) :
                                           RM_STATUS_OK;

                if (status != RM_STATUS_OK)
                        return result_of(status);
                r = mapping_video(green->primary->device, CHUNK_SIZE, ATTR_LINEAR, &green->mapping[i]);
        }
        return r;
}

static void give_all(CUgreenCtx green)
{
        for (size_t i = ARRAY_SIZE(green->mapping); i-- > 0;)
                (void)mapping_end(TAKE(green->mapping[i]));
        if (green->group)
                (void)nv_uvm_group_free(&library.nv, green->group);
        if (green->stream.group)
                (void)nv_uvm_group_free(&library.nv, green->stream.group);
        green->group = green->stream.group = 0;
}

static void green_init(CUgreenCtx green, CUcontext primary, CUdevResourceDesc desc)
{
        green->first = desc->first;
        green->count = desc->count;
        green->primary = primary;
        green->name.device = primary->device;
        green->name.green = green;
        primary->next_queue = primary->next_queue % (START_COMPUTE - 1) + 1;
        green->stream.context = primary;
        green->stream.green = green;
        green->stream.queue = &primary->queue[primary->next_queue];
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *ret, CUdevResourceDesc desc, CUdevice ordinal, unsigned int flags)
{
        LOCKED_LIBRARY;
        _cleanup_(freep) CUgreenCtx green = NULL;
        struct device *device = device_of(ordinal);
        CUcontext primary;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!device)
                return CUDA_ERROR_INVALID_DEVICE;
        if (!ret || !desc || flags != CU_GREEN_CTX_DEFAULT_STREAM)
                return CUDA_ERROR_INVALID_VALUE;
        green = calloc(1, sizeof(*green));
        if (!green)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = primary_retain(device, &primary);
        if (r != CUDA_SUCCESS)
                return r;
        green_init(green, primary, desc);
        r = take_all(green);
        if (r != CUDA_SUCCESS) {
                give_all(green);
                (void)primary_release(device);
                return r;
        }
        green->next = primary->greens;
        primary->greens = green;
        *ret = TAKE(green);
        return CUDA_SUCCESS;
}

/* Its streams stay, with their queues; its record stays, too: the program may still name it. */
CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx green)
{
        LOCKED_LIBRARY;
        CUcontext primary;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!green || !green->primary)
                return CUDA_ERROR_INVALID_CONTEXT;
        primary = green->primary;
        (void)stream_wait(&green->stream);
        LIST_REMOVE(&primary->greens, green);
        green->name.is_ended = true;
        green->primary = NULL;
        give_all(green);
        return primary_release(primary->device);
}

void greens_end(CUcontext primary)
{
        for (CUgreenCtx green = primary->greens; green; green = green->next) {
                give_all(green);
                green->name.is_ended = true;
                green->primary = NULL;
        }
        primary->greens = NULL;
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!context)
                return CUDA_ERROR_INVALID_VALUE;
        if (!green || !green->primary)
                return CUDA_ERROR_INVALID_CONTEXT;
        *context = &green->name;
        return CUDA_SUCCESS;
}
