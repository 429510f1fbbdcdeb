/* SPDX-License-Identifier: Apache-2.0 */
/* A copy engine by plain driver calls. See ce.h. Layouts: docs/rm-abi.md; methods: class 0xc8b5 of release 580. */
#define _GNU_SOURCE
#include "ce.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
        NR_ALLOC_MEMORY = 0x27,
        NR_DUP = 0x34,
        NR_MAP_MEMORY = 0x4e,
        NR_UNMAP_DMA = 0x58,

        CLASS_HOST = 0x3e,
        CLASS_OS_DESCRIPTOR = 0x71,
        CLASS_RANGE = 0x70,
        CLASS_SPACE = 0x90f1,
        CLASS_GROUP = 0xa06c,
        CLASS_CHANNEL = 0xc86f,
        CLASS_COPY = 0xc8b5,
        CLASS_DOORBELL = 0xc661,

        GET_TOKEN = (int)0xc36f0108,
        SCHEDULE = (int)0xa06c0101,
        FB_INFO = 0x20801303,
        FB_INFO_SIZE = 1028,
        FB_HEAP_FREE = 0x16,

        DOORBELL_BYTES = 0x10000,
        DOORBELL_AT = 0x90 / 4,
        USERD_PUT = 0x8c / 4,
        USERD_BYTES = 0x1000,

        /* One object of host memory: the ring, then the words of each entry, then the semaphore. */
        ENTRIES = 512,
        ENTRY_WORDS = 32,
        WORDS_AT = 0x1000 * 2,
        DONE_AT = WORDS_AT + ENTRIES * ENTRY_WORDS * 4,
        OBJECT_BYTES = 1 << 20,

        TYPE_NOTIFIER = 13,
        SUBCHANNEL = 4, /* the copy engine's */
        TOUCHERS = 8,
};

/* Flags of a mapping for the processor: read and write; write only. */
enum { MAP_BOTH = 0, MAP_WRITE = 2 };

double ce_now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void ce_say(const char *what, struct kit_outcome outcome)
{
        printf("  %s rc=%ld errno=%d status=0x%llx\n", what, outcome.rc, outcome.error,
               (unsigned long long)outcome.status);
}

static bool took(const char *what, struct kit_outcome outcome)
{
        if (!kit_ok(outcome))
                ce_say(what, outcome);
        return kit_ok(outcome);
}

static struct kit_outcome call(int fd, unsigned int nr, void *block, size_t size, size_t status_at)
{
        struct kit_outcome outcome = { .status = -1 };

        kit_put32(block, status_at, 0xffffffffu);
        errno = 0;
        outcome.rc = kit_ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size), block);
        outcome.error = outcome.rc < 0 ? errno : 0;
        if (outcome.rc == 0)
                outcome.status = kit_get32(block, status_at);
        return outcome;
}

uint32_t ce_handle(struct ce *ce)
{
        return ce->next++;
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

uint32_t ce_video(struct ce *ce, uint64_t bytes)
{
        uint32_t handle = ce_handle(ce);

        return took("video memory", kit_rm_memory(&ce->rm, handle, bytes)) ? handle : 0;
}

uint32_t ce_register(struct ce *ce, void *at, uint64_t bytes)
{
        unsigned char block[56] = { 0 };
        uint32_t handle = ce_handle(ce);

        kit_put32(block, 0, ce->rm.client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, handle);
        kit_put32(block, 12, CLASS_OS_DESCRIPTOR);
        kit_put32(block, 16, 0x40001010); /* not contiguous, cached, no mapping for the processor */
        kit_put64(block, 24, (uintptr_t)at);
        kit_put64(block, 32, bytes - 1);
        kit_put32(block, 48, (uint32_t)-1);
        return took("register", call(ce->rm.node, NR_ALLOC_MEMORY, block, sizeof(block), 40)) ? handle : 0;
}

uint32_t ce_dup(struct ce *ce, uint32_t client, uint32_t object, int64_t *ret_status)
{
        unsigned char block[28] = { 0 };
        uint32_t handle = ce_handle(ce);
        struct kit_outcome outcome;

        kit_put32(block, 0, ce->rm.client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, handle);
        kit_put32(block, 12, client);
        kit_put32(block, 16, object);
        outcome = call(ce->rm.ctl, NR_DUP, block, sizeof(block), 24);
        *ret_status = outcome.status;
        return kit_ok(outcome) ? handle : 0;
}

void ce_free(struct ce *ce, uint32_t object)
{
        (void)took("free", kit_rm_free(&ce->rm, KIT_DEVICE, object));
}

uint64_t ce_map(struct ce *ce, uint32_t memory, uint64_t bytes, bool is_host)
{
        uint64_t at = 0;

        /* Host memory: the engine's accesses are seen by the caches of the processor. */
        return took("map", kit_rm_map(&ce->rm, ce->dma, memory, bytes, is_host ? 0x10 : 0, &at)) ? at : 0;
}

int64_t ce_unmap(struct ce *ce, uint32_t memory, uint64_t at, uint64_t bytes)
{
        unsigned char block[48] = { 0 };
        struct kit_outcome outcome;

        kit_put32(block, 0, ce->rm.client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, ce->dma);
        kit_put32(block, 12, memory);
        kit_put64(block, 24, at);
        kit_put64(block, 32, bytes);
        outcome = call(ce->rm.ctl, NR_UNMAP_DMA, block, sizeof(block), 40);
        (void)took("unmap", outcome);
        return outcome.status;
}

/* The processor's view of an object: through the node of the device for what lies there, else nvidiactl. */
static void *view(struct ce *ce, const char *what, uint32_t memory, uint64_t bytes, bool is_host, uint32_t flags)
{
        int fd = open(is_host ? "/dev/nvidiactl" : "/dev/nvidia0", O_RDWR | O_CLOEXEC);
        unsigned char block[56] = { 0 };
        void *p = MAP_FAILED;

        kit_put32(block, 0, ce->rm.client);
        kit_put32(block, 4, is_host ? KIT_DEVICE : KIT_SUBDEVICE);
        kit_put32(block, 8, memory);
        kit_put64(block, 24, bytes);
        kit_put32(block, 44, flags);
        kit_put32(block, 48, (uint32_t)fd);
        if (fd >= 0 && took(what, call(ce->rm.ctl, NR_MAP_MEMORY, block, sizeof(block), 40)))
                p = mmap(NULL, bytes, flags == MAP_WRITE ? PROT_WRITE : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
                printf("  %s mmap errno=%d\n", what, errno);
        if (fd >= 0)
                (void)close(fd);
        return p == MAP_FAILED ? NULL : p;
}

/* Host memory that the driver gives. */
static uint32_t host_object(struct ce *ce, uint64_t bytes, uint32_t type)
{
        unsigned char params[128] = { 0 };
        uint32_t handle = ce_handle(ce);

        kit_put32(params, 0, ce->rm.client);
        kit_put32(params, 4, type);
        kit_put32(params, 8, 0xc001);
        kit_put32(params, 24, 0x3a000000);
        kit_put64(params, 64, bytes);
        return took("host memory", kit_rm_alloc(&ce->rm, KIT_DEVICE, handle, CLASS_HOST, params, sizeof(params))) ?
                       handle :
                       0;
}

struct toucher {
        char *at;
        uint64_t bytes;
};

static void *touch(void *p)
{
        const struct toucher *toucher = p;

        for (uint64_t i = 0; i < toucher->bytes; i += 4096)
                toucher->at[i] = 1;
        return NULL;
}

void *ce_host_memory(uint64_t bytes, const char **ret_pages)
{
        char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        struct toucher touchers[TOUCHERS];
        pthread_t threads[TOUCHERS];
        uint64_t part = bytes / TOUCHERS & ~(2 * MIB - 1);

        *ret_pages = "huge";
        if (p == MAP_FAILED) {
                p = mmap(NULL, bytes + 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED)
                        return NULL;
                p = (char *)(((uintptr_t)p + 2 * MIB - 1) & ~(2 * MIB - 1));
                *ret_pages = madvise(p, bytes, MADV_HUGEPAGE) == 0 ? "transparent" : "small";
        }
        for (int i = 0; i < TOUCHERS; i++) {
                touchers[i] = (struct toucher){ p + (uint64_t)i * part, part };
                if (i == TOUCHERS - 1)
                        touchers[i].bytes = bytes - (uint64_t)i * part;
                if (pthread_create(&threads[i], NULL, touch, &touchers[i]))
                        return NULL;
        }
        for (int i = 0; i < TOUCHERS; i++)
                (void)pthread_join(threads[i], NULL);
        return p;
}

/* ---- the client and its channels --------------------------------------------------------------------------- */

bool ce_open(struct ce *ce)
{
        unsigned char params[56] = { 0 };
        uint32_t bell;

        *ce = (struct ce){ .next = CE_MEMORY_FIRST };
        if (!kit_rm_try_open(&ce->rm)) {
                printf("  no client\n");
                return false;
        }
        ce->space = ce_handle(ce);
        kit_put32(params, 4, 2); /* page tables in host memory where there is no other */
        if (!took("space", kit_rm_alloc(&ce->rm, KIT_DEVICE, ce->space, CLASS_SPACE, params, 56)))
                return false;
        ce->dma = ce_handle(ce);
        memset(params, 0, sizeof(params));
        kit_put32(params, 16, ce->space);
        if (!took("range", kit_rm_alloc(&ce->rm, KIT_DEVICE, ce->dma, CLASS_RANGE, params, 24)))
                return false;
        bell = ce_handle(ce);
        memset(params, 0, sizeof(params));
        params[0] = 1; /* through BAR1, as libcuda's */
        if (!took("doorbell", kit_rm_alloc(&ce->rm, KIT_SUBDEVICE, bell, CLASS_DOORBELL, params, 2)))
                return false;
        ce->doorbell = view(ce, "doorbell map", bell, DOORBELL_BYTES, false, MAP_WRITE);
        return ce->doorbell;
}

static bool channel_memory(struct ce_channel *channel, uint32_t *ret_userd, uint32_t *ret_error)
{
        struct ce *ce = channel->ce;
        uint32_t object = host_object(ce, OBJECT_BYTES, 0);
        char *host;

        *ret_error = host_object(ce, USERD_BYTES, TYPE_NOTIFIER);
        *ret_userd = ce_video(ce, 2 * MIB);
        if (!object || !*ret_error || !*ret_userd)
                return false;
        host = view(ce, "ring map", object, OBJECT_BYTES, true, MAP_BOTH);
        channel->userd = view(ce, "userd map", *ret_userd, USERD_BYTES, false, MAP_BOTH);
        channel->at = ce_map(ce, object, OBJECT_BYTES, true);
        if (!host || !channel->userd || !channel->at)
                return false;
        memset(host, 0, OBJECT_BYTES);
        for (int i = 0; i < USERD_BYTES / 8; i++) /* 512 bytes are the channel's */
                channel->userd[i] = 0;
        channel->ring = (uint64_t *)(void *)host;
        channel->words = (uint32_t *)(void *)(host + WORDS_AT);
        channel->done = (volatile uint32_t *)(void *)(host + DONE_AT);
        return true;
}

bool ce_channel_open(struct ce *ce, uint32_t engine, struct ce_channel *channel)
{
        unsigned char params[368] = { 0 };
        uint32_t userd, error, copy;

        *channel = (struct ce_channel){ .ce = ce, .engine = engine };
        channel->group = ce_handle(ce);
        kit_put32(params, 8, ce->space);
        kit_put32(params, 12, engine);
        if (!took("group", kit_rm_alloc(&ce->rm, KIT_DEVICE, channel->group, CLASS_GROUP, params, 20)))
                return false;
        if (!channel_memory(channel, &userd, &error))
                return false;
        channel->handle = ce_handle(ce);
        memset(params, 0, sizeof(params));
        kit_put32(params, 0, error);
        kit_put64(params, 8, channel->at);
        kit_put32(params, 16, ENTRIES);
        kit_put32(params, 32, userd);
        if (!took("channel", kit_rm_alloc(&ce->rm, channel->group, channel->handle, CLASS_CHANNEL, params, 368)))
                return false;
        copy = ce_handle(ce);
        memset(params, 0, sizeof(params));
        kit_put32(params, 0, 1); /* version: what follows is the engine */
        kit_put32(params, 4, engine);
        if (!took("copy object", kit_rm_alloc(&ce->rm, channel->handle, copy, CLASS_COPY, params, 8)))
                return false;
        memset(params, 0, sizeof(params));
        if (!took("token", kit_rm_control(&ce->rm, channel->handle, (uint32_t)GET_TOKEN, params, 4)))
                return false;
        channel->token = kit_get32(params, 0);
        memset(params, 0, sizeof(params));
        params[0] = 1;
        return took("schedule", kit_rm_control(&ce->rm, channel->group, (uint32_t)SCHEDULE, params, 3));
}

void ce_channel_close(struct ce_channel *channel)
{
        if (channel->group)
                ce_free(channel->ce, channel->group);
        channel->group = 0;
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

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
static size_t copy_words(const struct ce_channel *channel, uint32_t *words, uint64_t to, uint64_t from, uint64_t bytes)
{
        size_t n = 0;

        n = method(words, n, 0x000, 1);
        words[n++] = CLASS_COPY;
        n = method64(words, n, 0x400, from);
        n = method64(words, n, 0x408, to);
        n = method(words, n, 0x418, 1);
        words[n++] = (uint32_t)bytes;
        n = method64(words, n, 0x240, channel->at + DONE_AT);
        n = method(words, n, 0x248, 1);
        words[n++] = channel->n;
        n = method(words, n, 0x300, 1);
        /* not pipelined with the one before, flush, release one word, both sides are lines, no compressed data */
        words[n++] = 2 | 1u << 2 | 1u << 3 | 1u << 7 | 1u << 8 | 1u << 26;
        return n;
}

bool ce_copy(struct ce_channel *channel, uint64_t to, uint64_t from, uint64_t bytes)
{
        double until = ce_now() + 5;
        uint32_t *words = channel->words + channel->entry * ENTRY_WORDS;
        uint64_t at = channel->at + WORDS_AT + channel->entry * ENTRY_WORDS * 4;
        size_t n;

        while (channel->n - *channel->done >= ENTRIES - 2)
                if (ce_now() > until)
                        return false;
        channel->n++;
        n = copy_words(channel, words, to, from, bytes);
        channel->ring[channel->entry] = at | (uint64_t)n << (10 + 32);
        channel->entry = (channel->entry + 1) % ENTRIES;
        __sync_synchronize();
        channel->userd[USERD_PUT] = channel->entry;
        __sync_synchronize();
        (void)channel->userd[USERD_PUT]; /* it has arrived before the bell rings */
        channel->ce->doorbell[DOORBELL_AT] = channel->token;
        return true;
}

bool ce_wait(struct ce_channel *channel, double seconds)
{
        double until = ce_now() + seconds;

        while (*channel->done != channel->n)
                if (ce_now() > until)
                        return false;
        __sync_synchronize();
        return true;
}

int64_t ce_free_kib(struct ce *ce)
{
        unsigned char params[FB_INFO_SIZE] = { 0 };

        kit_put32(params, 0, 1);
        kit_put32(params, 4, FB_HEAP_FREE);
        if (!kit_ok(kit_rm_control(&ce->rm, KIT_SUBDEVICE, FB_INFO, params, sizeof(params))))
                return -1;
        return kit_get32(params, 8);
}
