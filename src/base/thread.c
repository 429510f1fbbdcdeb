/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret, void *(*run)(void *context), void *context)
{
        sigset_t all, old;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(ret, NULL, run, context);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        return -r;
}
