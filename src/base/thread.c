/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

enum {
        STACK = 128 * 1024, /* also for a sanitizer */
};

static int start_with(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *context), void *context)
{
        sigset_t all, old;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(ret, attributes, run, context);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        return -r;
}

int thread_start(pthread_t *ret, void *(*run)(void *context), void *context)
{
        return start_with(ret, NULL, run, context);
}

int thread_start_alone(void *(*run)(void *context), void *context)
{
        pthread_attr_t attributes;
        pthread_t thread;
        int r;

        (void)pthread_attr_init(&attributes);
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void)pthread_attr_setstacksize(&attributes, STACK);
        r = start_with(&thread, &attributes, run, context);
        (void)pthread_attr_destroy(&attributes);
        return r;
}
