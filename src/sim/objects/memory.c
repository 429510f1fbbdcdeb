/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory objects: an amount of a heap and, once accessed, bytes.
 *
 * Handles, UVM mappings and exports refer to a memory; the last reference gives the amount back. Its
 * bytes are a sparse memfd, made on first access; its pages are freed with the memory, even where they
 * are still mapped.
 */
#include "sim/server/machine.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        CLASS_VIRTUAL = 0x50a0,
        CLASS_DEVICELESS = 0x90ce,
        STATUS_INVALID_OWNER = 0x39,
        STATUS_INVALID_FUNCTION = 0x2a,
        HEAP_ALLOC_SIZE = 2, /* functions of VID_HEAP_CONTROL */
        HEAP_FREE = 3,
        HEAP_INFO = 5,
};

#define ATTR2_READ_ONLY (1u << 22)
#define HOST_PAGE (4 * KIB)

/* ---- life ---------------------------------------------------------------------------------- */

int mem_new(struct gpu *gpu, bytes size, uint32_t attr, uint32_t attr2, struct memory **ret)
{
        _cleanup_(freep) struct memory *memory = calloc(1, sizeof(*memory));
        int r;

        if (!memory)
                return -ENOMEM;
        *memory = (struct memory){ .refs = 1, .gpu = gpu, .fd = -1, .attr = attr, .attr2 = attr2 };
        if (gpu) {
                memory->offset = gpu->heap.used;
                r = heap_round(size, attr, attr2, &memory->size, &memory->taken);
                if (!r)
                        r = heap_take(&gpu->heap, memory->taken);
                if (r)
                        return r;
        } else {
                if (size > (bytes)INT64_MAX - HOST_PAGE)
                        return HEAP_E_FULL;
                memory->size = (size + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
        }
        *ret = TAKE(memory);
        return HEAP_OK;
}

struct memory *mem_ref(struct memory *memory)
{
        if (memory)
                memory->refs++;
        return memory;
}

void mem_unref(struct memory *memory)
{
        if (!memory || --memory->refs)
                return;
        if (memory->gpu)
                heap_give(&memory->gpu->heap, memory->taken);
        fabric_free(memory->fabric);
        mem_unref(memory->below);
        if (memory->is_page)
                LIST_REMOVE_BY(&memory->gpu->pages, memory, next_page);
        if (memory->fd >= 0) {
                (void)fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)memory->size);
                (void)ftruncate(memory->fd, (off_t)(memory->size + HOST_PAGE)); /* nobody's: mem_adopt */
                close(memory->fd);
        }
        free(memory);
}

/* ---- the page of live figures -------------------------------------------------------------- */

/* NV00DE_SHARED_DATA: BAR1 and, from 560.28.03 on, what is free. Source: cl00de.h. */
static void page_write(const struct memory *memory)
{
        unsigned char page[40] = { 0 };
        const struct gpu *gpu = memory->gpu;

        if (memory->fd < 0)
                return;
        rm_put64(page, sizeof(page), 0, UINT64_MAX - 1); /* a valid sequence number */
        rm_put32(page, sizeof(page), 8, (uint32_t)(256 * GIB / KIB));
        rm_put32(page, sizeof(page), 12, (uint32_t)(256 * GIB / KIB));
        if (gpu->machine->layout.user_data_has_memory) {
                rm_put64(page, sizeof(page), 16, UINT64_MAX - 1);
                rm_put64(page, sizeof(page), 24, gpu->heap.size);
                rm_put64(page, sizeof(page), 32, heap_free(&gpu->heap));
        }
        (void)!pwrite(memory->fd, page, sizeof(page), 0);
}

int mem_fd(struct memory *memory)
{
        _cleanup_(closep) int fd = -1;

        if (memory->below)
                return mem_fd(memory->below);
        if (memory->fd < 0) {
                fd = memfd_create("nvidia", MFD_CLOEXEC);
                if (fd < 0 || ftruncate(fd, (off_t)memory->size) < 0)
                        return -errno;
                memory->fd = TAKE_FD(fd);
        }
        if (memory->is_page)
                page_write(memory);
        return memory->fd;
}

/*
 * What a program sees of memory that is mapped for its device is the file that was its bytes when the program mapped
 * it. When that memory is freed, and other memory is mapped at the same place, the program is to see that: so it takes
 * the file over, if it has no bytes of its own yet and the file is nobody's any more.
 */
bool mem_adopt(struct memory *memory, int fd)
{
        struct stat stat;

        if (memory->fd >= 0 || memory->below || memory->pages_of || !memory->gpu || !memory->client ||
            fstat(fd, &stat) < 0 || stat.st_size != (off_t)(memory->size + HOST_PAGE) ||
            ftruncate(fd, (off_t)memory->size) < 0)
                return false;
        memory->fd = fd;
        return true;
}

void mem_pages_update(struct gpu *gpu)
{
        if (!gpu->pages || gpu->shown == heap_free(&gpu->heap))
                return;
        gpu->shown = heap_free(&gpu->heap);
        for (const struct memory *page = gpu->pages; page; page = page->next_page)
                page_write(page);
}

uint32_t mem_page_alloc(struct object *object)
{
        if (!object->gpu)
                return SIM_STATUS_INVALID_PARENT;
        if (mem_new(NULL, HOST_PAGE, 0, 0, &object->memory) != HEAP_OK)
                return RM_STATUS_NO_MEMORY;
        object->memory->n_handles = 1;
        object->memory->is_page = true;
        object->memory->gpu = object->gpu;
        object->memory->next_page = object->gpu->pages;
        object->gpu->pages = object->memory;
        return RM_STATUS_OK;
}

/* The driver reports the pages that it chose: attr and attr2 as seen with release 580.159.04. */
static void attributes_report(struct memory *memory)
{
        enum {
                PAGES_AT = 23,
                PHYSICALITY_AT = 27,
                CONTIGUOUS = 2,
                SCATTERED = 1,
                CACHED = 5,        /* of attr2: cacheable by the GPU */
                HUGE_2M = 1 << 20, /* of attr2 */
        };
        uint32_t pages = memory->size % (2 * MIB) == 0 && memory->taken ? 3 : memory->size % (64 * KIB) == 0 ? 2 : 1;

        memory->attr &= ~(3u << PAGES_AT | 3u << PHYSICALITY_AT);
        memory->attr |= pages << PAGES_AT | (uint32_t)(memory->taken ? CONTIGUOUS : SCATTERED) << PHYSICALITY_AT;
        memory->attr2 |= (uint32_t)CACHED;
        if (pages == 3 && !RM_ATTR2_HUGE(memory->attr2))
                memory->attr2 |= (uint32_t)HUGE_2M;
}

/* ---- allocation: NV_MEMORY_ALLOCATION_PARAMS ----------------------------------------------- */

struct desired {
        uint32_t owner, flags, attr, attr2, internal;
        uint64_t size;
};

/* A fault may refuse it, as a heap without room would. */
static int take_video(struct object *object, const struct desired *desired)
{
        struct faults *faults = &object->gpu->machine->faults;

        if (faults->oom_at && --faults->oom_at == 0)
                return HEAP_E_FULL;
        return mem_new(object->gpu, desired->size, desired->attr, desired->attr2, &object->memory);
}

static uint32_t memory_attach(struct object *object, const struct desired *desired)
{
        bool is_video = object->class_number == RM_CLASS_VIDEO_MEMORY;
        int r;

        if (desired->internal || !desired->size)
                return RM_STATUS_INVALID_ARGUMENT;
        if (object->class_number == CLASS_DEVICELESS) {
                if (!(desired->attr2 & ATTR2_READ_ONLY))
                        return RM_STATUS_INVALID_ARGUMENT;
        } else if (!desired->owner || desired->owner == UINT32_MAX) {
                return STATUS_INVALID_OWNER;
        } else if (!object->gpu) {
                return SIM_STATUS_INVALID_PARENT;
        } else if ((RM_ATTR_LOCATION(desired->attr) == 0) != is_video) {
                return RM_STATUS_INVALID_ARGUMENT;
        }
        if (desired->flags & RM_FLAG_VIRTUAL)
                return RM_STATUS_INVALID_ARGUMENT;
        r = is_video ? take_video(object, desired) :
                       mem_new(NULL, desired->size, desired->attr, desired->attr2, &object->memory);
        if (r != HEAP_OK)
                return RM_STATUS_NO_MEMORY;
        object->memory->n_handles = 1;
        attributes_report(object->memory);
        return RM_STATUS_OK;
}

uint32_t mem_alloc(struct object *object, struct part *params)
{
        struct desired desired = { .owner = rm_get32(params->data, params->size, 0),
                                   .flags = rm_get32(params->data, params->size, 8),
                                   .attr = rm_get32(params->data, params->size, 24),
                                   .attr2 = rm_get32(params->data, params->size, 28),
                                   .internal = rm_get32(params->data, params->size, 112),
                                   .size = rm_get64(params->data, params->size, 64) };
        uint32_t status;

        if (!params->size)
                return RM_STATUS_INVALID_ARGUMENT;
        if (object->class_number == CLASS_VIRTUAL)
                return RM_STATUS_OK; /* addresses only */
        status = memory_attach(object, &desired);
        if (status != RM_STATUS_OK)
                return status;
        object->memory->client = object->client->top.handle;
        rm_put32(params->data, params->size, 24, object->memory->attr);
        rm_put32(params->data, params->size, 28, object->memory->attr2);
        rm_put64(params->data, params->size, 64, object->memory->size);
        rm_put64(params->data, params->size, 80, object->memory->offset);
        rm_put64(params->data, params->size, 88, object->memory->size - 1);
        return RM_STATUS_OK;
}

/* ---- the heap's own calls: NVOS32 ---------------------------------------------------------- */

static uint32_t heap_alloc(struct machine *machine, struct request *request)
{
        struct part *block = &request->block;
        struct desired desired = { .owner = rm_get32(block->data, block->size, 40),
                                   .flags = rm_get32(block->data, block->size, 52),
                                   .attr = rm_get32(block->data, block->size, 56),
                                   .attr2 = rm_get32(block->data, block->size, 144),
                                   .size = rm_get64(block->data, block->size, 88) };
        uint32_t class_number = desired.flags & RM_FLAG_VIRTUAL     ? CLASS_VIRTUAL :
                                RM_ATTR_LOCATION(desired.attr) == 0 ? RM_CLASS_VIDEO_MEMORY :
                                                                      RM_CLASS_HOST_MEMORY;
        struct object *object;
        uint32_t status = RM_STATUS_OK;
        int r;

        r = handles_put(request->client, request->call.parent, request->call.object, class_number, &object);
        if (r != HANDLES_OK)
                return alloc_status(r);
        if (class_number != CLASS_VIRTUAL)
                status = memory_attach(object, &desired);
        if (status != RM_STATUS_OK) {
                handles_free(&machine->handles, object);
                return status;
        }
        rm_put32(block->data, block->size, 44, object->handle);
        if (object->memory) {
                rm_put64(block->data, block->size, 88, object->memory->size);
                rm_put64(block->data, block->size, 104, object->memory->offset);
                rm_put64(block->data, block->size, 112, object->memory->size - 1);
        }
        return RM_STATUS_OK;
}

static uint32_t heap_info(struct request *request, const struct gpu *gpu)
{
        struct part *block = &request->block;

        rm_put64(block->data, block->size, 24, gpu->heap.size);
        rm_put64(block->data, block->size, 32, heap_free(&gpu->heap));
        rm_put64(block->data, block->size, 48, 0);                     /* offset */
        rm_put64(block->data, block->size, 56, heap_free(&gpu->heap)); /* the largest free */
        rm_put64(block->data, block->size, 64, 0);                     /* base */
        return RM_STATUS_OK;
}

uint32_t mem_heap(struct machine *machine, struct request *request)
{
        struct object *parent = handles_get(request->client, request->call.parent);

        if (!parent || !parent->gpu)
                return SIM_STATUS_INVALID_PARENT;
        if (parent->gpu->is_lost)
                return SIM_STATUS_GPU_IS_LOST;
        switch (request->call.class_or_cmd) {
        case HEAP_ALLOC_SIZE:
                return heap_alloc(machine, request);
        case HEAP_FREE:
                return alloc_free(machine, request);
        case HEAP_INFO:
                return heap_info(request, parent->gpu);
        default:
                return STATUS_INVALID_FUNCTION;
        }
}

/* ---- mappings ------------------------------------------------------------------------------ */

/* RM lets only the process that made the client map (rm_create_mmap_context compares ProcID); the
 * file named carries what is mapped until its mmap. */
uint32_t mem_map(struct request *request)
{
        struct object *object = handles_get(request->client, request->call.object);
        uint64_t offset = rm_get64(request->block.data, request->block.size, 16);
        uint64_t length = rm_get64(request->block.data, request->block.size, 24);

        if (request->client->pid != request->sender.pid)
                return RM_STATUS_INVALID_CLIENT;
        if (!object || !object->memory)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (!request->named || (request->named->node != RM_NODE_CTL && request->named->node != RM_NODE_DEVICE) ||
            length > object->memory->size || offset > object->memory->size - length)
                return RM_STATUS_INVALID_ARGUMENT;

        mem_unref(request->named->mapping);
        request->named->mapping = mem_ref(object->memory);
        request->named->mapping_offset = offset;
        request->named->mapping_length = (length + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE; /* mmap maps pages */
        return RM_STATUS_OK;
}
