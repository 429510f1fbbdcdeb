/* SPDX-License-Identifier: Apache-2.0 */
/* What the start-up tables make: see stage.h, start_device.def, start_context.def. */
#include "sim/cuda/driver/stage.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

/* ---- helpers ------------------------------------------------------------------------------- */

uint32_t stage_handle(const struct stage *stage, uint32_t n)
{
        return start_handle(stage->device, stage->context, n);
}

struct piece *stage_piece(const struct stage *stage, uint32_t n)
{
        return n < START_CONTEXT ? &stage->device->piece[n] : &stage->context->piece[n];
}

static uint32_t size_of(const struct stage *stage, uint32_t size)
{
        uint32_t field;

        if (!(size & FROM_RELEASE))
                return size;
        memcpy(&field, (const char *)&stage->nv->layout + (size & ~FROM_RELEASE), sizeof(field));
        return field;
}

static uint64_t value_of(const struct stage *stage, uint64_t value)
{
        switch (value & TAG) {
        case HANDLE(0):
                return stage_handle(stage, (uint32_t)value);
        case CLIENT:
                return stage->nv->client;
        case GPU_ID:
                return stage->device->gpu_id;
        case INSTANCE:
                return stage->device->instance;
        default:
                return value;
        }
}

static void put_words(const struct stage *stage, const struct step *step, void *params, uint32_t size)
{
        for (size_t i = 0; i < N_WORDS && step->words[i].value; i++) {
                uint64_t value = value_of(stage, step->words[i].value);

                if (step->words[i].at + 4 <= size)
                        rm_put32(params, size, step->words[i].at, (uint32_t)value);
                else if (step->words[i].at < size) /* parameters of 1 to 3 bytes */
                        ((uint8_t *)params)[step->words[i].at] = (uint8_t)value;
        }
}

uint64_t stage_address(const struct stage *stage, uint64_t address, uint64_t size)
{
        const struct start_context *c = stage->context;

        switch (address & STRETCH) {
        case LOW(0):
                return c->low + (address & ~STRETCH);
        case FAR(0):
                return c->far + (address & ~STRETCH);
        case NEAR(0):
                return c->near + (address & ~STRETCH);
        default:
                return addresses_reserve(size, ADDRESS_GRANULE);
        }
}

void stage_note_made(const struct stage *stage, uint32_t n, uint32_t parent)
{
        *stage_piece(stage, n) = (struct piece){ .is_made = true, .parent = (uint8_t)parent };
}

/* ---- steps --------------------------------------------------------------------------------- */

uint32_t play_control(const struct stage *stage, const struct step *step)
{
        uint8_t params[PARAMS_MAX] = { 0 };
        uint32_t size = size_of(stage, step->size);

        put_words(stage, step, params, size);
        return nv_control(stage->nv, stage_handle(stage, step->n), step->number, params, size);
}

/* A control whose answer is kept. */
uint32_t play_learn(const struct stage *stage, const struct step *step)
{
        struct start_device *device = stage->device;
        uint8_t params[PARAMS_MAX] = { 0 }, list[BINAPI_GR_INFO * 8] = { 0 };
        uint32_t size = size_of(stage, step->size), status;

        put_words(stage, step, params, size);
        if (step->number == 0x20801201) {
                for (uint32_t i = 0; i < BINAPI_GR_INFO; i++)
                        rm_put32(list, sizeof(list), 8 * i, i);
                rm_put64(params, size, 8, (uintptr_t)list);
        }
        status = nv_control(stage->nv, stage_handle(stage, step->n), step->number, params, size);
        if (status != RM_STATUS_OK)
                return status;

        switch (step->number) {
        case RM_GET_ID_INFO_V2:
                device->instance = rm_get32(params, size, 8);
                break;
        case 0x2080014a:
                memcpy(device->uuid, params + 12, sizeof(device->uuid));
                break;
        case 0x20800110:
                (void)snprintf(device->name, sizeof(device->name), "%.63s", (const char *)params + 4);
                break;
        case RM_FB_GET_INFO_V2: /* the second of three: the heap */
                device->total = (uint64_t)rm_get32(params, size, 16) << 10;
                break;
        case 0x208001a3:
                device->has_fabric = params[0] == 3;
                break;
        case 0x20801701:
                device->architecture = rm_get32(params, size, 0);
                break;
        default:
                break;
        }
        return status;
}

/* Sent by the first context of a device when it begins, by the last one when it ends. */
uint32_t play_once(const struct stage *stage, const struct step *step)
{
        return stage->device->n_contexts == 1 ? play_control(stage, step) : RM_STATUS_OK;
}

uint32_t play_object(const struct stage *stage, const struct step *step)
{
        uint8_t params[PARAMS_MAX] = { 0 };
        uint32_t size = size_of(stage, step->size), status;

        put_words(stage, step, params, size);
        status = nv_alloc(stage->nv, -1, stage_handle(stage, step->parent), stage_handle(stage, step->n), step->number,
                          size ? params : NULL);
        if (status == RM_STATUS_OK)
                stage_note_made(stage, step->n, step->parent);
        return status;
}

/* Frees a handle that does not exist yet: libcuda does so, and the driver returns success. */
uint32_t play_forget(const struct stage *stage, const struct step *step)
{
        return nv_free(stage->nv, stage->nv->client, stage_handle(stage, step->n));
}

uint32_t play_node(const struct stage *stage, const struct step *step)
{
        int fd = nv_device_open(stage->nv, stage->device->minor);

        if (fd < 0)
                return NV_LOST;
        stage->device->node[step->n] = fd;
        return RM_STATUS_OK;
}

uint32_t play_numa(const struct stage *stage, const struct step *step)
{
        uint8_t block[1024] = { 0 };
        uint32_t size = stage->nv->layout.numa_info_size;

        if (size > sizeof(block))
                return NV_LOST;
        return nv_ioctl(stage->device->node[step->n], RM_NR_NUMA_INFO, block, size, UINT32_MAX);
}

uint32_t stage_event_ioctl(const struct stage *stage, int fd, uint32_t nr)
{
        uint8_t block[16] = { 0 };

        rm_put32(block, sizeof(block), 0, stage->nv->client);
        rm_put32(block, sizeof(block), 4, stage_handle(stage, OBJECT_SUBDEVICE));
        rm_put32(block, sizeof(block), 8, (uint32_t)fd);
        return nv_ioctl(fd, nr, block, sizeof(block), 12);
}

uint32_t play_watch(const struct stage *stage, const struct step *step)
{
        return stage_event_ioctl(stage, stage->device->node[step->n], RM_NR_ALLOC_EVENT);
}

uint32_t play_view(const struct stage *stage, const struct step *step)
{
        struct piece *p = stage_piece(stage, step->n);
        char node[32] = "/dev/nvidiactl";
        struct nv_mapping mapping = {
                .parent = stage_handle(stage, step->parent),
                .object = stage_handle(stage, step->n),
                .flags = step->attr,
                .size = step->size,
                .node = node,
                .prot = step->number == VIEW_DATA ? PROT_READ : PROT_WRITE,
        };
        uint32_t status;

        if (step->number != VIEW_DATA)
                (void)snprintf(node, sizeof(node), "/dev/nvidia%u", stage->device->minor);
        status = nv_map(stage->nv, &mapping, &p->at, &p->linear);
        return status == RM_STATUS_OK && step->number == VIEW_TOLD ?
                       nv_update_mapping(stage->nv, &mapping, p->linear, p->at) :
                       status;
}

/* The page to which a channel's errors are written. */
static uint32_t make_error_page(const struct stage *stage, uint32_t n, uint32_t index)
{
        struct piece *p = stage_piece(stage, n);
        struct nv_memory memory = nv_host_memory(stage_handle(stage, OBJECT_DEVICE), 4096, 0x3a000000);
        struct nv_mapping mapping = nv_mapping_at(stage_handle(stage, OBJECT_DEVICE), stage_handle(stage, n), 4096,
                                                  stage->context->errors + 4096 * index);
        uint32_t status;

        memory.type = 13;
        status = nv_memory_alloc(stage->nv, mapping.parent, mapping.object, &memory);

        if (status != RM_STATUS_OK)
                return status;
        stage_note_made(stage, n, OBJECT_DEVICE);
        p->view = OBJECT_DEVICE;
        return nv_map(stage->nv, &mapping, &p->at, &p->linear);
}

/* An engine object on a channel, and the query for its engine. */
static uint32_t make_engine(const struct stage *stage, uint32_t channel, uint32_t n, uint32_t class_number,
                            uint32_t engine)
{
        uint8_t params[16] = { 0 };
        uint32_t status;

        if (engine)
                rm_put32(params, 8, 4, engine);
        status = nv_alloc(stage->nv, -1, stage_handle(stage, channel), stage_handle(stage, n), class_number, params);
        if (status != RM_STATUS_OK)
                return status;
        stage_note_made(stage, n, channel);
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 0, stage_handle(stage, n));
        return nv_control(stage->nv, stage_handle(stage, channel), 0x906f0101, params, sizeof(params));
}

static uint32_t make_channel(const struct stage *stage, uint32_t n, uint32_t group, uint32_t index)
{
        const struct rm_layout *layout = &stage->nv->layout;
        uint8_t params[512] = { 0 }, list[24] = { 0 };
        uint32_t size = layout->channel_params_size, moved = layout->channel_engine_at - 128, status;
        uint32_t channel = stage_handle(stage, n + 1), id = UINT32_MAX;
        bool is_compute = index < START_COMPUTE;

        if (size > sizeof(params))
                return NV_LOST;
        rm_put32(params, size, 0, stage_handle(stage, n));
        rm_put32(params, size, 4, stage_handle(stage, RING_OBJECT));
        rm_put64(params, size, 8, stage->context->low + RING_BASE + (uint64_t)index * RING_STRIDE);
        rm_put32(params, size, 16, 1024);
        rm_put32(params, size, 20, is_compute && index % 2 ? 0x10 : 0);
        rm_put32(params, size, 24, is_compute ? stage_handle(stage, SHARE_OBJECT) : 0);
        rm_put32(params, size, 32 + moved, stage_handle(stage, RING_OBJECT));
        rm_put64(params, size, 64 + moved, 0x2000 + (uint64_t)index * RING_STRIDE);
        status = nv_alloc(stage->nv, -1, stage_handle(stage, group), channel, 0xc86f, params);
        if (status != RM_STATUS_OK)
                return status;
        stage_note_made(stage, n + 1, group);
        stage->context->channel[index] = channel;

        rm_put32(list, sizeof(list), 0, 1);
        rm_put64(list, sizeof(list), 8, (uintptr_t)&channel);
        rm_put64(list, sizeof(list), 16, (uintptr_t)&id);
        return nv_control(stage->nv, stage_handle(stage, OBJECT_DEVICE), 0x80170d, list, sizeof(list));
}

uint32_t play_channel(const struct stage *stage, const struct step *step)
{
        bool is_compute = step->number < START_COMPUTE;
        uint32_t n = step->n, channel = n + 1, copy = is_compute ? n + 3 : n + 2;
        uint32_t engine = is_compute ? 1 : 2 + (step->number - START_COMPUTE) / 4; /* copy engine, from 0 */
        uint8_t params[16] = { 0 };
        uint32_t status = make_error_page(stage, n, step->number);

        if (status == RM_STATUS_OK)
                status = make_channel(stage, n, step->parent, step->number);
        if (status == RM_STATUS_OK && is_compute)
                status = make_engine(stage, channel, n + 2, 0xcbc0, 0);
        if (status == RM_STATUS_OK)
                status = make_engine(stage, channel, copy, 0xc8b5, engine);
        if (status == RM_STATUS_OK)
                status = nv_control(stage->nv, stage_handle(stage, channel), 0xc36f0108, params, 4);
        if (status != RM_STATUS_OK || !is_compute)
                return status;

        rm_put32(params, sizeof(params), 0, stage_handle(stage, channel));
        return nv_control(stage->nv, stage_handle(stage, OBJECT_SUBDEVICE), 0x20801218, params, sizeof(params));
}

uint32_t play_event(const struct stage *stage, const struct step *step)
{
        struct piece *p = stage_piece(stage, step->n);
        uint8_t params[24] = { 0 };
        int fd = nv_device_open(stage->nv, stage->device->minor), copy;
        uint32_t status;

        if (fd < 0)
                return NV_LOST;
        status = stage_event_ioctl(stage, fd, RM_NR_ALLOC_EVENT);
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (status == RM_STATUS_OK) {
                rm_put32(params, sizeof(params), 0, stage->nv->client);
                rm_put32(params, sizeof(params), 8, RM_CLASS_OS_EVENT);
                rm_put32(params, sizeof(params), 12, step->number);
                rm_put32(params, sizeof(params), 16, (uint32_t)fd);
                status = nv_alloc(stage->nv, fd, stage_handle(stage, step->parent), stage_handle(stage, step->n),
                                  RM_CLASS_OS_EVENT, params);
        }
        if (status != RM_STATUS_OK) {
                closep(&copy);
                closep(&fd);
                return status;
        }
        stage_note_made(stage, step->n, step->parent);
        p->fd = fd;
        p->copy = copy;
        return status;
}

uint32_t play_register_gpu(const struct stage *stage, const struct step *step)
{
        uint8_t block[40] = { 0 };

        (void)step;
        memcpy(block, stage->device->uuid, 16);
        rm_put32(block, sizeof(block), 24, UINT32_MAX); /* no descriptor: no partition */
        return nv_uvm(stage->nv, UVM_REGISTER_GPU, block, 36);
}

/* One address space per process and device: a second context lives in the first one's. */
uint32_t play_register_vaspace(const struct stage *stage, const struct step *step)
{
        uint8_t block[32] = { 0 };
        uint32_t status;

        if (stage->device->has_vaspace)
                return RM_STATUS_OK;
        memcpy(block, stage->device->uuid, 16);
        rm_put32(block, sizeof(block), 16, (uint32_t)stage->nv->ctl);
        rm_put32(block, sizeof(block), 20, stage->nv->client);
        rm_put32(block, sizeof(block), 24, stage_handle(stage, step->n));
        status = nv_uvm(stage->nv, 25, block, 28);
        stage->device->has_vaspace = status == RM_STATUS_OK;
        return status;
}

uint32_t play_register_channel(const struct stage *stage, const struct step *step)
{
        const struct piece *p = stage_piece(stage, step->n);
        uint8_t block[56] = { 0 };

        memcpy(block, stage->device->uuid, 16);
        rm_put32(block, sizeof(block), 16, (uint32_t)stage->nv->ctl);
        rm_put32(block, sizeof(block), 20, stage->nv->client);
        rm_put32(block, sizeof(block), 24, stage_handle(stage, step->n));
        if (p->parent == OBJECT_GROUP) {
                rm_put64(block, sizeof(block), 32, stage->context->low + RESOURCES_BASE);
                rm_put64(block, sizeof(block), 40, RESOURCES_SIZE);
        }
        return nv_uvm(stage->nv, 27, block, 48);
}

uint32_t play_groups(const struct stage *stage, const struct step *step)
{
        struct start_context *context = stage->context;
        uint32_t status = RM_STATUS_OK;

        if (!context)
                return nv_uvm_group(stage->nv, &stage->device->group);
        for (uint32_t i = 0, done = 0; i < START_GROUPS && done < step->n && status == RM_STATUS_OK; i++) {
                if (context->group[i])
                        continue;
                status = nv_uvm_group(stage->nv, &context->group[i]);
                done++;
        }
        return status;
}
