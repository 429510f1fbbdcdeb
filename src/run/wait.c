/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of `sublet run`: those that it passes on, and SIGCHLD for its command's end. */
#include "run/run.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* SIGPIPE, too: a broken stderr must not end us. */
int run_watch_signals(void)
{
        sigset_t set;

        (void)sigfillset(&set);
        (void)sigdelset(&set, SIGSEGV);
        (void)sigdelset(&set, SIGBUS);
        (void)sigdelset(&set, SIGFPE);
        (void)sigdelset(&set, SIGILL);
        (void)sigdelset(&set, SIGABRT);
        (void)sigdelset(&set, SIGURG);
        if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
                return -errno;
        return signalfd(-1, &set, SFD_CLOEXEC);
}

/* The terminal signals the whole foreground group, so the command has those signals already; others signal only us. */
static void pass_on(pid_t child, const struct signalfd_siginfo *info)
{
        if (info->ssi_code == SI_KERNEL || info->ssi_signo == SIGPIPE || info->ssi_signo == SIGCONT ||
            info->ssi_signo == SIGWINCH)
                return;
        (void)kill(child, (int)info->ssi_signo);
}

static bool reap(pid_t child, int *ret_code)
{
        bool has_ended = false;
        int status;
        pid_t ended;

        while ((ended = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
                if (ended != child)
                        continue;
                if (WIFSTOPPED(status)) {
                        (void)raise(SIGSTOP); /* so that the shell gets its prompt back */
                        continue;
                }
                has_ended = true;
                *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        return has_ended;
}

/* Somebody wants the command to end. */
static bool is_to_end(uint32_t signal)
{
        return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

bool run_take_signal(struct run *run, int signals, int *ret_code)
{
        struct signalfd_siginfo info;

        if (read(signals, &info, sizeof(info)) != sizeof(info))
                return false;
        if (info.ssi_signo == SIGCHLD)
                return reap(run->child, ret_code);
        run->is_told_to_end |= is_to_end(info.ssi_signo);
        pass_on(run->child, &info);
        return false;
}
