/* SPDX-License-Identifier: Apache-2.0 */
/* What a shim gives up and withstands before it serves anybody. */
#include "shim/harden.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OOM_SCORE "-900"

/* A service manager signals all processes at a stop, but a shim lasts as long as its tenant. A broken stderr is no
 * reason to end either. */
static void ignore_signals(void)
{
        static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM };

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                (void)signal(numbers[i], SIG_IGN);
}

/* Keeps what it takes to read a tenant of any user and to end it. The permitted set stays, see gate/listen.c. */
static void drop_capabilities(void)
{
        static const unsigned int kept[] = { CAP_SYS_PTRACE, CAP_KILL, CAP_DAC_READ_SEARCH };
        struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };
        uint32_t effective = 0;

        if (syscall(SYS_capget, &header, data) < 0)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
                effective |= CAP_TO_MASK(kept[i]);
        data[0].effective = data[0].permitted & effective;
        data[1].effective = 0;
        data[0].inheritable = data[1].inheritable = 0;
        (void)syscall(SYS_capset, &header, data);
}

/* When memory runs out, the tenant goes first: without its shim it would be lost anyway. */
static void keep_from_oom(void)
{
        _cleanup_(closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

        if (fd >= 0)
                (void)!write(fd, OOM_SCORE, strlen(OOM_SCORE));
}

void shim_harden(void)
{
        (void)prctl(PR_SET_NAME, "keeper");
        ignore_signals();
        keep_from_oom();
        drop_capabilities();
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}
