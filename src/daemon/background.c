/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/background.h"

#include "base/cleanup.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

int background_start(struct background *background, struct loop *loop, void *(*run)(void *context),
                     void (*ready)(struct loop_source *source, uint32_t events), void *context)
{
        int r;

        if (pipe2(background->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        background->loop = loop;
        background->source = (struct loop_source){ .fd = background->pipe[0], .ready = ready, .context = context };
        r = loop_add(loop, &background->source, EPOLLIN);
        if (r == 0 && (r = thread_start(&background->thread, run, context)) < 0)
                background->thread = 0;
        if (r < 0)
                background_stop(background);
        return r;
}

void background_stop(struct background *background)
{
        if (!background->loop)
                return;
        background->is_ending = true;
        if (background->thread)
                (void)pthread_join(background->thread, NULL);
        loop_drop(background->loop, &background->source);
        closep(&background->pipe[0]);
        closep(&background->pipe[1]);
        background->loop = NULL;
}
