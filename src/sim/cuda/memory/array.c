/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and mipmaps. Recorded: one class 0x40 of ATTR_ARRAY, UVM 73, UVM 33; a mipmap is one
 * memory for all its levels, rounded to 64 KiB by the library and to 2 MiB by the driver; a small
 * array gets a chunk of 2 MiB.
 *
 * Rows are padded to 64 bytes and their number to a multiple of 8, which reproduces the recorded
 * sizes. The order of bytes inside is the simulator's own.
 */
#include "sim/cuda/memory/array.h"

#include "base/cleanup.h"
#include "sim/cuda/context/stream.h"

#include <stdlib.h>

enum {
        ROW_ALIGN = 64,
        ROWS_ALIGN = 8,
        SIZE_ALIGN = 64 << 10,
        LEVELS_MAX = 16,
};

struct CUmipmappedArray_st {
        struct allocation *memory;
        unsigned int n_levels;
        struct CUarray_st level[LEVELS_MAX];
};

/* Bytes of a channel; 0: unknown. */
static size_t channel_size(CUarray_format format)
{
        switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8:
        case CU_AD_FORMAT_SIGNED_INT8:
                return 1;
        case CU_AD_FORMAT_UNSIGNED_INT16:
        case CU_AD_FORMAT_SIGNED_INT16:
        case CU_AD_FORMAT_HALF:
                return 2;
        case CU_AD_FORMAT_UNSIGNED_INT32:
        case CU_AD_FORMAT_SIGNED_INT32:
        case CU_AD_FORMAT_FLOAT:
                return 4;
        }
        return 0;
}

/* Fills in the layout; 0: the shape is refused. Returns the bytes that it takes. */
static uint64_t array_shape(CUarray array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
        size_t channel = channel_size(shape->Format), rows = shape->Height ? shape->Height : 1;
        size_t slices = shape->Depth ? shape->Depth : 1;

        if (!channel || !shape->Width || shape->Width > 1u << 20 || rows > 1u << 20 || slices > 1u << 16 ||
            (shape->NumChannels != 1 && shape->NumChannels != 2 && shape->NumChannels != 4))
                return 0;
        array->shape = *shape;
        array->element = channel * shape->NumChannels;
        array->pitch = round_up(shape->Width * array->element, ROW_ALIGN);
        array->slice = array->pitch * (shape->Height ? round_up(rows, ROWS_ALIGN) : 1);
        return (uint64_t)array->slice * slices;
}

static CUresult map_array(CUcontext context, uint64_t size, struct mapping **ret)
{
        return mapping_video(context->device, size, ATTR_ARRAY, ret);
}

static void unmap_array(struct mapping *mapping)
{
        (void)mapping_end(mapping);
}

static CUresult array_allocate(CUcontext context, uint64_t bytes, struct allocation **ret)
{
        static const struct allocator allocator = { map_array, unmap_array };
        uint64_t size = round_up(bytes, SIZE_ALIGN);

        return allocation_make(context, ALLOCATION_ARRAY, &context->array_chunks, &allocator, size, size, ret);
}

static void array_free(CUcontext context, struct allocation *memory)
{
        if (!context->is_ended) /* else it went with its context */
                (void)allocation_end(memory);
}

uint8_t *array_bytes(CUarray array)
{
        uint64_t have;

        return array->context->is_ended ? NULL : bytes_at(array->memory->span.base + array->offset, &have);
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
        LOCKED_LIBRARY;
        _cleanup_(freep) CUarray made = NULL;
        CUcontext context;
        CUresult r = context_enter(&context);
        uint64_t size;

        if (r != CUDA_SUCCESS)
                return r;
        if (!array || !shape)
                return CUDA_ERROR_INVALID_VALUE;
        made = calloc(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        size = array_shape(made, shape);
        if (!size)
                return CUDA_ERROR_INVALID_VALUE;
        made->context = context;
        r = array_allocate(context, size, &made->memory);
        if (r == CUDA_SUCCESS)
                *array = TAKE(made);
        return r;
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape)
{
        CUDA_ARRAY3D_DESCRIPTOR shape3 = { 0 };

        if (!shape)
                return CUDA_ERROR_INVALID_VALUE;
        shape3.Width = shape->Width;
        shape3.Height = shape->Height;
        shape3.Format = shape->Format;
        shape3.NumChannels = shape->NumChannels;
        return cuArray3DCreate_v2(array, &shape3);
}

CUresult CUDAAPI cuArrayDestroy(CUarray array)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!array || array->mipmap)
                return CUDA_ERROR_INVALID_HANDLE;
        array_free(array->context, array->memory);
        free(array);
        return CUDA_SUCCESS;
}

static size_t halved(size_t length, unsigned int level)
{
        return length && !(length >> level) ? 1 : length >> level;
}

/* Lays out the levels. Returns the bytes that they take; 0: the shape is refused. */
static uint64_t mipmap_shape(CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
        uint64_t size = 0;

        for (unsigned int i = 0; i < mipmap->n_levels; i++) {
                CUDA_ARRAY3D_DESCRIPTOR level = *shape;
                uint64_t bytes;

                level.Width = halved(shape->Width, i);
                level.Height = halved(shape->Height, i);
                level.Depth = halved(shape->Depth, i);
                bytes = array_shape(&mipmap->level[i], &level);
                if (!bytes)
                        return 0;
                mipmap->level[i].offset = size;
                mipmap->level[i].mipmap = mipmap;
                size += bytes;
        }
        return size;
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                                        unsigned int n_levels)
{
        LOCKED_LIBRARY;
        _cleanup_(freep) CUmipmappedArray made = NULL;
        CUcontext context;
        CUresult r = context_enter(&context);
        uint64_t size;

        if (r != CUDA_SUCCESS)
                return r;
        if (!mipmap || !shape || !n_levels)
                return CUDA_ERROR_INVALID_VALUE;
        made = calloc(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        made->n_levels = n_levels < LEVELS_MAX ? n_levels : LEVELS_MAX;
        size = mipmap_shape(made, shape);
        if (!size)
                return CUDA_ERROR_INVALID_VALUE;
        r = array_allocate(context, size, &made->memory);
        if (r != CUDA_SUCCESS)
                return r;
        for (unsigned int i = 0; i < made->n_levels; i++) {
                made->level[i].context = context;
                made->level[i].memory = made->memory;
        }
        *mipmap = TAKE(made);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmap, unsigned int level)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!mipmap)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!array || level >= mipmap->n_levels)
                return CUDA_ERROR_INVALID_VALUE;
        *array = &mipmap->level[level];
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!mipmap)
                return CUDA_ERROR_INVALID_HANDLE;
        array_free(mipmap->level[0].context, mipmap->memory);
        free(mipmap);
        return CUDA_SUCCESS;
}
