/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a tenant's command under the filter; see spawn.h. */
#include "run/spawn.h"
#include "run/run.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/process.h"
#include "gate/policy/filter.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
        TRIES = 500, /* to end what is left */
        TRY_MS = 10,
};

/* The default capabilities of a container (Docker's and containerd's list), without CAP_MKNOD: without a device cgroup
 * a tenant could make a node of the driver's under another name. */
static bool is_kept(int capability)
{
        static const int kept[] = {
                CAP_CHOWN,      CAP_DAC_OVERRIDE, CAP_FSETID,      CAP_FOWNER,  CAP_NET_RAW,
                CAP_SETGID,     CAP_SETUID,       CAP_SETFCAP,     CAP_SETPCAP, CAP_NET_BIND_SERVICE,
                CAP_SYS_CHROOT, CAP_KILL,         CAP_AUDIT_WRITE,
        };

        for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
                if (kept[i] == capability)
                        return true;
        return false;
}

/* A root program gets its bounding set at exec. Other users have nothing to drop: EPERM is fine. */
void spawn_bound_capabilities(void)
{
        for (int capability = 0; capability <= CAP_LAST_CAP; capability++)
                if (!is_kept(capability))
                        (void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
        (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

_Noreturn void spawn_exec(char *const argv[], int tell)
{
        int error;

        (void)execvp(argv[0], argv);
        error = errno;
        (void)dprintf(STDERR_FILENO, "sublet: %s: %s\n", argv[0],
                      error == ENOENT ? "command not found" : strerror(error));
        if (tell >= 0)
                (void)send(tell, "", 1, MSG_NOSIGNAL);
        _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT);
}

/* In the child. */
_Noreturn static void become_tenant(char *const argv[], const struct sock_fprog *filter, int death_signal, int socket)
{
        sigset_t none;
        int listener;

        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        spawn_bound_capabilities();
        if (death_signal)
                (void)prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0);
        listener = filter_install(filter);
        if (listener < 0) {
                (void)dprintf(STDERR_FILENO, "sublet: the filter cannot be installed: %s\n",
                              listener == -EBUSY ? "this process is already a tenant" : strerror(-listener));
                _exit(EXIT_CANNOT);
        }
        if (message_send(socket, message_new("listener"), &listener, 1) != MESSAGE_OK)
                _exit(EXIT_CANNOT);
        (void)close(listener);
        spawn_exec(argv, socket); /* which closes the socket */
}

int spawn_tenant(char *const argv[], const struct sock_fprog *filter, int death_signal, struct spawned *ret,
                 int *ret_code, struct err *err)
{
        _cleanup_(closep) int ours = -1;
        _cleanup_(closep) int theirs = -1;
        _cleanup_(message_done) struct message message = { 0 };
        int sockets[2], status, r;
        pid_t child;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return err_set(err, -errno, "starting %s", argv[0]);
        ours = sockets[0];
        theirs = sockets[1];
        if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return err_set(err, -errno, "becoming the reaper of the tenant");
        child = fork();
        if (child < 0)
                return err_set(err, -errno, "starting %s", argv[0]);
        if (child == 0)
                become_tenant(argv, filter, death_signal, sockets[1]);
        closep(&theirs);
        r = message_receive(ours, &message);
        if (r == MESSAGE_E_CLOSED) { /* it has printed why, or was killed */
                (void)waitpid(child, &status, 0);
                *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                return SPAWN_E_ENDED;
        }
        if (r != MESSAGE_OK) {
                (void)kill(child, SIGKILL);
                (void)waitpid(child, &status, 0);
                return err_set(err, r < 0 ? r : -EPROTO, "supervising %s", argv[0]);
        }
        *ret = (struct spawned){ child, message_take_fd(&message, 0), ours };
        ours = -1;
        return 0;
}

static void kill_children(void)
{
        struct dirent *entry;
        DIR *dir = opendir("/proc");

        while (dir && (entry = readdir(dir))) {
                pid_t process = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;

                if (process && process_parent(process) == getpid())
                        (void)kill(process, SIGKILL);
        }
        if (dir)
                (void)closedir(dir);
}

void spawn_end_all(void)
{
        for (int i = 0; i < TRIES; i++) {
                pid_t ended;

                while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
                        ;
                if (ended < 0)
                        return; /* ECHILD: none is left */
                kill_children();
                (void)poll(NULL, 0, TRY_MS);
        }
}
