/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client with its address space, and copies. copy_channel.c has the channel, copy_room.c the room. Layouts:
 * docs/rm-abi.md; methods: class 0xc8b5, of release 580.95.05; measured on an H200 with 580.159.04
 * (tests/gpu/movefacts.sh).
 */
#include "gpu/copy.h"

#include "base/clock.h"
#include "gpu/copy_inside.h"
#include "rm/numbers.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
        CLASS_SPACE = 0x90f1,
        SPACE_SIZE = 56,

        DOORBELL_AT = 0x90 / 4,
        USERD_PUT = 0x8c / 4,
        SUBCHANNEL = 4, /* the copy engine's */
        SPINS = 200,    /* looks at the word before a moment is slept */
};

#define COPY_MOST (1ull * GIB)         /* of one entry: a line's length is a word */
#define STUCK_AFTER (5 * NSEC_PER_SEC) /* without a copy that ends: 1 GiB takes 20 ms */

/* ---- calls ----------------------------------------------------------------------------------------------- */

int copy_call(struct gpu_copy *copy, int fd, uint32_t nr, void *block, uint32_t size, uint32_t status_at)
{
        const struct gpu_backend *backend = copy->client.backend;
        int r;

        rm_put32(block, size, status_at, UINT32_MAX);
        r = backend->ioctl(backend->context, fd, rm_encode_request(nr, size), block);
        return r < 0 ? r : client_error(rm_get32(block, size, status_at));
}

int copy_free(struct gpu_copy *copy, uint32_t object)
{
        enum { CLIENT_AT = 0, OBJECT_AT = 8, STATUS_AT = 12 };
        uint8_t block[RM_FREE_SIZE] = { 0 };
        int r;

        if (!object)
                return 0;
        rm_put32(block, sizeof(block), CLIENT_AT, copy->client.client);
        rm_put32(block, sizeof(block), OBJECT_AT, object);
        r = copy_call(copy, copy->client.ctl, RM_NR_FREE, block, sizeof(block), STATUS_AT);
        copy->is_leaking |= r < 0;
        return r;
}

int copy_map(struct gpu_copy *copy, uint32_t memory, bytes size, bool is_host, uint64_t *ret)
{
        const struct rm_layout *layout = &copy->client.backend->layout;
        uint32_t block_size = layout->map_dma_size;
        uint8_t block[RM_BLOCK_MAX] = { 0 };
        int r;

        rm_put32(block, block_size, 0, copy->client.client);
        rm_put32(block, block_size, 4, copy->client.device);
        rm_put32(block, block_size, 8, copy->range);
        rm_put32(block, block_size, 12, memory);
        rm_put64(block, block_size, 24, size);
        rm_put32(block, block_size, 32, is_host ? 0x10 : 0); /* the processor's caches see what the engine does */
        r = copy_call(copy, copy->client.ctl, 0x57, block, block_size, layout->map_dma_status_at);
        if (r == 0)
                *ret = rm_get64(block, block_size, layout->map_dma_status_at - 8);
        return r;
}

void copy_unmap(struct gpu_copy *copy, uint32_t memory, uint64_t at, bytes size)
{
        const struct rm_layout *layout = &copy->client.backend->layout;
        uint32_t block_size = layout->unmap_dma_size;
        uint8_t block[RM_BLOCK_MAX] = { 0 };

        rm_put32(block, block_size, 0, copy->client.client);
        rm_put32(block, block_size, 4, copy->client.device);
        rm_put32(block, block_size, 8, copy->range);
        rm_put32(block, block_size, 12, memory);
        rm_put64(block, block_size, 24, at);
        if (block_size > 40)
                rm_put64(block, block_size, 32, size);
        (void)copy_call(copy, copy->client.ctl, 0x58, block, block_size, layout->unmap_dma_status_at);
}

/* ---- the client and its address space -------------------------------------------------------------------- */

static int space_open(struct gpu_copy *copy)
{
        uint8_t params[SPACE_SIZE] = { 0 };
        int r;

        rm_put32(params, sizeof(params), 4, 2); /* page tables in host memory where there is no other */
        r = client_alloc(&copy->client, copy->client.device, CLASS_SPACE, params, SPACE_SIZE, &copy->space);
        if (r < 0)
                return r;
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 16, copy->space);
        return client_alloc(&copy->client, copy->client.device, RM_CLASS_MEMORY_VIRTUAL_OLD, params, 24, &copy->range);
}

static int client_begin(struct gpu_copy *copy)
{
        struct rm_device devices[RM_DEVICES_MAX];
        size_t n = 0;
        int r;

        if (copy->is_open)
                return 0;
        r = client_open(&copy->client, copy->backend);
        if (r < 0)
                return r;
        copy->is_open = true;
        r = client_devices(&copy->client, devices, &n);
        if (r == 0)
                r = copy->device < n ? client_attach(&copy->client, &devices[copy->device]) : -ENODEV;
        if (r == 0)
                copy->room.node = copy->room.node_of(&devices[copy->device]);
        if (r == 0)
                r = space_open(copy);
        copy->first = copy->client.next;
        return r;
}

/* ---- copies ---------------------------------------------------------------------------------------------- */

static size_t method(uint32_t *words, size_t n, uint32_t address, uint32_t count)
{
        words[n] = 1u << 29 | count << 16 | SUBCHANNEL << 13 | address >> 2;
        return n + 1;
}

static size_t method64(uint32_t *words, size_t n, uint32_t address, uint64_t value)
{
        n = method(words, n, address, 2);
        words[n++] = (uint32_t)(value >> 32);
        words[n++] = (uint32_t)value;
        return n;
}

/* One entry of the ring: the copy, then a word that counts it. */
static size_t copy_words(const struct copy_channel *channel, uint32_t *words, uint64_t to, uint64_t from, bytes size)
{
        size_t n = 0;

        n = method(words, n, 0x000, 1);
        words[n++] = COPY_CLASS;
        n = method64(words, n, 0x400, from);
        n = method64(words, n, 0x408, to);
        n = method(words, n, 0x418, 1);
        words[n++] = (uint32_t)size;
        n = method64(words, n, 0x240, channel->at + COPY_DONE_AT);
        n = method(words, n, 0x248, 1);
        words[n++] = channel->n_asked;
        n = method(words, n, 0x300, 1);
        /* not pipelined with the one before, flush, release one word, both sides are lines, no compressed data */
        words[n++] = 2 | 1u << 2 | 1u << 3 | 1u << 7 | 1u << 8 | 1u << 26;
        return n;
}

static uint32_t n_done(const struct copy_channel *channel)
{
        return *(volatile uint32_t *)(void *)(channel->host + COPY_DONE_AT);
}

/* Until at most so many are not done. One that ends begins the time anew. */
static int wait_for(struct copy_channel *channel, uint32_t n_most)
{
        uint32_t seen = n_done(channel);
        nsec until = clock_now() + STUCK_AFTER;

        for (unsigned int i = 0; channel->n_asked - n_done(channel) > n_most; i++) {
                if (n_done(channel) != seen) {
                        seen = n_done(channel);
                        until = clock_now() + STUCK_AFTER;
                } else if (clock_now() > until) {
                        return -EIO;
                }
                if (i > SPINS)
                        (void)poll(NULL, 0, 1);
        }
        __sync_synchronize();
        return 0;
}

static int copy_one(struct copy_channel *channel, uint64_t to, uint64_t from, bytes size)
{
        uint32_t *words = (uint32_t *)(void *)(channel->host + COPY_WORDS_AT) + channel->entry * COPY_ENTRY_WORDS;
        uint64_t at = channel->at + COPY_WORDS_AT + channel->entry * COPY_ENTRY_WORDS * 4;
        int r = wait_for(channel, COPY_ENTRIES - 3);
        size_t n;

        if (r < 0)
                return r;
        channel->n_asked++;
        n = copy_words(channel, words, to, from, size);
        ((uint64_t *)(void *)channel->host)[channel->entry] = at | (uint64_t)n << (10 + 32);
        channel->entry = (channel->entry + 1) % COPY_ENTRIES;
        __sync_synchronize();
        channel->userd[USERD_PUT] = channel->entry;
        __sync_synchronize();
        (void)channel->userd[USERD_PUT]; /* it has arrived before the bell rings */
        channel->doorbell[DOORBELL_AT] = channel->token;
        return 0;
}

int gpu_copy_ask(struct gpu_copy *copy, bool is_out, const struct gpu_copy_piece *piece, bytes host)
{
        for (bytes done = 0, part; done < piece->size; done += part) {
                uint64_t at = 0, of = piece->at + done;
                int r = room_at(copy, host + done, &at, &part);

                if (r < 0)
                        return r;
                part = part < piece->size - done ? part : piece->size - done;
                part = part < COPY_MOST ? part : COPY_MOST;
                r = copy_one(&copy->channel, is_out ? at : of, is_out ? of : at, part);
                if (r < 0)
                        return r;
        }
        return 0;
}

int gpu_copy_wait(struct gpu_copy *copy)
{
        return copy->channel.handle ? wait_for(&copy->channel, 0) : 0;
}

int gpu_copy_take(struct gpu_copy *copy, uint32_t client, uint32_t object, struct gpu_copy_piece *piece)
{
        enum { SIZE = 28, STATUS_AT = 24 };
        uint8_t block[SIZE] = { 0 };
        uint32_t handle = copy->client.next;
        int r;

        rm_put32(block, SIZE, 0, copy->client.client);
        rm_put32(block, SIZE, 4, copy->client.device);
        rm_put32(block, SIZE, 8, handle);
        rm_put32(block, SIZE, 12, client);
        rm_put32(block, SIZE, 16, object);
        copy->client.next++; /* also where the driver refuses it: it may be in use */
        r = copy_call(copy, copy->client.ctl, RM_NR_DUP, block, SIZE, STATUS_AT);
        if (r < 0)
                return r;
        r = copy_map(copy, handle, piece->size, false, &piece->at);
        if (r < 0)
                (void)copy_free(copy, handle);
        else
                piece->handle = handle;
        return r;
}

int gpu_copy_give(struct gpu_copy *copy, const struct gpu_copy_piece *piece)
{
        copy_unmap(copy, piece->handle, piece->at, piece->size);
        return copy_free(copy, piece->handle);
}

/* ---- beginning and end ----------------------------------------------------------------------------------- */

int gpu_copy_new(const struct gpu_backend *backend, unsigned int device, struct gpu_copy **ret)
{
        struct gpu_copy *copy = calloc(1, sizeof(*copy));

        if (!copy)
                return -ENOMEM;
        copy->backend = backend;
        copy->device = device;
        room_init(&copy->room);
        *ret = copy;
        return 0;
}

int gpu_copy_begin(struct gpu_copy *copy, bytes size)
{
        int r = client_begin(copy);

        if (r == 0)
                r = copy_channel_begin(copy);
        return r < 0 ? r : room_grow(copy, size);
}

void gpu_copy_end(struct gpu_copy *copy, bool is_kept)
{
        if (!copy->is_open)
                return;
        copy_channel_end(copy);
        room_wait(copy);
        if (is_kept && copy->room.n_ready) { /* what is ready may be full, whatever became of the rest */
                if (!copy->is_leaking)       /* what was taken is given back: the handles would run out */
                        copy->client.next = copy->first;
                return;
        }
        client_done(&copy->client); /* with all that is ours there */
        copy->is_open = false;
        copy->is_leaking = false;
        room_clear(copy);
}

int gpu_copy_ready(struct gpu_copy *copy, bytes size)
{
        int r = client_begin(copy);

        if (r == 0)
                r = room_grow(copy, size);
        room_wait(copy);
        return r < 0 ? r : copy->room.error;
}

bool gpu_copy_is_leaking(const struct gpu_copy *copy)
{
        return copy->is_leaking;
}

bytes gpu_copy_room(const struct gpu_copy *copy)
{
        return copy ? room_size(&copy->room) : 0;
}

void gpu_copy_shrink(struct gpu_copy *copy, bytes size)
{
        room_shrink(copy, size);
        if (!copy->room.n)
                gpu_copy_end(copy, false);
}

struct gpu_copy *gpu_copy_free(struct gpu_copy *copy)
{
        if (copy)
                gpu_copy_end(copy, false);
        free(copy);
        return NULL;
}
