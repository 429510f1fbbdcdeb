/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel, for `sublet doctor`: whether a child can be supervised as `sublet run` does it. A child installs a filter
 * with a listener, and this process reads the child as a gate would.
 */
#include "doctor/inside.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/filter.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/* Linux 6.6; Debian 12's headers do not have it. Source: include/uapi/linux/seccomp.h. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS _IOW('!', 4, __u64)
#endif

/* What a child under a listener reports, and what worked on it; errno values. */
struct child_trial {
        int listener, wake_up;
        int memory, descriptor, file;
};

/* In the child: a filter that allows all calls, for the sake of its listener. */
_Noreturn static void child_run(int socket)
{
        struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
        struct sock_fprog program = { 1, &allow };
        int errors[2] = { 0 };
        int listener = filter_install(&program);
        __u64 flags = 1; /* SYNC_WAKE_UP */
        char byte;

        errors[0] = listener < 0 ? -listener : 0;
        if (listener >= 0 && ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags) < 0)
                errors[1] = errno;
        if (write(socket, errors, sizeof(errors)) == sizeof(errors))
                (void)read(socket, &byte, 1); /* until the parent is done */
        _exit(0);
}

static int error_of(long r)
{
        return r < 0 ? errno : 0;
}

/* As the gate reads a tenant (gate/state/process.c, gate/state/files.c). */
static void child_inspect(pid_t child, int fd, struct child_trial *ret)
{
        static const char word[] = "sublet";
        char copy[sizeof(word)];
        struct iovec here = { copy, sizeof(copy) }, there = { (void *)(uintptr_t)word, sizeof(word) };
        _cleanup_(closep) int pidfd = pidfd_open(child, 0);
        _cleanup_(closep) int theirs = -1;

        ret->memory = error_of(process_vm_readv(child, &here, 1, &there, 1, 0));
        theirs = pidfd < 0 ? -1 : pidfd_getfd(pidfd, fd, 0);
        ret->descriptor = error_of(theirs);
        ret->file = error_of(syscall(SYS_kcmp, getpid(), child, 0 /* KCMP_FILE */, fd, fd));
}

static int child_try(struct child_trial *ret)
{
        int sockets[2], errors[2];
        pid_t child;
        bool has_come;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
                return -errno;
        child = fork();
        if (child == 0) {
                (void)close(sockets[0]);
                child_run(sockets[1]);
        }
        has_come = child > 0 && close(sockets[1]) == 0 &&
                   recv(sockets[0], errors, sizeof(errors), MSG_WAITALL) == sizeof(errors);
        if (has_come) {
                *ret = (struct child_trial){ .listener = errors[0], .wake_up = errors[1] };
                child_inspect(child, sockets[1], ret); /* this number is open in the child */
        }
        (void)close(sockets[0]);
        if (child > 0)
                (void)waitpid(child, NULL, 0);
        return has_come ? 0 : -ECHILD;
}

static void check_seccomp(struct findings *findings)
{
        struct err err = { 0 };
        int r = filter_check(&err);

        if (r == 0)
                findings_put(findings, "seccomp", FINDING_OK, "user notification, and WAIT_KILLABLE_RECV (5.19)");
        else
                findings_gap(findings, "seccomp", FINDING_MISSING,
                             r == -ENOSYS ? "run Linux 5.19 or later" : "run Linux 5.19 or later, outside of a sandbox",
                             "%s", err.text);
}

static bool has_capability(unsigned int capability)
{
        struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };

        return syscall(SYS_capget, &header, data) == 0 &&
               data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

void doctor_check_kernel(struct doctor *doctor)
{
        struct findings *findings = &doctor->findings;
        struct child_trial trial = { 0 };
        struct utsname name;
        char yama[16];
        int r;

        check_seccomp(findings);
        (void)doctor_read("/proc/sys/kernel/yama/ptrace_scope", yama, sizeof(yama));
        findings_judge_ptrace(findings, yama[0] ? atoi(yama) : -1, geteuid() == 0, has_capability(CAP_SYS_PTRACE));
        r = child_try(&trial);
        doctor->listener = r < 0 ? -1 : trial.listener;
        if (r < 0) {
                findings_put(findings, "listener", FINDING_MISSING, "cannot be tried on a child: %s", strerror(-r));
                return;
        }
        findings_judge_listener(findings, trial.listener);
        if (!trial.listener)
                findings_judge_wake_up(findings, trial.wake_up, uname(&name) ? "" : name.release);
        findings_judge_call(findings, "memory", "process_vm_readv of a child", trial.memory);
        findings_judge_call(findings, "descriptors", "pidfd_getfd of a child", trial.descriptor);
        findings_judge_call(findings, "files", "kcmp with a child", trial.file);
}
