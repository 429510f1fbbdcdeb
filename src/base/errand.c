/* SPDX-License-Identifier: Apache-2.0 */
#include "base/errand.h"

#include "base/cleanup.h"
#include "base/thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
        LEFT_MAX = 16,
        LONGEST = 10, /* times its patience */
        LOOKS = 8,    /* at the thread, while its patience lasts */
};

struct errand {
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        void (*work)(void *context);
        void *context;
        pid_t thread; /* 0: it has not begun */
        bool is_over, is_left;
};

static atomic_uint n_left; /* behind, of this process */

static void errand_free(struct errand *errand)
{
        (void)pthread_cond_destroy(&errand->changed);
        (void)pthread_mutex_destroy(&errand->mutex);
        free(errand);
}

static void *errand_do(void *context)
{
        struct errand *errand = context;
        bool is_left;

        (void)pthread_mutex_lock(&errand->mutex);
        errand->thread = gettid();
        (void)pthread_mutex_unlock(&errand->mutex);
        errand->work(errand->context);
        (void)pthread_mutex_lock(&errand->mutex);
        errand->is_over = true;
        is_left = errand->is_left;
        (void)pthread_cond_signal(&errand->changed);
        (void)pthread_mutex_unlock(&errand->mutex);
        if (is_left) { /* else it is who waits that frees it */
                free(errand->context);
                errand_free(errand);
                n_left--;
        }
        return NULL;
}

static size_t text_read(pid_t thread, const char *file, char *text, size_t size)
{
        _cleanup_(closep) int fd = -1;
        char path[64];
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/self/task/%d/%s", thread, file);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? 0 : read(fd, text, size - 1);
        text[n < 0 ? 0 : n] = '\0';
        return n < 0 ? 0 : (size_t)n;
}

/* Whether the thread is on a processor, or waits for one, or has had one since it was last looked at. Source: proc(5);
 * schedstat is the time on a processor, the time in the queue for it, both in ns. */
static bool is_going_on(pid_t thread, uint64_t *spent)
{
        char text[256];
        const char *at;
        uint64_t before = *spent;

        if (!thread)
                return true; /* it lacks a processor to begin with */
        if (text_read(thread, "schedstat", text, sizeof(text)))
                *spent = strtoull(text, NULL, 10);
        if (*spent != before)
                return true;
        (void)text_read(thread, "stat", text, sizeof(text));
        at = strrchr(text, ')');
        return at && at[1] == ' ' && at[2] == 'R';
}

static struct timespec time_after(nsec span)
{
        nsec at = clock_now() + span; /* of CLOCK_MONOTONIC, which the condition has */

        return (struct timespec){ .tv_sec = (time_t)(at / NSEC_PER_SEC), .tv_nsec = (long)(at % NSEC_PER_SEC) };
}

/* The mutex is held. */
static void errand_await(struct errand *errand, nsec patience)
{
        nsec since = clock_now(), went_on = since;
        uint64_t spent = 0;

        while (!errand->is_over) {
                struct timespec until = time_after(patience / LOOKS);
                nsec now;

                (void)pthread_cond_timedwait(&errand->changed, &errand->mutex, &until);
                now = clock_now();
                if (is_going_on(errand->thread, &spent))
                        went_on = now;
                if (now - went_on >= patience || now - since >= LONGEST * patience)
                        return;
        }
}

static struct errand *errand_new(void (*work)(void *context), void *context)
{
        struct errand *errand = calloc(1, sizeof(*errand));
        pthread_condattr_t attributes;

        if (!errand)
                return NULL;
        errand->work = work;
        errand->context = context;
        (void)pthread_mutex_init(&errand->mutex, NULL);
        (void)pthread_condattr_init(&attributes);
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&errand->changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
        return errand;
}

int errand_run(void (*work)(void *context), void *context, nsec patience)
{
        struct errand *errand = n_left < LEFT_MAX ? errand_new(work, context) : NULL;

        if (!errand || thread_start_alone(errand_do, errand) < 0) {
                if (errand)
                        errand_free(errand);
                free(context);
                return ERRAND_E_LATE;
        }
        (void)pthread_mutex_lock(&errand->mutex);
        errand_await(errand, patience);
        errand->is_left = !errand->is_over;
        if (errand->is_left) {
                n_left++; /* before the thread can count itself out */
                (void)pthread_mutex_unlock(&errand->mutex);
                return ERRAND_E_LATE;
        }
        (void)pthread_mutex_unlock(&errand->mutex);
        errand_free(errand);
        return ERRAND_DONE;
}
