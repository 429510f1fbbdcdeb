/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See nv.h. Blocks are built field by field at the offsets of docs/rm-abi.md; the ones that never
 * changed in 525 to 595 are numbers here, the others come from the layout.
 */
#include "sim/cuda/driver/nv.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        FB_INFO_MAX = 8,
        DEVICE_INFO_SIZE = 72,
};

int nv_init(struct nv *nv, uint32_t prefix, uint32_t stride)
{
        _cleanup_(closep) int fd = open("/sys/module/nvidia/version", O_RDONLY | O_CLOEXEC);
        struct rm_version version;
        char text[64] = { 0 };
        int r;

        *nv = (struct nv){ .ctl = -1, .uvm = -1, .uvm_mm = -1, .prefix = prefix, .stride = stride };
        if (fd < 0)
                return -errno;
        if (read(fd, text, sizeof(text) - 1) < 0)
                return -errno;
        text[strcspn(text, "\n")] = 0;
        r = rm_version_parse(text, &version);
        if (r != 0)
                return r;
        return rm_layout_for(version, &nv->layout);
}

void nv_done(struct nv *nv)
{
        closep(&nv->uvm_mm);
        closep(&nv->uvm);
        closep(&nv->ctl);
        free(nv->used);
        *nv = (struct nv){ .ctl = -1, .uvm = -1, .uvm_mm = -1 };
}

int nv_node_open(const char *path)
{
        int fd = open(path, O_RDWR | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

int nv_device_open(const struct nv *nv, uint32_t minor)
{
        _cleanup_(closep) int fd = -1;
        char path[32];
        uint8_t block[4];

        (void)snprintf(path, sizeof(path), "/dev/nvidia%u", minor);
        fd = nv_node_open(path);
        if (fd < 0)
                return TAKE_FD(fd);
        rm_put32(block, sizeof(block), 0, (uint32_t)nv->ctl);
        if (nv_ioctl(fd, RM_NR_REGISTER_FD, block, sizeof(block), UINT32_MAX) != 0)
                return -EIO;
        return TAKE_FD(fd);
}

/* ---- handles ------------------------------------------------------------------------------- */

static bool handle_is_used(const struct nv *nv, uint32_t number)
{
        return number / 64 < nv->n_words && (nv->used[number / 64] >> number % 64 & 1);
}

static int handles_grow(struct nv *nv, uint32_t last)
{
        size_t n = last / 64 + 1;
        uint64_t *used;

        if (n <= nv->n_words)
                return 0;
        n += n / 2 + 16;
        used = reallocarray(nv->used, n, sizeof(*used));
        if (!used)
                return -ENOMEM;
        memset(used + nv->n_words, 0, (n - nv->n_words) * sizeof(*used));
        nv->used = used;
        nv->n_words = n;
        return 0;
}

uint32_t nv_handles_take(struct nv *nv, uint32_t n)
{
        uint32_t first = 1, have = 0;

        /* Whole words at a time while they are full: programs hold tens of thousands of handles. */
        for (uint32_t i = 1; have < n; i++) {
                while (have == 0 && i % 64 == 0 && i / 64 < nv->n_words && nv->used[i / 64] == UINT64_MAX)
                        i += 64;
                if (handle_is_used(nv, i)) {
                        have = 0;
                        continue;
                }
                if (have++ == 0)
                        first = i;
        }
        if (handles_grow(nv, first + n - 1) < 0)
                return 0;
        for (uint32_t i = first; i < first + n; i++)
                nv->used[i / 64] |= 1ull << i % 64;
        return first;
}

uint32_t nv_handle_take(struct nv *nv)
{
        uint32_t number = nv_handles_take(nv, 1);

        return number ? nv->prefix + number * nv->stride : 0;
}

void nv_handle_give(struct nv *nv, uint32_t handle)
{
        uint32_t number = (handle - nv->prefix) / nv->stride;

        if (number / 64 < nv->n_words)
                nv->used[number / 64] &= ~(1ull << number % 64);
}

/* ---- the resource manager ------------------------------------------------------------------ */

int nv_ioctl_again(int fd, unsigned long request, void *block)
{
        int r;

        do {
                r = ioctl(fd, request, block);
        } while (r < 0 && (errno == EINTR || errno == EAGAIN));
        return r;
}

uint32_t nv_ioctl(int fd, uint32_t nr, void *block, uint32_t size, uint32_t status_at)
{
        if (nv_ioctl_again(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size), block) < 0)
                return NV_LOST;
        return status_at == UINT32_MAX ? RM_STATUS_OK : rm_get32(block, size, status_at);
}

uint32_t nv_devices(const struct nv *nv, struct nv_device_info ret[static NV_DEVICES], uint32_t *ret_n)
{
        uint8_t block[NV_DEVICES * DEVICE_INFO_SIZE] = { 0 }, params[8] = { 0 };
        uint32_t status, n = 0;

        rm_put32(params, sizeof(params), 0, 0x40000000);
        status = nv_ioctl(nv->ctl, RM_NR_SYS_PARAMS, params, sizeof(params), UINT32_MAX);
        if (status == RM_STATUS_OK)
                status = nv_ioctl(nv->ctl, RM_NR_CARD_INFO, block, sizeof(block), UINT32_MAX);
        for (uint32_t at = 0; status == RM_STATUS_OK && at < sizeof(block); at += DEVICE_INFO_SIZE) {
                if (!(rm_get32(block, sizeof(block), at) & 1)) /* not valid */
                        continue;
                ret[n++] = (struct nv_device_info){
                        .domain = rm_get32(block, sizeof(block), at + 4),
                        .bus = block[at + 8],
                        .slot = block[at + 9],
                        .vendor_id = (uint16_t)rm_get32(block, sizeof(block), at + 12),
                        .device_id = (uint16_t)(rm_get32(block, sizeof(block), at + 12) >> 16),
                        .gpu_id = rm_get32(block, sizeof(block), at + 16),
                        .minor = rm_get32(block, sizeof(block), at + 56),
                };
        }
        *ret_n = n;
        return status;
}

/* Most blocks begin with the client, and two objects of it. */
static void put_names(uint8_t *block, uint32_t client, uint32_t parent, uint32_t object)
{
        rm_put32(block, 12, 0, client);
        rm_put32(block, 12, 4, parent);
        rm_put32(block, 12, 8, object);
}

uint32_t nv_alloc(struct nv *nv, int on, uint32_t parent, uint32_t object, uint32_t class_number, void *params)
{
        const struct rm_layout *layout = &nv->layout;
        uint8_t block[64] = { 0 };
        uint32_t size = layout->alloc_size, status;

        put_names(block, object ? nv->client : 0, parent, object);
        rm_put32(block, size, 12, class_number);
        rm_put64(block, size, 16, (uintptr_t)params);
        status = nv_ioctl(on < 0 ? nv->ctl : on, RM_NR_ALLOC, block, size, layout->alloc_status_at);
        if (status == RM_STATUS_OK && !object)
                nv->client = rm_get32(block, size, 8);
        return status;
}

uint32_t nv_free(const struct nv *nv, uint32_t parent, uint32_t object)
{
        uint8_t block[16] = { 0 };

        put_names(block, nv->client, parent, object);
        return nv_ioctl(nv->ctl, RM_NR_FREE, block, sizeof(block), 12);
}

uint32_t nv_control(const struct nv *nv, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
        uint8_t block[32] = { 0 };

        put_names(block, nv->client, object, cmd);
        rm_put64(block, sizeof(block), 16, size ? (uintptr_t)params : 0);
        rm_put32(block, sizeof(block), 24, size);
        return nv_ioctl(nv->ctl, RM_NR_CONTROL, block, sizeof(block), 28);
}

uint32_t nv_dup(const struct nv *nv, uint32_t parent, uint32_t object, uint32_t source_client, uint32_t source_object)
{
        uint8_t block[28] = { 0 };

        put_names(block, nv->client, parent, object);
        rm_put32(block, sizeof(block), 12, source_client);
        rm_put32(block, sizeof(block), 16, source_object);
        return nv_ioctl(nv->ctl, RM_NR_DUP, block, sizeof(block), 24);
}

uint32_t nv_share(const struct nv *nv, uint32_t object)
{
        uint8_t block[24] = { 0 };

        put_names(block, nv->client, object, nv->client);
        rm_put32(block, sizeof(block), 12, 1); /* mask: may dup */
        rm_put32(block, sizeof(block), 16, 1); /* type: all */
        return nv_ioctl(nv->ctl, RM_NR_SHARE, block, sizeof(block), 20);
}

/* ---- memory -------------------------------------------------------------------------------- */

struct nv_memory nv_video_memory(const struct nv *nv, uint64_t size, uint32_t attr)
{
        return (struct nv_memory){ .class_number = RM_CLASS_VIDEO_MEMORY,
                                   .owner = nv->client,
                                   .flags = 0x1c101,
                                   .attr = attr,
                                   .size = size,
                                   .align = 2 << 20 };
}

struct nv_memory nv_host_memory(uint32_t owner, uint64_t size, uint32_t attr)
{
        return (struct nv_memory){
                .class_number = RM_CLASS_HOST_MEMORY, .owner = owner, .flags = 0xc001, .attr = attr, .size = size
        };
}

struct nv_mapping nv_mapping_at(uint32_t parent, uint32_t object, uint64_t size, uint64_t at)
{
        return (struct nv_mapping){ .parent = parent,
                                    .object = object,
                                    .flags = 0xc0000,
                                    .size = size,
                                    .node = "/dev/nvidiactl",
                                    .prot = PROT_READ | PROT_WRITE,
                                    .at = (void *)(uintptr_t)at };
}

uint32_t nv_memory_alloc(struct nv *nv, uint32_t parent, uint32_t object, struct nv_memory *memory)
{
        uint8_t params[256] = { 0 };
        uint32_t size = nv->layout.memory_params_size, status;

        if (size > sizeof(params))
                return NV_LOST;
        rm_put32(params, size, 0, memory->owner);
        rm_put32(params, size, 4, memory->type);
        rm_put32(params, size, 8, memory->flags);
        rm_put32(params, size, 24, memory->attr);
        rm_put32(params, size, 28, memory->attr2);
        rm_put64(params, size, 64, memory->size);
        rm_put64(params, size, 72, memory->align);
        status = nv_alloc(nv, -1, parent, object, memory->class_number, params);
        if (status == RM_STATUS_OK)
                memory->size = rm_get64(params, size, 64);
        return status;
}

uint32_t nv_memory_pin(const struct nv *nv, int node, uint32_t parent, uint32_t object, uint32_t flags, void *pages,
                       uint64_t size)
{
        uint8_t block[56] = { 0 };

        put_names(block, nv->client, parent, object);
        rm_put32(block, sizeof(block), 12, RM_CLASS_OS_DESCRIPTOR);
        rm_put32(block, sizeof(block), 16, flags);
        rm_put64(block, sizeof(block), 24, (uintptr_t)pages);
        rm_put64(block, sizeof(block), 32, size - 1);
        rm_put32(block, sizeof(block), 48, UINT32_MAX); /* no descriptor */
        return nv_ioctl(node, RM_NR_ALLOC_MEMORY, block, sizeof(block), 40);
}

/* libcuda queries ADDR_SPACE_TYPE before every mapping: it decides which node to map through. */
static uint32_t ask_address_space(const struct nv *nv, uint32_t object, uint32_t flags)
{
        uint8_t params[12] = { 0 };

        rm_put32(params, sizeof(params), 0, object);
        rm_put32(params, sizeof(params), 4, flags);
        return nv_control(nv, nv->client, 0xd01, params, sizeof(params));
}

uint32_t nv_map(const struct nv *nv, const struct nv_mapping *mapping, void **ret_at, uint64_t *ret_linear)
{
        _cleanup_(closep) int fd = -1;
        uint8_t block[56] = { 0 };
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), length = (mapping->size + page - 1) & ~(page - 1);
        uint32_t status = ask_address_space(nv, mapping->object, mapping->flags);
        void *at;

        if (status != RM_STATUS_OK)
                return status;
        fd = nv_node_open(mapping->node);
        if (fd < 0)
                return NV_LOST;

        put_names(block, nv->client, mapping->parent, mapping->object);
        rm_put64(block, sizeof(block), 24, mapping->size);
        rm_put32(block, sizeof(block), 44, mapping->flags);
        rm_put32(block, sizeof(block), 48, (uint32_t)fd);
        status = nv_ioctl(nv->ctl, RM_NR_MAP_MEMORY, block, sizeof(block), 40);
        if (status != RM_STATUS_OK)
                return status;

        at = mmap(mapping->at, length, mapping->prot, MAP_SHARED | (mapping->at ? MAP_FIXED : 0), fd, 0);
        if (at == MAP_FAILED)
                return NV_LOST;
        *ret_linear = rm_get64(block, sizeof(block), 32);
        *ret_at = at;
        return RM_STATUS_OK;
}

uint32_t nv_update_mapping(const struct nv *nv, const struct nv_mapping *mapping, uint64_t linear, const void *at)
{
        uint8_t block[40] = { 0 };

        put_names(block, nv->client, mapping->parent, mapping->object);
        rm_put64(block, sizeof(block), 16, linear);
        rm_put64(block, sizeof(block), 24, (uintptr_t)at);
        return nv_ioctl(nv->ctl, RM_NR_UPDATE_MAPPING, block, sizeof(block), 32);
}

uint32_t nv_unmap(const struct nv *nv, uint32_t parent, uint32_t object, uint64_t linear, uint32_t flags)
{
        uint8_t block[32] = { 0 };

        put_names(block, nv->client, parent, object);
        rm_put64(block, sizeof(block), 16, linear);
        rm_put32(block, sizeof(block), 28, flags);
        return nv_ioctl(nv->ctl, RM_NR_UNMAP_MEMORY, block, sizeof(block), 24);
}

/* ---- figures ------------------------------------------------------------------------------- */

uint32_t nv_fb_info(const struct nv *nv, uint32_t subdevice, const uint32_t *index, uint32_t *ret, uint32_t n)
{
        uint8_t params[2048] = { 0 };
        uint32_t size = nv->layout.fb_info_size, status;

        if (size > sizeof(params) || n > FB_INFO_MAX)
                return NV_LOST;
        rm_put32(params, size, 0, n);
        for (uint32_t i = 0; i < n; i++)
                rm_put32(params, size, 4 + 8 * i, index[i]);
        status = nv_control(nv, subdevice, RM_FB_GET_INFO_V2, params, size);
        if (status != RM_STATUS_OK)
                return status;
        for (uint32_t i = 0; i < n; i++)
                ret[i] = rm_get32(params, size, 8 + 8 * i);
        return RM_STATUS_OK;
}
