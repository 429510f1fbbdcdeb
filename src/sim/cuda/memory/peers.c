/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one device that another one reaches. Recorded (tests/trace/h200x2-580.159.04): enabling makes one object of
 * class 0x503b per pair; memory is mapped on the other device by a UVM 33 of its own, the memory itself or, where it
 * has fabric addresses, a dup of those on the other's subdevice; it ends with UVM 66 and FREE of the dup, at first.
 *
 * Addresses are the same for all devices and kernels run on the library's bytes, so nothing else is needed for a
 * program to see the other's memory; that it may is told by the mappings alone.
 */
#include "sim/cuda/context/stream.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <stdlib.h>

enum {
        CLASS_PEERS = 0x503b,
        OBJECT_PINNED = 0x76, /* of start_context.def, at NEAR(PINNED_AT) */
        PINNED_AT = 0xa00000,
        PINNED_SIZE = 2 << 20,
};

struct peer_view {
        struct peer_view *next;
        struct device *device;
        uint32_t handle; /* a dup of the fabric addresses; 0: the memory itself is mapped */
};

static uint32_t bit_of(const struct device *device)
{
        return 1u << (device - library.device);
}

static bool is_seen_by(const struct mapping *mapping, const struct device *device)
{
        for (const struct peer_view *view = mapping->views; view; view = view->next)
                if (view->device == device)
                        return true;
        return false;
}

static uint32_t dup_addresses(const struct memory *memory, const struct device *device, uint32_t *ret)
{
        struct nv *nv = &library.nv;
        uint32_t status;

        *ret = 0;
        if (!memory->fabric)
                return RM_STATUS_OK;
        *ret = nv_handle_take(nv);
        if (!*ret)
                return RM_STATUS_NO_MEMORY;
        status = nv_dup(nv, start_handle(&device->start, NULL, OBJECT_SUBDEVICE), *ret, nv->client, memory->fabric);
        if (status != RM_STATUS_OK)
                nv_handle_give(nv, *ret);
        return status;
}

static void drop_addresses(const struct device *device, uint32_t handle)
{
        if (!handle)
                return;
        (void)nv_free(&library.nv, start_handle(&device->start, NULL, OBJECT_DEVICE), handle);
        nv_handle_give(&library.nv, handle);
}

CUresult peer_see(struct mapping *mapping, struct device *device)
{
        const struct memory *memory = mapping->memory;
        struct peer_view *view;
        uint32_t status;

        if (memory->device == device || memory->kind != MEMORY_VIDEO || is_seen_by(mapping, device))
                return CUDA_SUCCESS;
        view = calloc(1, sizeof(*view));
        if (!view)
                return CUDA_ERROR_OUT_OF_MEMORY;
        view->device = device;
        status = dup_addresses(memory, device, &view->handle);
        if (status == RM_STATUS_OK) {
                status = nv_uvm_map(&library.nv, device->start.uuid, mapping->span.base, mapping->span.size,
                                    mapping->offset, view->handle ? view->handle : memory->handle);
                if (status != RM_STATUS_OK)
                        drop_addresses(device, view->handle);
        }
        if (status != RM_STATUS_OK) {
                free(view);
                return result_of(status);
        }
        view->next = mapping->views;
        mapping->views = view;
        return CUDA_SUCCESS;
}

CUresult peers_see(struct mapping *mapping)
{
        CUresult r = CUDA_SUCCESS;

        mapping->is_for_peers = true;
        for (int i = 0; i < library.n_devices && r == CUDA_SUCCESS; i++)
                if (library.device[i].reaches & bit_of(mapping->memory->device))
                        r = peer_see(mapping, &library.device[i]);
        return r;
}

void peers_unsee(struct mapping *mapping)
{
        struct peer_view *next;

        for (struct peer_view *view = mapping->views; view; view = next) {
                next = view->next;
                (void)nv_uvm_range_of(&library.nv, UVM_UNMAP_EXTERNAL, mapping->span.base, mapping->span.size,
                                      view->device->start.uuid);
                drop_addresses(view->device, view->handle);
                free(view);
        }
        mapping->views = NULL;
}

/* ---- entry points --------------------------------------------------------------------------------- */

static bool can_reach(const struct device *a, const struct device *b)
{
        return a != b && a->start.has_fabric && b->start.has_fabric;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
        LOCKED_LIBRARY;
        struct device *a, *b;
        CUresult r = device_enter(device, &a);

        if (r == CUDA_SUCCESS)
                r = device_enter(peer, &b);
        if (r == CUDA_SUCCESS && !can)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *can = can_reach(a, b);
        return r;
}

/* Pages of the process that the other context pinned: dupped for this device, and mapped there. They and the object of
 * the pair stay until the client ends. */
static CUresult see_pinned(const struct device *device, CUcontext peer)
{
        struct nv *nv = &library.nv;
        uint32_t handle = nv_handle_take(nv), status;

        if (!handle)
                return CUDA_ERROR_OUT_OF_MEMORY;
        status = nv_dup(nv, start_handle(&device->start, NULL, OBJECT_DEVICE), handle, nv->client,
                        start_handle(&peer->device->start, &peer->start, OBJECT_PINNED));
        if (status == RM_STATUS_OK)
                status = nv_uvm_map(nv, device->start.uuid, peer->start.near + PINNED_AT, PINNED_SIZE, 0, handle);
        return result_of(status);
}

static CUresult enable(struct device *device, CUcontext other)
{
        uint32_t handle = nv_handle_take(&library.nv);
        struct device *peer = other->device;
        uint8_t params[128] = { 0 };
        CUresult r;

        if (!handle)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = see_pinned(device, other);
        if (r != CUDA_SUCCESS)
                return r;
        (void)nv_alloc(&library.nv, -1, library.nv.client, handle, CLASS_PEERS, params);
        device->reaches |= bit_of(peer);
        for (struct mapping *m = mapping_after(NULL); m && r == CUDA_SUCCESS; m = mapping_after(m))
                if (m->is_for_peers && m->memory->device == peer)
                        r = peer_see(m, device);
        return r;
}

static CUresult check_enable(CUcontext context, CUcontext peer, unsigned int flags)
{
        if (!peer || peer->is_ended || flags)
                return CUDA_ERROR_INVALID_VALUE;
        if (!can_reach(context->device, peer->device))
                return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
        return context->device->reaches & bit_of(peer->device) ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
        LOCKED_LIBRARY;
        CUcontext context = NULL;
        CUresult r = context_enter(&context);

        if (r == CUDA_SUCCESS)
                r = check_enable(context, peer, flags);
        return r == CUDA_SUCCESS ? enable(context->device, peer) : r;
}
