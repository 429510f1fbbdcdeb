/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/policy/views.h"

#include "rm/layout.h"
#include "rm/numbers.h"

#include <string.h>

/* Memory of confidential computing, as the heap's (docs/rm-abi.md 5.1). */
enum {
        FB_PROTECTED_TOTAL = 0x33,
        FB_PROTECTED_FREE = 0x34,
};

static uint32_t kib(bytes size)
{
        bytes k = size / KIB;

        return k > UINT32_MAX ? UINT32_MAX : (uint32_t)k;
}

static uint32_t at_most(uint32_t real, bytes size)
{
        return real < kib(size) ? real : kib(size);
}

void view_fb_info(void *list, size_t n, const struct view *view)
{
        for (size_t i = 0; i < n; i++) {
                uint32_t index = rm_get32(list, n * 8, i * 8);
                uint32_t real = rm_get32(list, n * 8, i * 8 + 4);

                switch (index) {
                case RM_FB_RAM_SIZE:
                case RM_FB_TOTAL_RAM:
                case RM_FB_HEAP_SIZE:
                case RM_FB_USABLE_RAM:
                        real = kib(view->size);
                        break;
                case RM_FB_MAPPABLE_HEAP:
                case FB_PROTECTED_TOTAL:
                        real = at_most(real, view->size);
                        break;
                case RM_FB_HEAP_FREE:
                case RM_FB_LARGEST_FREE:
                case FB_PROTECTED_FREE:
                        real = at_most(real, view->free);
                        break;
                case RM_FB_LARGEST_BASE:
                        real = 0;
                        break;
                default:
                        if (index > RM_FB_INDEX_LAST)
                                real = 0;
                }
                rm_put32(list, n * 8, i * 8 + 4, real);
        }
}

void view_regions(void *params, size_t size, const struct view *view)
{
        enum { REGIONS_AT = 8, REGION_SIZE = 56, LIMIT_AT = 8 };
        uint32_t n = rm_get32(params, size, 0), kept = 0;
        bytes left = view->size;

        for (; kept < n && left && REGIONS_AT + (kept + 1) * REGION_SIZE <= size; kept++) {
                size_t at = REGIONS_AT + kept * REGION_SIZE;
                uint64_t base = rm_get64(params, size, at), limit = rm_get64(params, size, at + LIMIT_AT);

                if (limit < base || limit - base >= left)
                        limit = base + left - 1;
                rm_put64(params, size, at + LIMIT_AT, limit);
                left -= limit - base + 1;
        }
        rm_put32(params, size, 0, kept);
        if (REGIONS_AT + kept * REGION_SIZE < size)
                memset((uint8_t *)params + REGIONS_AT + kept * REGION_SIZE, 0, size - REGIONS_AT - kept * REGION_SIZE);
}

void view_heap_info(void *block, size_t size, const struct view *view)
{
        bytes real_free = rm_get64(block, size, 32);

        rm_put64(block, size, 24, view->size);
        rm_put64(block, size, 32, real_free < view->free ? real_free : view->free);
}

void view_protected(void *params, size_t size, const struct view *view)
{
        for (size_t at = 8; at <= 16; at += 8) {
                uint64_t real = rm_get64(params, size, at);

                rm_put64(params, size, at, real < view->size / KIB ? real : view->size / KIB);
        }
}

static const struct lease_device *granted(const struct lease *lease, uint32_t gpu_id)
{
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].is_granted && lease->devices[i].gpu_id == gpu_id)
                        return &lease->devices[i];
        return NULL;
}

void view_gpu_ids(void *ids, size_t n, const struct lease *lease)
{
        size_t kept = 0;

        for (size_t i = 0; i < n; i++) {
                uint32_t id = rm_get32(ids, n * 4, i * 4);

                if (id != UINT32_MAX && granted(lease, id))
                        rm_put32(ids, n * 4, kept++ * 4, id);
        }
        for (; kept < n; kept++)
                rm_put32(ids, n * 4, kept * 4, UINT32_MAX);
}

void view_devices(void *list, size_t n, const struct lease *lease)
{
        enum { SIZE = 72, VALID_AT = 0, GPU_ID_AT = 16, FB_SIZE_AT = 48 };
        uint8_t *bytes_of = list;
        size_t kept = 0;

        for (size_t i = 0; i < n; i++) {
                uint8_t *entry = bytes_of + i * SIZE;
                const struct lease_device *device = granted(lease, rm_get32(entry, SIZE, GPU_ID_AT));

                if (!entry[VALID_AT] || !device)
                        continue;
                rm_put64(entry, SIZE, FB_SIZE_AT, device->quota.size);
                memmove(bytes_of + kept++ * SIZE, entry, SIZE);
        }
        memset(bytes_of + kept * SIZE, 0, (n - kept) * SIZE);
}

void view_active_devices(void *params, size_t size, const struct lease *lease)
{
        enum { ENTRY = 12, FIRST_AT = 4 };
        uint8_t *bytes_of = params;
        uint32_t n = rm_get32(params, size, 0), kept = 0;

        for (uint32_t i = 0; i < n && FIRST_AT + (i + 1) * ENTRY <= size; i++) {
                uint8_t *entry = bytes_of + FIRST_AT + i * ENTRY;

                if (granted(lease, rm_get32(entry, ENTRY, 0)))
                        memmove(bytes_of + FIRST_AT + kept++ * ENTRY, entry, ENTRY);
        }
        rm_put32(params, size, 0, kept);
        if (FIRST_AT + kept * ENTRY < size)
                memset(bytes_of + FIRST_AT + kept * ENTRY, 0, size - FIRST_AT - kept * ENTRY);
}

void view_pids(void *params, size_t size, const uint32_t *pids, size_t n)
{
        enum { COUNT_AT = 8, PIDS_AT = 12, PIDS_MAX = 950 };

        if (size < PIDS_AT)
                return;
        if (n > PIDS_MAX)
                n = PIDS_MAX;
        memset((uint8_t *)params + PIDS_AT, 0, size - PIDS_AT);
        rm_put32(params, size, COUNT_AT, (uint32_t)n);
        for (size_t i = 0; i < n; i++)
                rm_put32(params, size, PIDS_AT + i * 4, pids[i]);
}

void view_pid_info(void *params, size_t size, view_held_by held_by, void *context)
{
        enum { FIRST_AT = 8, ENTRY = 72, PID = 0, INDEX = 4, RESULT = 8, PRIVATE = 16, ENTRIES_MAX = 200 };
        uint32_t n = rm_get32(params, size, 0);

        for (uint32_t i = 0; i < n && i < ENTRIES_MAX; i++) {
                size_t at = FIRST_AT + (size_t)i * ENTRY;

                if (at + ENTRY > size)
                        return;
                memset((uint8_t *)params + at + PRIVATE, 0, 48);
                rm_put64(params, size, at + PRIVATE, held_by(context, rm_get32(params, size, at + PID)));
                rm_put32(params, size, at + RESULT, 0);
        }
}
