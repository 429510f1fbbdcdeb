#include "gate/again.h"

#include "base/cleanup.h"
#include "gate/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

void again_init(struct again *again)
{
        (void)pthread_mutex_init(&again->mutex, NULL);
        (void)pthread_cond_init(&again->ended, NULL);
}

void again_done(struct again *again)
{
        (void)pthread_cond_destroy(&again->ended);
        (void)pthread_mutex_destroy(&again->mutex);
}

/* When the thread began, in ticks since boot; 0: it is gone. Source: proc(5), field 22 of stat. */
static uint64_t since_of(uint32_t thread)
{
        _cleanup_(closep) int fd = -1;
        char path[64], text[1024];
        const char *at;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%u/stat", thread);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        at = strrchr(text, ')'); /* the name may hold anything; two fields later they begin to be numbers */
        for (int field = 2; at && field < 22; field++)
                at = strchr(at + 1, ' ');
        return at ? strtoull(at, NULL, 10) : 0;
}

static struct again_answer *place_of(struct again *again, uint32_t thread)
{
        return &again->answers[thread % AGAIN_PLACES];
}

static void put(struct again *again, const struct again_answer *answer)
{
        struct again_answer *place = place_of(again, answer->thread);

        (void)pthread_mutex_lock(&again->mutex);
        again->n += !place->thread;
        *place = *answer;
        (void)pthread_mutex_unlock(&again->mutex);
}

void again_keep(struct again *again, const struct seccomp_notif *notification, int64_t value)
{
        struct again_answer answer = { .thread = notification->pid,
                                       .since = since_of(notification->pid),
                                       .call = notification->data,
                                       .value = value };

        if (answer.since)
                put(again, &answer);
}

void again_keep_delivered(struct again *again, const struct seccomp_notif *notification, int64_t value,
                          const struct again_block *block)
{
        struct again_answer answer = { .thread = notification->pid,
                                       .call = notification->data,
                                       .value = value,
                                       .delivered = clock_now(),
                                       .block_at = block->at,
                                       .block_size = block->size };

        if (!block->size)
                return;
        memcpy(answer.block, block->ours, block->size);
        put(again, &answer);
}

static bool has_not_heard(const struct again_answer *answer)
{
        uint8_t block[AGAIN_BLOCK];

        if (!answer->delivered)
                return since_of(answer->thread) == answer->since;
        return clock_now() - answer->delivered < AGAIN_SECONDS * NSEC_PER_SEC &&
               remote_read((pid_t)answer->thread, block, answer->block_at, answer->block_size) == 0 &&
               memcmp(block, answer->block, answer->block_size) == 0;
}

/* The mutex is held. */
static bool is_served(const struct again *again, uint32_t thread)
{
        for (const struct again_call *call = again->calls; call; call = call->next)
                if (call->thread == thread)
                        return true;
        return false;
}

bool again_waits(struct again *again, const struct seccomp_notif *notification)
{
        bool waits;

        (void)pthread_mutex_lock(&again->mutex);
        waits = is_served(again, notification->pid);
        (void)pthread_mutex_unlock(&again->mutex);
        return waits;
}

/* The mutex is held. */
static struct again_answer take(struct again *again, uint32_t thread)
{
        struct again_answer *place = place_of(again, thread), answer = { 0 };

        if (!again->n || place->thread != thread)
                return answer;
        answer = *place;
        *place = (struct again_answer){ 0 };
        again->n--;
        return answer;
}

bool again_begin(struct again *again, struct again_call *call, const struct seccomp_notif *notification, int listener,
                 int64_t *ret_value)
{
        struct again_answer answer = { 0 };
        uint64_t id = notification->id;
        bool is_void;

        (void)pthread_mutex_lock(&again->mutex);
        while (is_served(again, notification->pid))
                (void)pthread_cond_wait(&again->ended, &again->mutex);
        *call = (struct again_call){ again->calls, notification->pid };
        again->calls = call;
        is_void = listener >= 0 && ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0;
        if (!is_void)
                answer = take(again, notification->pid);
        (void)pthread_mutex_unlock(&again->mutex);
        if (is_void) {
                *ret_value = -EINTR;
                return true;
        }
        if (!answer.thread || memcmp(&answer.call, &notification->data, sizeof(answer.call)) != 0 ||
            !has_not_heard(&answer))
                return false;
        *ret_value = answer.value;
        return true;
}

void again_end(struct again *again, struct again_call *call)
{
        struct again_call **at = &again->calls;

        (void)pthread_mutex_lock(&again->mutex);
        while (*at != call)
                at = &(*at)->next;
        *at = call->next;
        (void)pthread_cond_broadcast(&again->ended);
        (void)pthread_mutex_unlock(&again->mutex);
}
