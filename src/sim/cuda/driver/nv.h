/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's calls as libcuda makes them: a block, an ioctl on libc's ioctl, a status.
 *
 * One struct nv is one client of the driver on one nvidiactl descriptor, with the UVM descriptors
 * of the process. Every status is the driver's (0 is success); NV_LOST: the system call itself failed.
 * Sizes and offsets are those of the running release. Independent of CUDA.
 *
 * Handles are chosen here, the lowest free number first, as libcuda 580 does.
 * Threads: the caller serialises calls on one struct nv.
 */
#pragma once

#include "rm/layout.h"

#include <stddef.h>
#include <stdint.h>

#define NV_LOST UINT32_MAX

struct nv {
        struct rm_layout layout;
        int ctl, uvm, uvm_mm; /* -1: not open */
        uint32_t client;
        uint32_t prefix; /* of handles: 0x5c000000 for libcuda, 0xa55a0000 for NVML */
        uint32_t stride; /* between handles: 1, 16 */
        uint64_t *used;  /* a bit per handle */
        size_t n_words;
};

/* Reads the release and looks its layout up; opens nothing. 0; -errno; RM_E_VERSION. */
int nv_init(struct nv *nv, uint32_t prefix, uint32_t stride);
void nv_done(struct nv *nv); /* closes the descriptors; the driver frees the rest */

/* "/dev/nvidiactl", "/dev/nvidia0": a descriptor or -errno. nv_device_open also registers it with
 * ctl. */
int nv_node_open(const char *path);
int nv_device_open(const struct nv *nv, uint32_t minor);

/* `n` consecutive numbers; the first. Handles from there are prefix + number * stride. 0: no
 * memory. */
uint32_t nv_handles_take(struct nv *nv, uint32_t n);
uint32_t nv_handle_take(struct nv *nv); /* one; the handle itself; 0: no memory */
void nv_handle_give(struct nv *nv, uint32_t handle);

/* A request of the control or a device node whose block has its status at `status_at` (UINT32_MAX:
 * none). */
int nv_ioctl_again(int fd, unsigned long request, void *block); /* ioctl(2), repeated after EINTR and EAGAIN */
uint32_t nv_ioctl(int fd, uint32_t nr, void *block, uint32_t size, uint32_t status_at);

/* SYS_PARAMS and CARD_INFO: all devices of the machine, also those that this process may not use. */
struct nv_device_info {
        uint32_t gpu_id, minor, domain;
        uint8_t bus, slot;
        uint16_t vendor_id, device_id;
};
enum {
        NV_DEVICES = 32,
};
uint32_t nv_devices(const struct nv *nv, struct nv_device_info ret[static NV_DEVICES], uint32_t *ret_n);

/* ALLOC. object 0 with class 0: a new client, which becomes nv->client. `on`: the descriptor, -1:
 * ctl. */
uint32_t nv_alloc(struct nv *nv, int on, uint32_t parent, uint32_t object, uint32_t class_number, void *params);
uint32_t nv_free(const struct nv *nv, uint32_t parent, uint32_t object);
uint32_t nv_control(const struct nv *nv, uint32_t object, uint32_t cmd, void *params, uint32_t size);
uint32_t nv_dup(const struct nv *nv, uint32_t parent, uint32_t object, uint32_t source_client, uint32_t source_object);

/* SHARE with every client, as for an exported IPC handle. */
uint32_t nv_share(const struct nv *nv, uint32_t object);

/* Memory of class 0x40 or 0x3e. size: in, requested; out, as granted. */
struct nv_memory {
        uint32_t class_number, owner, type, flags, attr, attr2;
        uint64_t size, align;
};
struct nv_memory nv_video_memory(const struct nv *nv, uint64_t size, uint32_t attr);
struct nv_memory nv_host_memory(uint32_t owner, uint64_t size, uint32_t attr);
uint32_t nv_memory_alloc(struct nv *nv, uint32_t parent, uint32_t object, struct nv_memory *memory);

/* ALLOC_MEMORY of class 0x71: pins the caller's pages. node: a registered device descriptor. */
uint32_t nv_memory_pin(const struct nv *nv, int node, uint32_t parent, uint32_t object, uint32_t flags, void *pages,
                       uint64_t size);

/*
 * MAP_MEMORY and the mmap that it prepares. at: MAP_FIXED there, or NULL. node: the path of the
 * node that the mapping goes through. *ret_linear: for
 * UNMAP_MEMORY.
 */
struct nv_mapping {
        uint32_t parent, object, flags;
        uint64_t size;
        const char *node;
        int prot;
        void *at;
};
struct nv_mapping nv_mapping_at(uint32_t parent, uint32_t object, uint64_t size, uint64_t at); /* by nvidiactl */
uint32_t nv_map(const struct nv *nv, const struct nv_mapping *mapping, void **ret_at, uint64_t *ret_linear);
uint32_t nv_update_mapping(const struct nv *nv, const struct nv_mapping *mapping, uint64_t linear, const void *at);
uint32_t nv_unmap(const struct nv *nv, uint32_t parent, uint32_t object, uint64_t linear, uint32_t flags);

/* The address space of the device; UVM's. */
uint32_t nv_uvm_open(struct nv *nv); /* both descriptors; NV_LOST: there is no such node */
uint32_t nv_uvm(const struct nv *nv, uint32_t number, void *block, size_t status_at);
uint32_t nv_uvm_create(const struct nv *nv, uint64_t base, uint64_t size);
uint32_t nv_uvm_map(const struct nv *nv, const uint8_t uuid[16], uint64_t base, uint64_t size, uint64_t offset,
                    uint32_t memory);
uint32_t nv_uvm_free(const struct nv *nv, uint64_t base, uint64_t size);
uint32_t nv_uvm_range(const struct nv *nv, uint32_t number, uint64_t base, uint64_t size); /* base, len, status */
uint32_t nv_uvm_range_of(const struct nv *nv, uint32_t number, uint64_t base, uint64_t size, const uint8_t uuid[16]);
uint32_t nv_uvm_group(const struct nv *nv, uint64_t *ret_id); /* a range group: one per stream */
uint32_t nv_uvm_group_free(const struct nv *nv, uint64_t id);

/* FB_GET_INFO_V2 of a subdevice: n indexes, n figures in KiB. */
uint32_t nv_fb_info(const struct nv *nv, uint32_t subdevice, const uint32_t *index, uint32_t *ret, uint32_t n);
