/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies, byte for byte. Either side is a surface: rows of bytes at a distance, in the host, at a
 * device's address (which may cross several memories), or in an array.
 */
#include "sim/cuda/work/copy.h"

#include "sim/cuda/memory/array.h"
#include "sim/cuda/memory/memory.h"
#include "sim/cuda/memory/room.h"

#include <string.h>

struct surface {
        uint64_t at;    /* of the first byte: an address of the device, if is_device */
        uint8_t *bytes; /* else here */
        size_t pitch, slice;
        bool is_device; /* `at` counts */
        bool is_array;
};

/* Addresses of pinned and managed memory are the host's as well: those count as the host's. */
static bool is_device_address(uint64_t at)
{
        const struct mapping *mapping = mapping_at(at);

        return mapping && mapping->memory->kind == MEMORY_VIDEO;
}

/* One side of a copy: CUDA_MEMCPY3D has two. */
struct side {
        CUmemorytype type;
        uint64_t host, device;
        CUarray array;
        size_t x, y, z, pitch, height;
};

static CUresult array_surface(const struct side *side, const CUDA_MEMCPY3D *copy, struct surface *ret)
{
        CUarray array = side->array;
        size_t rows = array && array->shape.Height ? array->shape.Height : 1;
        size_t slices = array && array->shape.Depth ? array->shape.Depth : 1;
        uint8_t *bytes;

        if (!array || side->x + copy->WidthInBytes > array->shape.Width * array->element ||
            side->y + copy->Height > rows || side->z + copy->Depth > slices)
                return CUDA_ERROR_INVALID_VALUE;
        bytes = array_bytes(array);
        if (!bytes)
                return CUDA_ERROR_UNKNOWN;
        *ret = (struct surface){
                .bytes = bytes + side->z * array->slice + side->y * array->pitch + side->x,
                .pitch = array->pitch,
                .slice = array->slice,
                .is_array = true,
        };
        return CUDA_SUCCESS;
}

static CUresult linear_surface(const struct side *side, uint64_t at, bool is_device, const CUDA_MEMCPY3D *copy,
                               struct surface *ret)
{
        size_t row = side->pitch ? side->pitch : copy->WidthInBytes, rows = side->height ? side->height : copy->Height;
        uint64_t first = at + side->z * rows * row + side->y * row + side->x;
        uint64_t length = ((uint64_t)(copy->Depth - 1) * rows + copy->Height - 1) * row + copy->WidthInBytes;

        if (row < copy->WidthInBytes && (copy->Height > 1 || copy->Depth > 1))
                return CUDA_ERROR_INVALID_VALUE;
        if (!at || (is_device && !bytes_are_mapped(first, length)))
                return CUDA_ERROR_INVALID_VALUE;
        *ret = (struct surface){
                .at = first,
                .bytes = (uint8_t *)(uintptr_t)first,
                .pitch = row,
                .slice = row * rows,
                .is_device = is_device,
        };
        return CUDA_SUCCESS;
}

static CUresult side_surface(const struct side *side, const CUDA_MEMCPY3D *copy, struct surface *ret)
{
        switch (side->type) {
        case CU_MEMORYTYPE_ARRAY:
                return array_surface(side, copy, ret);
        case CU_MEMORYTYPE_HOST:
                return linear_surface(side, side->host, false, copy, ret);
        case CU_MEMORYTYPE_DEVICE:
                return linear_surface(side, side->device, true, copy, ret);
        case CU_MEMORYTYPE_UNIFIED:
                return linear_surface(side, side->device, is_device_address(side->device), copy, ret);
        }
        return CUDA_ERROR_INVALID_VALUE;
}

static CUresult surfaces_of(const CUDA_MEMCPY3D *c, struct surface *ret_from, struct surface *ret_to)
{
        struct side from = { c->srcMemoryType, (uintptr_t)c->srcHost, c->srcDevice,
                             c->srcArray,      c->srcXInBytes,        c->srcY,
                             c->srcZ,          c->srcPitch,           c->srcHeight };
        struct side to = { c->dstMemoryType, (uintptr_t)c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY,
                           c->dstZ,          c->dstPitch,           c->dstHeight };
        CUresult r = side_surface(&from, c, ret_from);

        return r == CUDA_SUCCESS ? side_surface(&to, c, ret_to) : r;
}

static bool is_in_device(const struct surface *surface)
{
        return surface->is_array || (surface->is_device && is_device_address(surface->at));
}

CUresult copy_check(const CUDA_MEMCPY3D *copy, enum copy_way *ret)
{
        struct surface from, to;
        CUresult r;

        *ret = COPY_IN_HOST;
        if (!copy->WidthInBytes || !copy->Height || !copy->Depth)
                return CUDA_SUCCESS;
        r = surfaces_of(copy, &from, &to);
        if (r != CUDA_SUCCESS)
                return r;
        if (is_in_device(&to))
                *ret = is_in_device(&from) ? COPY_IN_DEVICE : COPY_TO_DEVICE;
        else if (is_in_device(&from))
                *ret = COPY_TO_HOST;
        return CUDA_SUCCESS;
}

/* The bytes of a surface from an offset on, as many as lie in one piece. */
static uint8_t *piece_of(const struct surface *surface, uint64_t offset, uint64_t *have)
{
        *have = UINT64_MAX;
        return surface->is_device ? bytes_at(surface->at + offset, have) : surface->bytes + offset;
}

static CUresult copy_row(const struct surface *to, const struct surface *from, uint64_t to_at, uint64_t from_at,
                         uint64_t n)
{
        while (n) {
                uint64_t have_to, have_from, m;
                uint8_t *d = piece_of(to, to_at, &have_to);
                const uint8_t *s = piece_of(from, from_at, &have_from);

                if (!d || !s)
                        return CUDA_ERROR_INVALID_VALUE;
                m = have_to < have_from ? have_to : have_from;
                m = m < n ? m : n;
                if ((to->is_device && !room_for(d, m)) || (from->is_device && !room_for(s, m)))
                        return CUDA_ERROR_UNKNOWN;
                memmove(d, s, m);
                to_at += m;
                from_at += m;
                n -= m;
        }
        return CUDA_SUCCESS;
}

CUresult copy_bytes(const CUDA_MEMCPY3D *copy)
{
        struct surface from, to;
        CUresult r = surfaces_of(copy, &from, &to);

        for (size_t z = 0; z < copy->Depth && r == CUDA_SUCCESS; z++)
                for (size_t y = 0; y < copy->Height && r == CUDA_SUCCESS; y++)
                        r = copy_row(&to, &from, z * to.slice + y * to.pitch, z * from.slice + y * from.pitch,
                                     copy->WidthInBytes);
        return r;
}

/* ---- fills --------------------------------------------------------------------------------- */

CUresult set_check(const CUDA_MEMSET_NODE_PARAMS *set)
{
        size_t row = set->width * set->elementSize, pitch = set->height > 1 ? set->pitch : row;

        if ((set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4) || pitch < row ||
            set->dst % set->elementSize)
                return CUDA_ERROR_INVALID_VALUE;
        if (!row || !set->height)
                return CUDA_SUCCESS;
        return bytes_are_mapped(set->dst, (uint64_t)(set->height - 1) * pitch + row) ? CUDA_SUCCESS :
                                                                                       CUDA_ERROR_INVALID_VALUE;
}

static void words_fill(uint8_t *bytes, uint64_t n, unsigned int value, unsigned int element)
{
        if (element == 1) {
                memset(bytes, (int)(value & 0xff), n);
                return;
        }
        for (uint64_t i = 0; i + element <= n; i += element)
                memcpy(bytes + i, &value, element); /* little endian */
}

CUresult set_bytes(const CUDA_MEMSET_NODE_PARAMS *set)
{
        for (size_t y = 0; y < set->height; y++) {
                uint64_t at = set->dst + y * set->pitch, n = (uint64_t)set->width * set->elementSize;

                while (n) {
                        uint64_t have = 0, m;
                        uint8_t *bytes = bytes_at(at, &have);

                        if (!bytes)
                                return CUDA_ERROR_INVALID_VALUE;
                        m = have < n ? have : n;
                        if (!room_for(bytes, m))
                                return CUDA_ERROR_UNKNOWN;
                        words_fill(bytes, m, set->value, set->elementSize);
                        at += m;
                        n -= m;
                }
        }
        return CUDA_SUCCESS;
}
