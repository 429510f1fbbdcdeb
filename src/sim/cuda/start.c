/*
 * The start-up tables, played.
 *
 * A row is a struct step; its kind is a function. Steps that make something fill in a struct piece,
 * so that a start which the driver refuses half way (a quota that has no room for a context) gives
 * back what it took, and so that the end of a context knows what to undo.
 */
#include "sim/cuda/start.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FROM_RELEASE 0x80000000u
#define RELEASE(field) (FROM_RELEASE | (uint32_t)offsetof(struct rm_layout, field))

/* Values of words that are not numbers. */
#define TAG 0xff00000000000000ull
#define HANDLE(n) (0x0100000000000000ull | (n))
#define CLIENT 0x0200000000000000ull
#define GPU_ID 0x0300000000000000ull
#define INSTANCE 0x0400000000000000ull
#define ROOT 0u

/* Places: which stretch, and where in it. */
#define STRETCH 0xf000000000000000ull
#define LOW(offset) (0x1000000000000000ull | (offset))
#define FAR(offset) (0x2000000000000000ull | (offset))
#define NEAR(offset) (0x3000000000000000ull | (offset))
#define OWN 0x4000000000000000ull

enum {
        VIEW_NODE = 1, /* through the device node, write only */
        VIEW_TOLD,     /* the same, and the driver is told where it is */
        VIEW_DATA,     /* through the control node, read only */

        RING_BASE = 0x600000,      /* in LOW: the queues of the channels */
        RING_STRIDE = 0x3000,      /* per channel: entries, then at 0x2000 what it has got and put */
        RESOURCES_BASE = 0x4000000, /* in LOW: what UVM maps for a compute channel */
        RESOURCES_SIZE = 0x52f000,
        RING_OBJECT = 0x17,
        SHARE_OBJECT = 0x16,
        BINAPI_GR_INFO = 0x3a, /* entries of 0x20801201 */
        PARALLELISM_RANGE = 1,
        SEMAPHORE_RANGE,
        N_WORDS = 11,
        PARAMS_MAX = 16384,
        NEAR_SIZE = 0x2000000,
        FAR_SIZE = 0x2200000,
        SEMAPHORES_SIZE = 0x200000,
};

struct word {
        uint64_t at, value;
};

struct step;

/* Where a step acts. context is NULL while a device starts. */
struct stage {
        struct nv *nv;
        struct start_device *device;
        struct start_context *context;
};

struct step {
        uint32_t (*play)(const struct stage *stage, const struct step *step);
        uint32_t n, parent, number, size;
        uint32_t attr, attr2;
        uint64_t place;
        struct word words[N_WORDS + 1]; /* value 0 ends them */
};

/* ---- helpers ------------------------------------------------------------------------------------- */

uint32_t start_handle(const struct start_device *device, const struct start_context *context, uint32_t n)
{
        const struct nv *nv = device->nv;

        if (n == ROOT)
                return nv->client;
        if (n == 1)
                return nv->prefix + nv->stride;
        if (n < START_CONTEXT)
                return nv->prefix + (device->first + n - 2) * nv->stride;
        return nv->prefix + (context->first + n - START_CONTEXT) * nv->stride;
}

static uint32_t handle(const struct stage *stage, uint32_t n)
{
        return start_handle(stage->device, stage->context, n);
}

static struct piece *piece(const struct stage *stage, uint32_t n)
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
                return handle(stage, (uint32_t)value);
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

static uint64_t base_of(const struct stage *stage, uint64_t place, uint64_t size)
{
        const struct start_context *c = stage->context;

        switch (place & STRETCH) {
        case LOW(0):
                return c->low + (place & ~STRETCH);
        case FAR(0):
                return c->far + (place & ~STRETCH);
        case NEAR(0):
                return c->near + (place & ~STRETCH);
        default:
                return place_take(size, PLACE_GRANULE);
        }
}

static void note_made(const struct stage *stage, uint32_t n, uint32_t parent)
{
        *piece(stage, n) = (struct piece){ .is_made = true, .parent = (uint8_t)parent };
}

/* ---- steps --------------------------------------------------------------------------------------- */

static uint32_t play_control(const struct stage *stage, const struct step *step)
{
        uint8_t params[PARAMS_MAX] = { 0 };
        uint32_t size = size_of(stage, step->size);

        put_words(stage, step, params, size);
        return nv_control(stage->nv, handle(stage, step->n), step->number, params, size);
}

/* A control whose answer is of use. */
static uint32_t play_learn(const struct stage *stage, const struct step *step)
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
        status = nv_control(stage->nv, handle(stage, step->n), step->number, params, size);
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
        case 0x20801701:
                device->architecture = rm_get32(params, size, 0);
                break;
        default:
                break;
        }
        return status;
}

static uint32_t play_object(const struct stage *stage, const struct step *step)
{
        uint8_t params[PARAMS_MAX] = { 0 };
        uint32_t size = size_of(stage, step->size), status;

        put_words(stage, step, params, size);
        status = nv_alloc(stage->nv, -1, handle(stage, step->parent), handle(stage, step->n), step->number,
                          size ? params : NULL);
        if (status == RM_STATUS_OK)
                note_made(stage, step->n, step->parent);
        return status;
}

/* Frees a handle that is not there yet: libcuda does, and the driver says that this is fine. */
static uint32_t play_forget(const struct stage *stage, const struct step *step)
{
        return nv_free(stage->nv, stage->nv->client, handle(stage, step->n));
}

static uint32_t play_node(const struct stage *stage, const struct step *step)
{
        int fd = nv_device_open(stage->nv, stage->device->minor);

        if (fd < 0)
                return NV_LOST;
        stage->device->node[step->n] = fd;
        return RM_STATUS_OK;
}

static uint32_t play_numa(const struct stage *stage, const struct step *step)
{
        uint8_t block[1024] = { 0 };
        uint32_t size = stage->nv->layout.numa_info_size;

        if (size > sizeof(block))
                return NV_LOST;
        return nv_ioctl(stage->device->node[step->n], RM_NR_NUMA_INFO, block, size, UINT32_MAX);
}

static uint32_t event_ioctl(const struct stage *stage, int fd, uint32_t nr)
{
        uint8_t block[16] = { 0 };

        rm_put32(block, sizeof(block), 0, stage->nv->client);
        rm_put32(block, sizeof(block), 4, handle(stage, OBJECT_SUBDEVICE));
        rm_put32(block, sizeof(block), 8, (uint32_t)fd);
        return nv_ioctl(fd, nr, block, sizeof(block), 12);
}

static uint32_t play_watch(const struct stage *stage, const struct step *step)
{
        return event_ioctl(stage, stage->device->node[step->n], RM_NR_ALLOC_EVENT);
}

static uint32_t play_view(const struct stage *stage, const struct step *step)
{
        struct piece *p = piece(stage, step->n);
        char node[32] = "/dev/nvidiactl";
        struct nv_mapping mapping = {
                .parent = handle(stage, step->parent),
                .object = handle(stage, step->n),
                .flags = step->attr,
                .size = step->size,
                .node = node,
                .prot = step->number == VIEW_DATA ? PROT_READ : PROT_WRITE,
        };
        uint8_t block[40] = { 0 };
        uint32_t status;

        if (step->number != VIEW_DATA)
                (void)snprintf(node, sizeof(node), "/dev/nvidia%u", stage->device->minor);
        status = nv_map(stage->nv, &mapping, &p->at, &p->linear);
        if (status != RM_STATUS_OK || step->number != VIEW_TOLD)
                return status;

        rm_put32(block, sizeof(block), 0, stage->nv->client);
        rm_put32(block, sizeof(block), 4, mapping.parent);
        rm_put32(block, sizeof(block), 8, mapping.object);
        rm_put64(block, sizeof(block), 16, p->linear);
        rm_put64(block, sizeof(block), 24, (uintptr_t)p->at);
        return nv_ioctl(stage->nv->ctl, RM_NR_UPDATE_MAPPING, block, sizeof(block), 32);
}

/* Maps the memory of a piece where it belongs in the device's address space. */
static uint32_t map_piece(const struct stage *stage, uint32_t n, uint64_t base, uint64_t size)
{
        struct piece *p = piece(stage, n);
        uint32_t status;

        p->base = base;
        p->size = size;
        status = nv_uvm_create(stage->nv, base, size);
        if (status != RM_STATUS_OK)
                return status;
        p->is_mapped = true;
        return nv_uvm_map(stage->nv, stage->device->uuid, base, size, 0, handle(stage, n));
}

static uint32_t make_memory(const struct stage *stage, const struct step *step, struct nv_memory *memory)
{
        uint32_t status = nv_memory_alloc(stage->nv, handle(stage, OBJECT_DEVICE), handle(stage, step->n), memory);

        if (status == RM_STATUS_OK)
                note_made(stage, step->n, OBJECT_DEVICE);
        return status;
}

static uint32_t play_video(const struct stage *stage, const struct step *step)
{
        struct nv_memory memory = {
                .class_number = RM_CLASS_VIDEO_MEMORY, .owner = stage->nv->client,
                .flags = 0x1c101, .attr = 0x18000000, .size = step->size, .align = PLACE_GRANULE,
        };
        uint64_t base;
        uint32_t status = make_memory(stage, step, &memory);

        if (status != RM_STATUS_OK)
                return status;
        base = base_of(stage, step->place, memory.size);
        return base ? map_piece(stage, step->n, base, memory.size) : NV_LOST;
}

/* Video memory that we map, too: the queues of all channels. */
static uint32_t play_ring(const struct stage *stage, const struct step *step)
{
        struct piece *p = piece(stage, step->n);
        struct nv_memory memory = {
                .class_number = RM_CLASS_VIDEO_MEMORY, .owner = stage->nv->client,
                .flags = 0x1c101, .attr = 0x18000000, .size = step->size, .align = PLACE_GRANULE,
        };
        char node[32];
        struct nv_mapping mapping = {
                .parent = handle(stage, OBJECT_SUBDEVICE), .object = handle(stage, step->n), .flags = 0xc0000,
                .size = step->size, .node = node, .prot = PROT_READ | PROT_WRITE,
        };
        uint64_t base = base_of(stage, step->place, step->size);
        uint8_t block[40] = { 0 };
        uint32_t status = make_memory(stage, step, &memory);

        if (status != RM_STATUS_OK)
                return status;
        (void)snprintf(node, sizeof(node), "/dev/nvidia%u", stage->device->minor);
        mapping.at = (void *)(uintptr_t)base;
        status = nv_map(stage->nv, &mapping, &p->at, &p->linear);
        if (status != RM_STATUS_OK)
                return status;

        p->view = OBJECT_SUBDEVICE;
        rm_put32(block, sizeof(block), 0, stage->nv->client);
        rm_put32(block, sizeof(block), 4, mapping.parent);
        rm_put32(block, sizeof(block), 8, mapping.object);
        rm_put64(block, sizeof(block), 16, p->linear);
        rm_put64(block, sizeof(block), 24, base);
        status = nv_ioctl(stage->nv->ctl, RM_NR_UPDATE_MAPPING, block, sizeof(block), 32);
        if (status != RM_STATUS_OK)
                return status;
        p->linear = base; /* what the driver knows it by from now on */
        return map_piece(stage, step->n, base, memory.size);
}

static uint32_t play_host(const struct stage *stage, const struct step *step)
{
        struct piece *p = piece(stage, step->n);
        struct nv_memory memory = {
                .class_number = RM_CLASS_HOST_MEMORY, .owner = stage->nv->client,
                .flags = 0xc001, .attr = step->attr, .attr2 = step->attr2, .size = step->size,
        };
        struct nv_mapping mapping = {
                .parent = handle(stage, OBJECT_DEVICE), .object = handle(stage, step->n), .flags = step->number,
                .size = step->size, .node = "/dev/nvidiactl", .prot = PROT_READ | PROT_WRITE,
        };
        uint64_t base = base_of(stage, step->place, step->size);
        uint32_t status = make_memory(stage, step, &memory);

        if (status != RM_STATUS_OK)
                return status;
        mapping.at = (void *)(uintptr_t)base;
        status = nv_map(stage->nv, &mapping, &p->at, &p->linear);
        p->view = OBJECT_DEVICE;
        return status == RM_STATUS_OK ? map_piece(stage, step->n, base, memory.size) : status;
}

static uint32_t play_pinned(const struct stage *stage, const struct step *step)
{
        uint64_t base = base_of(stage, step->place, step->size);
        void *pages = place_fill(base, step->size);
        uint32_t status;

        if (!pages)
                return NV_LOST;
        status = nv_memory_pin(stage->nv, stage->device->node[NODE_MAIN], handle(stage, OBJECT_DEVICE),
                               handle(stage, step->n), step->attr, pages, step->size);
        if (status != RM_STATUS_OK)
                return status;
        note_made(stage, step->n, OBJECT_DEVICE);
        return map_piece(stage, step->n, base, step->size);
}

/* The page in which a channel tells its error. */
static uint32_t make_error_page(const struct stage *stage, uint32_t n, uint32_t index)
{
        struct piece *p = piece(stage, n);
        struct nv_memory memory = {
                .class_number = RM_CLASS_HOST_MEMORY, .owner = handle(stage, OBJECT_DEVICE), .type = 13,
                .flags = 0xc001, .attr = 0x3a000000, .size = 4096,
        };
        struct nv_mapping mapping = {
                .parent = handle(stage, OBJECT_DEVICE), .object = handle(stage, n), .flags = 0xc0000,
                .size = 4096, .node = "/dev/nvidiactl", .prot = PROT_READ | PROT_WRITE,
                .at = (void *)(uintptr_t)(stage->context->errors + 4096 * index),
        };
        uint32_t status = nv_memory_alloc(stage->nv, mapping.parent, mapping.object, &memory);

        if (status != RM_STATUS_OK)
                return status;
        note_made(stage, n, OBJECT_DEVICE);
        p->view = OBJECT_DEVICE;
        return nv_map(stage->nv, &mapping, &p->at, &p->linear);
}

/* An engine object on a channel, and the question which engine that is. */
static uint32_t make_engine(const struct stage *stage, uint32_t channel, uint32_t n, uint32_t class_number,
                            uint32_t engine)
{
        uint8_t params[16] = { 0 };
        uint32_t status;

        if (engine)
                rm_put32(params, 8, 4, engine);
        status = nv_alloc(stage->nv, -1, handle(stage, channel), handle(stage, n), class_number, params);
        if (status != RM_STATUS_OK)
                return status;
        note_made(stage, n, channel);
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 0, handle(stage, n));
        return nv_control(stage->nv, handle(stage, channel), 0x906f0101, params, sizeof(params));
}

static uint32_t make_channel(const struct stage *stage, uint32_t n, uint32_t group, uint32_t index)
{
        const struct rm_layout *layout = &stage->nv->layout;
        uint8_t params[512] = { 0 }, list[24] = { 0 };
        uint32_t size = layout->channel_params_size, moved = layout->channel_engine_at - 128, status;
        uint32_t channel = handle(stage, n + 1), id = UINT32_MAX;
        bool is_compute = index < START_COMPUTE;

        if (size > sizeof(params))
                return NV_LOST;
        rm_put32(params, size, 0, handle(stage, n));
        rm_put32(params, size, 4, handle(stage, RING_OBJECT));
        rm_put64(params, size, 8, stage->context->low + RING_BASE + (uint64_t)index * RING_STRIDE);
        rm_put32(params, size, 16, 1024);
        rm_put32(params, size, 20, is_compute && index % 2 ? 0x10 : 0);
        rm_put32(params, size, 24, is_compute ? handle(stage, SHARE_OBJECT) : 0);
        rm_put32(params, size, 32 + moved, handle(stage, RING_OBJECT));
        rm_put64(params, size, 64 + moved, 0x2000 + (uint64_t)index * RING_STRIDE);
        status = nv_alloc(stage->nv, -1, handle(stage, group), channel, 0xc86f, params);
        if (status != RM_STATUS_OK)
                return status;
        note_made(stage, n + 1, group);
        stage->context->channel[index] = channel;

        rm_put32(list, sizeof(list), 0, 1);
        rm_put64(list, sizeof(list), 8, (uintptr_t)&channel);
        rm_put64(list, sizeof(list), 16, (uintptr_t)&id);
        return nv_control(stage->nv, handle(stage, OBJECT_DEVICE), 0x80170d, list, sizeof(list));
}

static uint32_t play_channel(const struct stage *stage, const struct step *step)
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
                status = nv_control(stage->nv, handle(stage, channel), 0xc36f0108, params, 4);
        if (status != RM_STATUS_OK || !is_compute)
                return status;

        rm_put32(params, sizeof(params), 0, handle(stage, channel));
        return nv_control(stage->nv, handle(stage, OBJECT_SUBDEVICE), 0x20801218, params, sizeof(params));
}

static uint32_t play_event(const struct stage *stage, const struct step *step)
{
        struct piece *p = piece(stage, step->n);
        uint8_t params[24] = { 0 };
        int fd = nv_device_open(stage->nv, stage->device->minor), copy;
        uint32_t status;

        if (fd < 0)
                return NV_LOST;
        status = event_ioctl(stage, fd, RM_NR_ALLOC_EVENT);
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (status == RM_STATUS_OK) {
                rm_put32(params, sizeof(params), 0, stage->nv->client);
                rm_put32(params, sizeof(params), 8, RM_CLASS_OS_EVENT);
                rm_put32(params, sizeof(params), 12, step->number);
                rm_put32(params, sizeof(params), 16, (uint32_t)fd);
                status = nv_alloc(stage->nv, fd, handle(stage, step->parent), handle(stage, step->n),
                                  RM_CLASS_OS_EVENT, params);
        }
        if (status != RM_STATUS_OK) {
                closep(&copy);
                closep(&fd);
                return status;
        }
        note_made(stage, step->n, step->parent);
        p->fd = fd;
        p->copy = copy;
        return status;
}

static uint32_t play_register_gpu(const struct stage *stage, const struct step *step)
{
        uint8_t block[40] = { 0 };

        (void)step;
        memcpy(block, stage->device->uuid, 16);
        rm_put32(block, sizeof(block), 24, UINT32_MAX); /* no descriptor: no partition */
        return nv_uvm(stage->nv, UVM_REGISTER_GPU, block, 36);
}

/* One address space per process and device: a second context lives in the first one's. */
static uint32_t play_register_vaspace(const struct stage *stage, const struct step *step)
{
        uint8_t block[32] = { 0 };
        uint32_t status;

        stage->device->n_contexts++;
        if (stage->device->has_vaspace)
                return RM_STATUS_OK;
        memcpy(block, stage->device->uuid, 16);
        rm_put32(block, sizeof(block), 16, (uint32_t)stage->nv->ctl);
        rm_put32(block, sizeof(block), 20, stage->nv->client);
        rm_put32(block, sizeof(block), 24, handle(stage, step->n));
        status = nv_uvm(stage->nv, 25, block, 28);
        stage->device->has_vaspace = status == RM_STATUS_OK;
        return status;
}

static uint32_t play_register_channel(const struct stage *stage, const struct step *step)
{
        const struct piece *p = piece(stage, step->n);
        uint8_t block[56] = { 0 };

        memcpy(block, stage->device->uuid, 16);
        rm_put32(block, sizeof(block), 16, (uint32_t)stage->nv->ctl);
        rm_put32(block, sizeof(block), 20, stage->nv->client);
        rm_put32(block, sizeof(block), 24, handle(stage, step->n));
        if (p->parent == OBJECT_GROUP) {
                rm_put64(block, sizeof(block), 32, stage->context->low + RESOURCES_BASE);
                rm_put64(block, sizeof(block), 40, RESOURCES_SIZE);
        }
        return nv_uvm(stage->nv, 27, block, 48);
}

static uint32_t play_groups(const struct stage *stage, const struct step *step)
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

static uint32_t play_semaphores(const struct stage *stage, const struct step *step)
{
        uint8_t block[PARAMS_MAX] = { 0 };
        uint32_t size = stage->nv->layout.uvm_pool_size, status;
        uint64_t base = base_of(stage, step->place, step->size);

        rm_put64(block, size, 0, base);
        rm_put64(block, size, 8, step->size);
        memcpy(block + 16, stage->device->uuid, 16);
        rm_put32(block, size, 32, 1);
        rm_put32(block, size, 36, 1);
        rm_put64(block, size, size - 16, 1);
        status = nv_uvm(stage->nv, UVM_SEMAPHORE_POOL, block, size - 8);
        if (status != RM_STATUS_OK)
                return status;
        stage->context->has_semaphores = true;
        if (mmap((void *)(uintptr_t)base, step->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 stage->nv->uvm, (off_t)base) == MAP_FAILED)
                return NV_LOST;
        return nv_uvm_range(stage->nv, 72, base, step->size);
}

static uint32_t play_parallelism(const struct stage *stage, const struct step *step)
{
        uint8_t block[40] = { 0 };
        uint32_t status;

        rm_put64(block, sizeof(block), 0, base_of(stage, step->place, step->size));
        rm_put64(block, sizeof(block), 8, step->size);
        memcpy(block + 16, stage->device->uuid, 16);
        status = nv_uvm(stage->nv, 65, block, 32);
        stage->context->has_parallelism = status == RM_STATUS_OK;
        return status;
}

/* ---- the end ------------------------------------------------------------------------------------- */

static uint32_t play_gone(const struct stage *stage, const struct step *step)
{
        struct piece *p = piece(stage, step->n);

        if (!p->is_made)
                return RM_STATUS_OK;
        if (p->is_mapped)
                (void)nv_uvm_free(stage->nv, p->base, p->size);
        if (p->linear)
                (void)nv_unmap(stage->nv, handle(stage, p->view), handle(stage, step->n), p->linear, 0);
        if (p->at)
                place_restore((uintptr_t)p->at, p->size ? p->size : 4096);
        (void)nv_free(stage->nv, handle(stage, OBJECT_DEVICE), handle(stage, step->n));
        *p = (struct piece){ 0 };
        return RM_STATUS_OK;
}

static uint32_t play_freed(const struct stage *stage, const struct step *step)
{
        if (piece(stage, step->n)->is_made)
                (void)nv_free(stage->nv, handle(stage, step->parent), handle(stage, step->n));
        *piece(stage, step->n) = (struct piece){ 0 };
        return RM_STATUS_OK;
}

static uint32_t play_closed(const struct stage *stage, const struct step *step)
{
        struct piece *p = piece(stage, step->n);

        if (!p->is_made)
                return RM_STATUS_OK;
        (void)nv_free(stage->nv, handle(stage, step->parent), handle(stage, step->n));
        closep(&p->copy);
        (void)event_ioctl(stage, p->fd, RM_NR_FREE_EVENT);
        closep(&p->fd);
        *p = (struct piece){ 0 };
        return RM_STATUS_OK;
}

static uint32_t play_unregister(const struct stage *stage, const struct step *step)
{
        uint8_t block[32] = { 0 };
        uint32_t size = stage->nv->layout.uvm_unregister_channel_size, end = size - 12;

        if (!piece(stage, step->n)->is_made)
                return RM_STATUS_OK;
        rm_put32(block, size, end, stage->nv->client);
        rm_put32(block, size, end + 4, handle(stage, step->n));
        return nv_uvm(stage->nv, 28, block, end + 8);
}

static uint32_t play_ended(const struct stage *stage, const struct step *step)
{
        uint32_t channel = step->n + 1;

        for (uint32_t n = channel + 1; n < START_END && piece(stage, n)->is_made; n++)
                if (piece(stage, n)->parent == channel)
                        (void)play_freed(stage, &(struct step){ .n = n, .parent = channel });
        (void)play_freed(stage, &(struct step){ .n = channel, .parent = OBJECT_DEVICE });
        return play_gone(stage, step);
}

static uint32_t play_groups_gone(const struct stage *stage, const struct step *step)
{
        (void)step;
        for (uint32_t i = START_GROUPS; i-- > 0;) {
                if (stage->context->group[i])
                        (void)nv_uvm_group_free(stage->nv, stage->context->group[i]);
                stage->context->group[i] = 0;
        }
        return RM_STATUS_OK;
}

static uint32_t play_range_gone(const struct stage *stage, const struct step *step)
{
        struct start_context *context = stage->context;

        if (step->n == PARALLELISM_RANGE && context->has_parallelism)
                (void)nv_uvm_free(stage->nv, context->near + 0xe00000, 4096);
        if (step->n == SEMAPHORE_RANGE && context->has_semaphores) {
                (void)munmap((void *)(uintptr_t)(context->low + 0x4a00000), SEMAPHORES_SIZE);
                (void)nv_uvm_free(stage->nv, context->low + 0x4a00000, SEMAPHORES_SIZE);
        }
        return RM_STATUS_OK;
}

static uint32_t play_unregister_vaspace(const struct stage *stage, const struct step *step)
{
        uint8_t block[24] = { 0 };

        (void)step;
        if (stage->device->n_contexts && --stage->device->n_contexts > 0)
                return RM_STATUS_OK;
        if (!stage->device->has_vaspace || stage->device->keeps_vaspace)
                return RM_STATUS_OK;
        stage->device->has_vaspace = false;
        memcpy(block, stage->device->uuid, 16);
        return nv_uvm(stage->nv, 26, block, 16);
}

/* ---- the tables ---------------------------------------------------------------------------------- */

/* clang-format off */
#define WORDS(...) .words = { __VA_ARGS__ }
#define CONTROL(object, control, bytes, ...) { .play = play_control, .n = object, .number = control, .size = bytes, WORDS(__VA_ARGS__) },
#define LEARN(object, control, bytes, ...) { .play = play_learn, .n = object, .number = control, .size = bytes, WORDS(__VA_ARGS__) },
#define OBJECT(i, of, class_number, bytes, ...) { .play = play_object, .n = i, .parent = of, .number = class_number, .size = bytes, WORDS(__VA_ARGS__) },
#define FORGET(i) { .play = play_forget, .n = i },
#define NODE(i) { .play = play_node, .n = i },
#define NUMA(i) { .play = play_numa, .n = i },
#define WATCH(i) { .play = play_watch, .n = i },
#define VIEW(i, of, how, bytes, flags) { .play = play_view, .n = i, .parent = of, .number = how, .size = bytes, .attr = flags },
#define REGISTER_GPU() { .play = play_register_gpu },
#define REGISTER_VASPACE(i) { .play = play_register_vaspace, .n = i },
#define REGISTER_CHANNEL(i) { .play = play_register_channel, .n = i },
#define GROUPS(how_many) { .play = play_groups, .n = how_many },
#define VIDEO(i, bytes, where) { .play = play_video, .n = i, .size = bytes, .place = where },
#define RING(i, bytes, where) { .play = play_ring, .n = i, .size = bytes, .place = where },
#define HOST(i, bytes, kind, kind2, where, flags) { .play = play_host, .n = i, .size = bytes, .attr = kind, .attr2 = kind2, .place = where, .number = flags },
#define PINNED(i, bytes, flags, where) { .play = play_pinned, .n = i, .size = bytes, .attr = flags, .place = where },
#define CHANNEL(i, of, index) { .play = play_channel, .n = i, .parent = of, .number = index },
#define EVENT(i, of, what) { .play = play_event, .n = i, .parent = of, .number = what },
#define SEMAPHORES(where, bytes) { .play = play_semaphores, .size = bytes, .place = where },
#define PARALLELISM(where, bytes) { .play = play_parallelism, .size = bytes, .place = where },
#define GONE(i) { .play = play_gone, .n = i },
#define FREED(i, of) { .play = play_freed, .n = i, .parent = of },
#define CLOSED(i, of) { .play = play_closed, .n = i, .parent = of },
#define ENDED(i) { .play = play_ended, .n = i },
#define UNREGISTER(i) { .play = play_unregister, .n = i },
#define GROUPS_GONE() { .play = play_groups_gone },
#define RANGE_GONE(i) { .play = play_range_gone, .n = i },
#define UNREGISTER_VASPACE() { .play = play_unregister_vaspace },
/* clang-format on */

static const struct step device_steps[] = {
#include "sim/cuda/start_device.def"
};

static const struct step context_steps[] = {
#include "sim/cuda/start_context.def"
};

static const struct step end_steps[] = {
#include "sim/cuda/end_context.def"
};

static uint32_t play(const struct stage *stage, const struct step *steps, size_t n, bool stops)
{
        uint32_t status = RM_STATUS_OK;

        for (size_t i = 0; i < n; i++) {
                status = steps[i].play(stage, &steps[i]);
                if (status != RM_STATUS_OK && stops)
                        return status;
        }
        return status;
}

uint32_t start_device(struct start_device *device)
{
        struct stage stage = { device->nv, device, NULL };
        uint32_t status;

        for (size_t i = 0; i < N_NODES; i++)
                device->node[i] = -1;
        device->first = nv_handles_take(device->nv, START_CONTEXT - 2);
        if (!device->first)
                return RM_STATUS_NO_MEMORY;
        status = play(&stage, device_steps, ARRAY_SIZE(device_steps), true);
        if (status != RM_STATUS_OK)
                start_device_end(device);
        return status;
}

void start_device_end(struct start_device *device)
{
        const struct nv *nv = device->nv;

        for (size_t n = 0; n < START_CONTEXT; n++)
                if (device->piece[n].at)
                        (void)munmap(device->piece[n].at, 4096);
        if (device->piece[OBJECT_DEVICE].is_made)
                (void)nv_free(nv, nv->client, start_handle(device, NULL, OBJECT_DEVICE));
        for (size_t i = 0; i < N_NODES; i++)
                closep(&device->node[i]);
        memset(device->piece, 0, sizeof(device->piece));
}

uint32_t start_context(struct start_context *context)
{
        struct start_device *device = context->device;
        struct stage stage = { device->nv, device, context };
        uint32_t status;

        context->first = nv_handles_take(device->nv, START_END - START_CONTEXT);
        context->low = place_take_at(0x200000000, LOW_SIZE);
        context->far = place_take_at(0x10000000000, FAR_SIZE);
        context->near = place_take(NEAR_SIZE, PLACE_GRANULE);
        context->errors = place_take(START_CHANNELS * 4096ull, 4096);
        if (!context->first || !context->low || !context->far || !context->near || !context->errors)
                status = RM_STATUS_NO_MEMORY;
        else
                status = play(&stage, context_steps, ARRAY_SIZE(context_steps), true);
        if (status != RM_STATUS_OK)
                start_context_end(context);
        return status;
}

void start_context_end(struct start_context *context)
{
        struct stage stage = { context->device->nv, context->device, context };

        (void)play(&stage, end_steps, ARRAY_SIZE(end_steps), false);
        place_give(context->low, LOW_SIZE);
        place_give(context->far, FAR_SIZE);
        place_give(context->near, NEAR_SIZE);
        place_give(context->errors, START_CHANNELS * 4096ull);
        for (uint32_t n = START_CONTEXT; context->first && n < START_END; n++)
                nv_handle_give(context->device->nv, start_handle(context->device, context, n));
        *context = (struct start_context){ .device = context->device };
}

/* ---- the process --------------------------------------------------------------------------------- */

static uint32_t ask_system(const struct nv *nv)
{
        struct nv_card cards[NV_CARDS];
        uint8_t params[8] = { 0 };
        uint32_t status, n;

        rm_put32(params, sizeof(params), 0, 0x40000000);
        status = nv_ioctl(nv->ctl, RM_NR_SYS_PARAMS, params, sizeof(params), UINT32_MAX);
        if (status != RM_STATUS_OK)
                return status;
        return nv_cards(nv, cards, &n);
}

/* A client of its own, only to compare the library's version with the driver's. */
static uint32_t ask_version(struct nv *nv)
{
        char driver[80] = { 0 }, title[80] = { 0 }, version[80] = { 0 };
        uint8_t params[40] = { 0 };
        uint32_t status;

        status = ask_system(nv);
        if (status == RM_STATUS_OK)
                status = nv_alloc(nv, -1, 0, 0, RM_CLASS_ROOT, NULL);
        if (status != RM_STATUS_OK)
                return status;
        rm_put32(params, sizeof(params), 0, sizeof(driver));
        rm_put64(params, sizeof(params), 8, (uintptr_t)driver);
        rm_put64(params, sizeof(params), 16, (uintptr_t)version);
        rm_put64(params, sizeof(params), 24, (uintptr_t)title);
        status = nv_control(nv, nv->client, 0x101, params, sizeof(params));
        (void)nv_free(nv, nv->client, nv->client);
        return status;
}

static uint32_t make_client(struct nv *nv)
{
        static const uint32_t policies[2][2] = { { 1, 4 }, { 4, 0x40004 } };
        uint8_t params[12] = { 0 };
        uint32_t status = ask_system(nv);

        if (status == RM_STATUS_OK)
                status = nv_alloc(nv, -1, 0, 0, RM_CLASS_ROOT, NULL);
        for (size_t i = 0; i < ARRAY_SIZE(policies) && status == RM_STATUS_OK; i++) {
                rm_put32(params, sizeof(params), 0, nv->client); /* who may dup what we make */
                rm_put32(params, sizeof(params), 4, policies[i][0]);
                rm_put32(params, sizeof(params), 8, policies[i][1]);
                status = nv_control(nv, nv->client, 0xd04, params, sizeof(params));
        }
        return status;
}

static uint32_t open_uvm(struct nv *nv)
{
        uint8_t block[16] = { 0 };
        uint32_t status;

        nv->uvm = nv_node_open("/dev/nvidia-uvm");
        nv->uvm_mm = nv_node_open("/dev/nvidia-uvm");
        if (nv->uvm < 0 || nv->uvm_mm < 0)
                return NV_LOST;
        status = nv_uvm(nv, UVM_INITIALIZE, block, 8);
        if (status == RM_STATUS_OK && nv->layout.uvm_mm_initialize_size != RM_ABSENT) {
                struct nv second = { .uvm = nv->uvm_mm };

                memset(block, 0, sizeof(block));
                rm_put32(block, sizeof(block), 0, (uint32_t)nv->uvm);
                status = nv_uvm(&second, UVM_MM_INITIALIZE, block, 4);
        }
        memset(block, 0, sizeof(block));
        return status == RM_STATUS_OK ? nv_uvm(nv, 39, block, 4) : status;
}

static uint32_t probe(struct nv *nv, uint32_t probed[static 32], uint32_t *ret_n)
{
        uint8_t params[4096] = { 0 };
        uint32_t status = nv_control(nv, nv->client, RM_GET_PROBED_IDS, params, 384), n = 0;

        while (status == RM_STATUS_OK && n < 32 && rm_get32(params, 384, 4 * n) != UINT32_MAX) {
                probed[n] = rm_get32(params, 384, 4 * n);
                n++;
        }
        *ret_n = n;
        memset(params, 0, sizeof(params));
        if (status == RM_STATUS_OK)
                status = nv_control(nv, nv->client, 0xa04, params, 2244);
        if (status != RM_STATUS_OK)
                return status;

        memset(params, 0, sizeof(params));
        for (uint32_t i = 0; i < 32; i++)
                rm_put32(params, 132, 4 * i, i < n ? probed[i] : i == n ? UINT32_MAX : 0);
        return nv_control(nv, nv->client, 0x215, params, 132); /* attach */
}

uint32_t start_process(struct nv *nv, uint32_t probed[static 32], uint32_t *ret_n)
{
        uint8_t params[4096] = { 0 };
        uint32_t status, object;

        nv->ctl = nv_node_open("/dev/nvidiactl");
        if (nv->ctl < 0)
                return NV_LOST;
        status = ask_version(nv);
        closep(&nv->ctl);
        if (status == RM_STATUS_OK)
                nv->ctl = nv_node_open("/dev/nvidiactl");
        if (nv->ctl < 0)
                return status != RM_STATUS_OK ? status : NV_LOST;

        object = nv_handle_take(nv);
        status = make_client(nv);
        if (status == RM_STATUS_OK)
                status = nv_alloc(nv, -1, nv->client, object, 0xcb33, params);
        if (status == RM_STATUS_OK)
                status = nv_control(nv, nv->client, 0x1f0, params, 4);
        if (status == RM_STATUS_OK)
                status = open_uvm(nv);
        if (status == RM_STATUS_OK)
                status = probe(nv, probed, ret_n);
        if (status == RM_STATUS_OK)
                status = nv_control(nv, object, 0xcb330101, params, 6);
        memset(params, 0, sizeof(params));
        if (status == RM_STATUS_OK)
                status = nv_control(nv, nv->client, 0x288, params, 3076);
        return status;
}
