/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods that describe the machine and its devices. The figures are an H200's; those that nothing here
 * reads are zero. Layouts: open-gpu-kernel-modules ctrl/, 580.142, seen with
 * 580.159.04.
 */
#include "sim/methods/methods.h"

#include "rm/numbers.h"

#include <stdio.h>
#include <string.h>

#define NO_ID UINT32_MAX

static const char name[] = "NVIDIA H200", short_name[] = "GH100";

static struct gpu *gpu_by_id(struct machine *machine, uint32_t id)
{
        for (unsigned int i = 0; i < machine->options.n_gpus; i++)
                if (machine->gpus[i].id == id)
                        return &machine->gpus[i];
        return NULL;
}

/* ---- the machine --------------------------------------------------------------------------- */

uint32_t method_build_version(struct method_call *call)
{
        struct part *text = &call->request->segments[1];

        for (size_t i = 1; i < call->request->header.n_segments && i <= 3; i++)
                memset(call->request->segments[i].data, 0, call->request->segments[i].size);
        if (call->request->header.n_segments > 1 && text->size)
                (void)snprintf((char *)text->data, text->size, "%s", call->machine->options.release);
        return RM_STATUS_OK;
}

/* A list of 32 ids, ended by NO_ID. */
static void ids_put(struct method_call *call, size_t at)
{
        for (unsigned int i = 0; i < GPUS_MAX; i++)
                params_put(call, at + 4 * i, i < call->machine->options.n_gpus ? call->machine->gpus[i].id : NO_ID);
}

uint32_t method_attached_ids(struct method_call *call)
{
        ids_put(call, 0);
        return RM_STATUS_OK;
}

uint32_t method_probed_ids(struct method_call *call)
{
        (void)method_zeros(call);
        ids_put(call, 0);
        for (size_t i = 0; i < GPUS_MAX; i++)
                params_put(call, 4 * (GPUS_MAX + i), NO_ID); /* none is excluded */
        return RM_STATUS_OK;
}

uint32_t method_attach_ids(struct method_call *call)
{
        params_put(call, 4 * GPUS_MAX, NO_ID); /* none failed */
        return RM_STATUS_OK;
}

uint32_t method_active_ids(struct method_call *call)
{
        (void)method_zeros(call);
        params_put(call, 0, call->machine->options.n_gpus);
        for (unsigned int i = 0; i < call->machine->options.n_gpus; i++) {
                params_put(call, 4 + 12 * i, call->machine->gpus[i].id);
                params_put(call, 8 + 12 * i, NO_ID); /* no MIG instance */
                params_put(call, 12 + 12 * i, NO_ID);
        }
        return RM_STATUS_OK;
}

static uint32_t id_put(struct method_call *call, size_t sli_at)
{
        const struct gpu *gpu = gpu_by_id(call->machine, params_get(call, 0));

        if (!gpu)
                return RM_STATUS_INVALID_ARGUMENT;
        params_put(call, 4, 0);
        params_put(call, 8, gpu->index); /* the device instance: what NV0080 calls deviceId */
        params_put(call, 12, 0);
        params_put(call, sli_at, 0);
        params_put(call, sli_at + 4, gpu->id); /* board */
        params_put(call, sli_at + 8, gpu->index);
        params_put(call, sli_at + 12, NO_ID); /* no NUMA node */
        return RM_STATUS_OK;
}

uint32_t method_id_info(struct method_call *call)
{
        return id_put(call, 24);
}

uint32_t method_id_info_v2(struct method_call *call)
{
        return id_put(call, 16);
}

uint32_t method_pci_info(struct method_call *call)
{
        const struct gpu *gpu = gpu_by_id(call->machine, params_get(call, 0));

        if (!gpu)
                return RM_STATUS_INVALID_ARGUMENT;
        params_put(call, 4, 0);
        params_put(call, 8, gpu->id >> 8); /* u16 bus, u16 slot */
        return RM_STATUS_OK;
}

/* ---- a device ------------------------------------------------------------------------------ */

uint32_t method_n_subdevices(struct method_call *call)
{
        params_put(call, 0, 1);
        return RM_STATUS_OK;
}

uint32_t method_class_list(struct method_call *call)
{
        static const uint32_t classes[] = { 0x3e,   0x40,   0x70,   0x71,   0x80,   0x2080, 0x2081,
                                            0x503b, 0x503c, 0x50a0, 0x83de, 0x9067, 0x906f, 0x90e6,
                                            0x90f1, 0xa06c, 0xc361, 0xc36f, 0xc461, 0xc46f, 0xc561,
                                            0xc56f, 0xc661, 0xc86f, 0xc8b5, 0xcb33, 0xcba2, 0xcbc0 };
        size_t n = sizeof(classes) / sizeof(classes[0]);

        (void)method_zeros(call);
        params_put(call, 0, (uint32_t)n);
        for (size_t i = 0; i < n; i++)
                params_put(call, 4 + 4 * i, classes[i]);
        return RM_STATUS_OK;
}

uint32_t method_engines(struct method_call *call)
{
        static const uint32_t engines[] = { 1, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18 }; /* GR0, copy 0-9 */
        size_t n = sizeof(engines) / sizeof(engines[0]);

        (void)method_zeros(call);
        params_put(call, 0, (uint32_t)n);
        for (size_t i = 0; i < n; i++)
                params_put(call, 4 + 4 * i, engines[i]);
        return RM_STATUS_OK;
}

enum fact_list {
        FACTS_DEVICE,
        FACTS_BUS,
        FACTS_MEMORY,
};

static uint32_t fact_find(enum fact_list list, uint32_t index)
{
#define FACT(list_, index_, datum)                                                                                     \
        if (list == FACTS_##list_ && index == index_)                                                                  \
                return datum;
#include "sim/methods/facts.def"
#undef FACT
        return 0;
}

/* n@0, then pairs of index and datum. */
uint32_t method_device_info(struct method_call *call)
{
        enum {
                PARTITIONS = 0x2a, /* 1: MIG mode is on, 2: off */
        };
        bool has_mig = call->gpu->index == 0 && call->machine->options.n_instances;

        for (size_t i = 0; i < params_get(call, 0) && 8 + 8 * i < call->params->size; i++)
                params_put(call, 8 + 8 * i,
                           has_mig && params_get(call, 4 + 8 * i) == PARTITIONS ?
                                   1 :
                                   fact_find(FACTS_DEVICE, params_get(call, 4 + 8 * i)));
        return RM_STATUS_OK;
}

uint32_t method_bus_info(struct method_call *call)
{
        enum {
                BUS_NUMBER = 0x0f,
        };
        uint32_t bus = call->gpu->id >> 8;

        for (size_t i = 0; i < params_get(call, 0) && 8 + 8 * i < call->params->size; i++) {
                uint32_t index = params_get(call, 4 + 8 * i);

                params_put(call, 8 + 8 * i, index == BUS_NUMBER ? bus : fact_find(FACTS_BUS, index));
        }
        return RM_STATUS_OK;
}

/* flags@0: 0 ASCII, 1 Unicode; at most 64 characters. */
uint32_t method_name(struct method_call *call)
{
        bool is_wide = params_get(call, 0) & 1;

        memset(call->params->data + 4, 0, call->params->size - 4);
        for (size_t i = 0; name[i]; i++)
                call->params->data[4 + (is_wide ? 2 * i : i)] = (unsigned char)name[i];
        return RM_STATUS_OK;
}

uint32_t method_short_name(struct method_call *call)
{
        (void)method_zeros(call);
        memcpy(call->params->data, short_name, sizeof(short_name));
        return RM_STATUS_OK;
}

uint32_t method_gpu_id(struct method_call *call)
{
        params_put(call, 0, call->gpu->id);
        return RM_STATUS_OK;
}

/* index@0 flags@4 (bit 1: binary) length@8 data@12 */
uint32_t method_gid(struct method_call *call)
{
        const unsigned char *uuid = call->gpu->uuid;
        char *text = (char *)call->params->data + 12;

        memset(text, 0, call->params->size - 12);
        if (params_get(call, 4) & 2) {
                memcpy(text, uuid, sizeof(call->gpu->uuid));
                params_put(call, 8, sizeof(call->gpu->uuid));
                return RM_STATUS_OK;
        }
        gpu_uuid_format(call->gpu->index, text);
        params_put(call, 8, UUID_TEXT);
        return RM_STATUS_OK;
}

uint32_t method_context_size(struct method_call *call)
{
        rm_put64(call->params->data, call->params->size, 8, 0); /* no separate buffer to account for */
        return RM_STATUS_OK;
}

uint32_t method_architecture(struct method_call *call)
{
        (void)method_zeros(call);
        params_put(call, 0, 0x180); /* GH100 */
        params_put(call, 8, 0xa1);
        params_put(call, 12, 3);
        return RM_STATUS_OK;
}

uint32_t method_pci_ids(struct method_call *call)
{
        params_put(call, 0, 0x233510de);
        params_put(call, 4, 0x18bf10de);
        params_put(call, 8, 0xa1);
        params_put(call, 12, 0x2335);
        return RM_STATUS_OK;
}

/* ---- memory info: docs/rm-abi.md 5.1; KiB -------------------------------------------------- */

static uint32_t memory_datum(const struct gpu *gpu, uint32_t index)
{
        switch (index) {
        case RM_FB_RAM_SIZE:
        case RM_FB_TOTAL_RAM:
        case RM_FB_USABLE_RAM:
                return (uint32_t)(gpu->machine->options.memory / KIB);
        case RM_FB_HEAP_SIZE:
        case RM_FB_MAPPABLE_HEAP:
                return (uint32_t)(gpu->heap.size / KIB);
        case RM_FB_HEAP_FREE:
        case RM_FB_LARGEST_FREE:
                return (uint32_t)(heap_free(&gpu->heap) / KIB);
        default:
                return fact_find(FACTS_MEMORY, index);
        }
}

static uint32_t memory_list(const struct gpu *gpu, struct part *list, size_t at, uint32_t n)
{
        if (n > (list->size - at) / 8)
                return RM_STATUS_INVALID_ARGUMENT;
        for (size_t i = 0; i < n; i++)
                rm_put32(list->data, list->size, at + 8 * i + 4,
                         memory_datum(gpu, rm_get32(list->data, list->size, at + 8 * i)));
        return RM_STATUS_OK;
}

uint32_t method_memory_info(struct method_call *call)
{
        return memory_list(call->gpu, call->params, 4, params_get(call, 0));
}

uint32_t method_memory_info_v1(struct method_call *call)
{
        return call->request->header.n_segments > 1 ?
                       memory_list(call->gpu, &call->request->segments[1], 0, params_get(call, 0)) :
                       RM_STATUS_INVALID_ARGUMENT;
}
