/* SPDX-License-Identifier: Apache-2.0 */
#include "naive.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum holder_kind {
        NOBODY, /* the slot is free */
        OBJECT,
        MAPPING,
        EXPORT,
        MANAGED,
        POOL, /* holds nothing: a range that is no managed memory */
};

/* Whoever keeps memory, or an object that keeps none but has children. */
struct holder {
        enum holder_kind kind;
        size_t memory; /* index from 1; 0: none */
        uint32_t client, handle, parent;
        uint64_t file; /* of a client's root: where it was opened; of the others: the space, the export */
        uint64_t base, length, device;
        uint32_t index;
        unsigned int process;
};

enum {
        HOLDERS_MAX = 16384,
        MEMORIES_MAX = 16384,
};

struct naive {
        struct holder holders[HOLDERS_MAX];
        size_t n_holders;
        uint64_t memories[MEMORIES_MAX]; /* sizes */
        size_t n_memories;
        uint64_t peak;
};

struct naive *naive_new(void)
{
        return calloc(1, sizeof(struct naive));
}

void naive_free(struct naive *naive)
{
        free(naive);
}

static uint64_t u64(struct trace_bytes bytes, size_t at)
{
        uint64_t value = 0;

        if (bytes.size >= at + 8)
                memcpy(&value, bytes.data + at, 8);
        return value;
}

static uint32_t u32(struct trace_bytes bytes, size_t at)
{
        uint32_t value = 0;

        if (bytes.size >= at + 4)
                memcpy(&value, bytes.data + at, 4);
        return value;
}

static struct holder *hold(struct naive *naive, struct holder what)
{
        assert(naive->n_holders < HOLDERS_MAX);
        naive->holders[naive->n_holders] = what;
        return &naive->holders[naive->n_holders++];
}

static size_t new_memory(struct naive *naive, uint64_t size, uint32_t attr)
{
        uint32_t page = attr >> 23 & 3;
        uint64_t unit = page == 3 || (page == 0 && size >= 2u << 20) ? 2u << 20 : 64u << 10;

        assert(naive->n_memories + 1 < MEMORIES_MAX);
        naive->memories[++naive->n_memories] = (size + unit - 1) / unit * unit;
        return naive->n_memories;
}

static struct holder *object(struct naive *naive, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < naive->n_holders; i++) {
                struct holder *h = &naive->holders[i];

                if (h->kind == OBJECT && h->client == client && h->handle == handle)
                        return h;
        }
        return NULL;
}

static void drop_object(struct naive *naive, uint32_t client, uint32_t handle)
{
        struct holder *found = object(naive, client, handle);

        if (!found)
                return;
        found->kind = NOBODY;
        for (size_t i = 0; i < naive->n_holders; i++) {
                struct holder *h = &naive->holders[i];

                if (h->kind == OBJECT && h->client == client && h->parent == handle)
                        drop_object(naive, client, h->handle);
        }
}

static void see_alloc(struct naive *naive, const struct trace_event *e, uint64_t file)
{
        uint32_t class = u32(e->in, 12), handle = u32(e->out, 8);
        struct holder new = { OBJECT, .client = u32(e->in, 0), .parent = u32(e->in, 4), .handle = handle };

        if (u32(e->out, e->size == 48 ? 40 : 28))
                return;
        if (class == 0 || class == 1 || class == 0x41)
                new = (struct holder){ OBJECT, .client = handle, .handle = handle, .file = file };
        if (class == 0x40)
                new.memory = new_memory(naive, u64(e->pout, 64), u32(e->pout, 24));
        if (class == 0xf8 && object(naive, new.client, u32(e->pin, 40))) /* keeps what it is made over */
                new.memory = object(naive, new.client, u32(e->pin, 40))->memory;
        (void)hold(naive, new);
}

/* The old heap call, function 2. */
static void see_heap(struct naive *naive, const struct trace_event *e)
{
        struct holder new = { OBJECT, .client = u32(e->in, 0), .parent = u32(e->in, 4), .handle = u32(e->out, 44) };

        if (u32(e->out, 20) || u32(e->in, 8) != 2)
                return;
        if ((u32(e->in, 56) >> 25 & 3) == 0 && !(u32(e->in, 52) & 1 << 19)) /* 1 << 19: addresses only */
                new.memory = new_memory(naive, u64(e->out, 88), u32(e->in, 56));
        (void)hold(naive, new);
}

static void see_dup(struct naive *naive, const struct trace_event *e)
{
        const struct holder *source = object(naive, u32(e->in, 12), u32(e->in, 16));

        if (!u32(e->out, 24) && source)
                (void)hold(naive, (struct holder){ OBJECT, source->memory, .client = u32(e->in, 0),
                                                   .handle = u32(e->out, 8), .parent = u32(e->in, 4) });
}

/* What is exported at an index replaces what was there; handle 0 is nothing. Source: os.c, 595.45.04. */
static void drop_export(struct naive *naive, uint64_t file, uint32_t index)
{
        for (size_t i = 0; i < naive->n_holders; i++) {
                struct holder *h = &naive->holders[i];

                if (h->kind == EXPORT && h->file == file && h->index == index)
                        h->kind = NOBODY;
        }
}

static void see_exports(struct naive *naive, const struct trace_event *e, uint64_t file)
{
        uint32_t n = u32(e->pin, 2124) & 0xffff, first = u32(e->pin, 2124) >> 16;

        for (uint32_t i = 0; i < n; i++) {
                const struct holder *source = object(naive, u32(e->in, 0), u32(e->pin, 76 + 4 * i));

                drop_export(naive, file, first + i);
                if (source)
                        (void)hold(naive, (struct holder){ EXPORT, source->memory, .file = file, .index = first + i });
        }
}

/* The older form, one object. */
static void see_export(struct naive *naive, const struct trace_event *e, uint64_t file)
{
        const struct holder *source = object(naive, u32(e->in, 0), u32(e->pin, 12));

        if (source)
                (void)hold(naive, (struct holder){ EXPORT, source->memory, .file = file });
}

static void see_imports(struct naive *naive, const struct trace_event *e, uint64_t file)
{
        uint32_t n = u32(e->pout, 648) & 0xffff, first = u32(e->pout, 648) >> 16;

        for (uint32_t i = 0; i < n; i++)
                for (size_t k = naive->n_holders; k-- > 0;) {
                        const struct holder *h = &naive->holders[k];

                        if (h->kind != EXPORT || h->file != file || h->index != first + i)
                                continue;
                        (void)hold(naive,
                                   (struct holder){ OBJECT, h->memory, .client = u32(e->in, 0),
                                                    .handle = u32(e->pout, 8 + 4 * i), .parent = u32(e->pin, 4) });
                        break;
                }
}

static void unmap(struct naive *naive, enum holder_kind kind, uint64_t file, uint64_t base, uint64_t length,
                  uint64_t device)
{
        for (size_t i = 0; i < naive->n_holders; i++) {
                struct holder *h = &naive->holders[i];

                if (h->kind == kind && h->file == file && h->base >= base && h->base + h->length <= base + length &&
                    (!device || h->device == device))
                        h->kind = NOBODY;
        }
}

static void see_uvm(struct naive *naive, const struct trace_event *e, uint64_t file)
{
        uint64_t base = u64(e->in, 0), length = u64(e->in, 8);
        const struct holder *source;

        switch (e->request) {
        case 33:
                source = object(naive, u32(e->in, 9252), u32(e->in, 9256));
                if (u32(e->out, 9260) || !source)
                        return;
                unmap(naive, MAPPING, file, base, length, u64(e->in, 24));
                (void)hold(naive, (struct holder){ MAPPING, source->memory, .file = file, .base = base,
                                                   .length = length, .device = u64(e->in, 24) });
                break;
        case 34:
                if (u32(e->out, 16))
                        return;
                unmap(naive, MAPPING, file, base, length, 0);
                unmap(naive, POOL, file, base, length, 0);
                break;
        case 66:
                if (!u32(e->out, 32))
                        unmap(naive, MAPPING, file, base, length, u64(e->in, 16));
                break;
        case 68:
                if (!u32(e->out, 9240))
                        (void)hold(naive, (struct holder){ POOL, .file = file, .base = base, .length = length });
                break;
        }
}

static void see_call(struct naive *naive, const struct trace_event *e, uint64_t file, naive_file_at file_at,
                     void *context)
{
        switch (e->request & 0xff) {
        case 0x2b:
                see_alloc(naive, e, file);
                break;
        case 0x4a:
                see_heap(naive, e);
                break;
        case 0x29:
                if (!u32(e->out, 12))
                        drop_object(naive, u32(e->in, 0), u32(e->in, 8));
                break;
        case 0x34:
                see_dup(naive, e);
                break;
        case 0x2a:
                if (u32(e->out, 28))
                        break;
                if (u32(e->in, 8) == 0x3d05)
                        see_export(naive, e, file_at(context, (int)u32(e->pin, 16)));
                else if (u32(e->in, 8) == 0x3d0b)
                        see_exports(naive, e, file_at(context, (int)u32(e->pin, 0)));
                else if (u32(e->in, 8) == 0x3d0c)
                        see_imports(naive, e, file_at(context, (int)u32(e->pin, 0)));
                break;
        }
}

/* A managed range: as large as it is mapped. */
static void see_mmap(struct naive *naive, unsigned int process, const struct trace_event *e, uint64_t file)
{
        uint64_t length = (e->length + 4095) & ~(uint64_t)4095;

        if (e->ret < 0 || !(e->flags & MAP_SHARED) || e->offset == 0)
                return;
        for (size_t i = 0; i < naive->n_holders; i++)
                if (naive->holders[i].kind == POOL && naive->holders[i].base == e->address &&
                    naive->holders[i].length == length)
                        return;
        assert(naive->n_memories + 1 < MEMORIES_MAX);
        naive->memories[++naive->n_memories] = length;
        (void)hold(naive, (struct holder){ MANAGED, naive->n_memories, .file = file, .base = e->address,
                                           .length = length, .process = process });
}

static void see_munmap(struct naive *naive, unsigned int process, const struct trace_event *e)
{
        for (size_t i = 0; i < naive->n_holders; i++) {
                struct holder *h = &naive->holders[i];

                if (h->kind == MANAGED && h->process == process && h->base == e->address)
                        h->kind = NOBODY;
        }
}

void naive_see(struct naive *naive, unsigned int process, const struct trace_event *e, uint64_t file,
               enum naive_node node, naive_file_at file_at, void *context)
{
        if (e->kind == TRACE_IOCTL && e->rc >= 0 && node == NAIVE_CTL)
                see_call(naive, e, file, file_at, context);
        else if (e->kind == TRACE_IOCTL && e->rc >= 0 && node == NAIVE_UVM)
                see_uvm(naive, e, file);
        else if (e->kind == TRACE_MMAP && node == NAIVE_UVM)
                see_mmap(naive, process, e, file);
        else if (e->kind == TRACE_MUNMAP)
                see_munmap(naive, process, e);
        if (naive_held(naive) > naive->peak)
                naive->peak = naive_held(naive);
}

void naive_close(struct naive *naive, uint64_t file)
{
        for (size_t i = 0; i < naive->n_holders; i++) {
                struct holder *h = &naive->holders[i];

                if (h->kind == OBJECT && h->file == file && h->client == h->handle)
                        drop_object(naive, h->client, h->handle);
                else if (h->kind != OBJECT && h->file == file)
                        h->kind = NOBODY;
        }
}

void naive_end(struct naive *naive, unsigned int process)
{
        for (size_t i = 0; i < naive->n_holders; i++)
                if (naive->holders[i].kind == MANAGED && naive->holders[i].process == process)
                        naive->holders[i].kind = NOBODY;
}

uint64_t naive_held(const struct naive *naive)
{
        static bool counted[MEMORIES_MAX];
        uint64_t sum = 0;

        memset(counted, 0, sizeof(counted));
        for (size_t i = 0; i < naive->n_holders; i++) {
                const struct holder *h = &naive->holders[i];

                if (h->kind == NOBODY || !h->memory || counted[h->memory])
                        continue;
                counted[h->memory] = true;
                sum += naive->memories[h->memory];
        }
        return sum;
}

uint64_t naive_peak(const struct naive *naive)
{
        return naive->peak;
}
