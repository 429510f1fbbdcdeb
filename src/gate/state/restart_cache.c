/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/restart_cache.h"

#include "base/cleanup.h"
#include "gate/state/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

void restart_cache_init(struct restart_cache *cache)
{
        (void)pthread_mutex_init(&cache->mutex, NULL);
        (void)pthread_cond_init(&cache->ended, NULL);
}

void restart_cache_done(struct restart_cache *cache)
{
        (void)pthread_cond_destroy(&cache->ended);
        (void)pthread_mutex_destroy(&cache->mutex);
}

/* When the thread began, in ticks since boot; 0: it is gone. Source: proc(5), field 22 of stat. */
static uint64_t since_of(uint32_t thread)
{
        char text[1024];
        const char *at;

        if (process_text((pid_t)thread, "stat", text, sizeof(text)) <= 0)
                return 0;
        at = strrchr(text, ')'); /* the name may hold anything; two fields later they begin to be numbers */
        for (int field = 2; at && field < 22; field++)
                at = strchr(at + 1, ' ');
        return at ? strtoull(at, NULL, 10) : 0;
}

static struct restart_answer *slot_of(struct restart_cache *cache, uint32_t thread)
{
        return &cache->answers[thread % RESTART_SLOTS];
}

static void answer_put(struct restart_cache *cache, const struct restart_answer *answer)
{
        struct restart_answer *slot = slot_of(cache, answer->thread);

        (void)pthread_mutex_lock(&cache->mutex);
        cache->n += !slot->thread;
        *slot = *answer;
        (void)pthread_mutex_unlock(&cache->mutex);
}

static void block_keep(struct restart_answer *answer, const struct restart_block *block)
{
        answer->block_at = block->at;
        answer->block_size = block->size;
        if (block->size)
                memcpy(answer->block, block->ours, block->size);
}

void restart_cache_keep(struct restart_cache *cache, const struct seccomp_notif *notification, int64_t value,
                        const struct restart_block *block)
{
        struct restart_answer answer = { .thread = notification->pid,
                                         .since = since_of(notification->pid),
                                         .call = notification->data,
                                         .value = value };

        block_keep(&answer, block);
        if (answer.since)
                answer_put(cache, &answer);
}

void restart_cache_keep_delivered(struct restart_cache *cache, const struct seccomp_notif *notification, int64_t value,
                                  const struct restart_block *block, nsec since)
{
        struct restart_answer answer = { .thread = notification->pid,
                                         .call = notification->data,
                                         .value = value,
                                         .delivered = since ? since : clock_now() };

        block_keep(&answer, block);
        if (block->size)
                answer_put(cache, &answer);
}

static bool is_unheard(const struct restart_answer *answer)
{
        uint8_t block[RESTART_BLOCK];
        struct iovec ours = { block, answer->block_size };
        struct iovec theirs = { (void *)(uintptr_t)answer->block_at, answer->block_size };

        if (!answer->delivered)
                return since_of(answer->thread) == answer->since;
        return clock_now() - answer->delivered < RESTART_SECONDS * NSEC_PER_SEC &&
               process_read((pid_t)answer->thread, &ours, &theirs, 1) == 0 &&
               memcmp(block, answer->block, answer->block_size) == 0;
}

/* The mutex is held. */
static bool is_served(const struct restart_cache *cache, uint32_t thread)
{
        for (const struct restart_call *call = cache->calls; call; call = call->next)
                if (call->thread == thread)
                        return true;
        return false;
}

bool restart_cache_must_wait(struct restart_cache *cache, const struct seccomp_notif *notification)
{
        bool waits;

        (void)pthread_mutex_lock(&cache->mutex);
        waits = is_served(cache, notification->pid);
        (void)pthread_mutex_unlock(&cache->mutex);
        return waits;
}

/* The mutex is held. */
static struct restart_answer answer_take(struct restart_cache *cache, uint32_t thread)
{
        struct restart_answer *slot = slot_of(cache, thread), answer = { 0 };

        if (!cache->n || slot->thread != thread)
                return answer;
        answer = *slot;
        *slot = (struct restart_answer){ 0 };
        cache->n--;
        return answer;
}

bool restart_cache_begin(struct restart_cache *cache, struct restart_call *call,
                         const struct seccomp_notif *notification, int listener, int64_t *ret_value)
{
        struct restart_answer answer = { 0 };
        uint64_t id = notification->id;
        bool is_void;

        (void)pthread_mutex_lock(&cache->mutex);
        while (is_served(cache, notification->pid))
                (void)pthread_cond_wait(&cache->ended, &cache->mutex);
        *call = (struct restart_call){ .next = cache->calls, .thread = notification->pid };
        cache->calls = call;
        is_void = listener >= 0 && ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0;
        if (!is_void)
                answer = answer_take(cache, notification->pid);
        (void)pthread_mutex_unlock(&cache->mutex);
        if (is_void) {
                *ret_value = -EINTR;
                return true;
        }
        if (!answer.thread || memcmp(&answer.call, &notification->data, sizeof(answer.call)) != 0 ||
            !is_unheard(&answer))
                return false;
        memcpy(call->block, answer.block, answer.block_size);
        call->left = (struct restart_block){ answer.block_at, answer.block_size, call->block };
        call->delivered = answer.delivered;
        *ret_value = answer.value;
        return true;
}

void restart_cache_end(struct restart_cache *cache, struct restart_call *call)
{
        struct restart_call **at = &cache->calls;

        (void)pthread_mutex_lock(&cache->mutex);
        while (*at != call)
                at = &(*at)->next;
        *at = call->next;
        (void)pthread_cond_broadcast(&cache->ended);
        (void)pthread_mutex_unlock(&cache->mutex);
}
