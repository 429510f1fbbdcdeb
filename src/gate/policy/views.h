/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant sees of the device: its quota as the device's size, its own processes, the devices of its lease. Pure
 * functions on the reply of the driver's own call.
 */
#pragma once

#include "base/text.h"
#include "lease/lease.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What there is to see of one device. */
struct view {
        bytes size; /* the quota */
        bytes free; /* what is left of it */
};

/* FB_GET_INFO: n pairs {index, KiB} at `list`. */
void view_fb_info(void *list, size_t n, const struct view *view);

/* FB_GET_FB_REGION_INFO: n@0, regions of 56 bytes from 8 that begin with base and limit: together as large as the
 * quota. */
void view_regions(void *params, size_t size, const struct view *view);

/* VID_HEAP INFO: total@24 and free@32 of the block, in bytes. */
void view_heap_info(void *block, size_t size, const struct view *view);

/* Memory of confidential computing, protected@8 and not@16, both in KiB: each at most the quota. */
void view_protected(void *params, size_t size, const struct view *view);

/* A list of 32-bit gpu ids that ends at the first 0xffffffff: only those of the lease stay, in order. */
void view_gpu_ids(void *ids, size_t n, const struct lease *lease);

/* CARD_INFO: elements of 72 bytes: only those of the lease stay; their memory size is the quota. */
void view_devices(void *list, size_t n, const struct lease *lease);

/* GET_ACTIVE_DEVICE_IDS: n@0, then entries of 12 bytes that begin with a gpu id. */
void view_active_devices(void *params, size_t size, const struct lease *lease);

/* GET_PIDS: the tenant's processes. params: count@8, pid[950]@12. */
void view_pids(void *params, size_t size, const uint32_t *pids, size_t n);

/* GET_PID_INFO: what each process named holds. params: n@0, entries of 72 bytes from 8. */
typedef bytes (*view_held_by)(void *context, uint32_t pid);
void view_pid_info(void *params, size_t size, view_held_by held_by, void *context);
