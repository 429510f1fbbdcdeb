/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules are written with libseccomp, which knows the system-call tables, and compiled to a program that we load
 * ourselves: libseccomp 2.5 cannot ask for WAIT_KILLABLE_RECV, without which a signal would make the kernel restart a
 * call that the gate has already performed.
 */
#include "gate/policy/filter.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/caught.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Linux 5.19; Debian 12's headers have it, older ones do not. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static void seccomp_releasep(scmp_filter_ctx *context)
{
        if (*context)
                seccomp_release(*context);
}

/* F1, F2 */
static int add_requests(scmp_filter_ctx context)
{
        struct caught caught[CAUGHT_MAX];
        size_t n = caught_requests(caught);
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                r = seccomp_rule_add(context, SCMP_ACT_NOTIFY, SCMP_SYS(ioctl), 1,
                                     SCMP_A1(SCMP_CMP_MASKED_EQ, caught[i].mask, caught[i].value));
        return r;
}

/* F3 */
static int add_mmap(scmp_filter_ctx context)
{
        int r = seccomp_rule_add(context, SCMP_ACT_NOTIFY, SCMP_SYS(mmap), 2,
                                 SCMP_A3(SCMP_CMP_MASKED_EQ, CAUGHT_MMAP_MASK, CAUGHT_MMAP_FLAGS),
                                 SCMP_A5(SCMP_CMP_GE, CAUGHT_MMAP_OFFSET, 0));

        return r < 0 ? r : seccomp_rule_add(context, SCMP_ACT_NOTIFY, SCMP_SYS(remap_file_pages), 0);
}

/* F4. Refused without asking: a CUDA process has no use for them. */
static int build_foreign(scmp_filter_ctx *ret)
{
        _cleanup_(seccomp_releasep) scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
        int r;

        if (!context)
                return -ENOMEM;
        if ((r = seccomp_arch_remove(context, SCMP_ARCH_NATIVE)) < 0 ||
            (r = seccomp_arch_add(context, SCMP_ARCH_X86)) < 0 || (r = seccomp_arch_add(context, SCMP_ARCH_X32)) < 0 ||
            (r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 0)) < 0 ||
            (r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 0)) < 0 ||
            (r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(remap_file_pages), 0)) < 0)
                return r;
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap2), 1,
                             SCMP_A3(SCMP_CMP_MASKED_EQ, CAUGHT_MMAP_MASK, CAUGHT_MMAP_FLAGS));
        if (r < 0)
                return r;
        *ret = TAKE(context);
        return 0;
}

int filter_export(scmp_filter_ctx context, struct sock_fprog *ret)
{
        _cleanup_(closep) int fd = memfd_create("sublet-filter", MFD_CLOEXEC);
        _cleanup_(freep) struct sock_filter *code = NULL;
        struct stat st;
        int r;

        if (fd < 0)
                return -errno;
        r = seccomp_export_bpf(context, fd);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return -errno;
        if ((size_t)st.st_size / sizeof(*code) > BPF_MAXINSNS)
                return -E2BIG;
        code = malloc((size_t)st.st_size);
        if (!code)
                return -ENOMEM;
        if (pread(fd, code, (size_t)st.st_size, 0) != st.st_size)
                return -EIO;
        *ret = (struct sock_fprog){ .len = (unsigned short)((size_t)st.st_size / sizeof(*code)), .filter = TAKE(code) };
        return 0;
}

int filter_build(struct sock_fprog *ret)
{
        _cleanup_(seccomp_releasep) scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
        scmp_filter_ctx foreign;
        int r;

        if (!context)
                return -ENOMEM;
        if ((r = add_requests(context)) < 0 || (r = add_mmap(context)) < 0)
                return r;
        r = build_foreign(&foreign);
        if (r < 0)
                return r;
        r = seccomp_merge(context, foreign); /* takes `foreign` on success */
        if (r < 0) {
                seccomp_release(foreign);
                return r;
        }
        return filter_export(context, ret);
}

int filter_install(const struct sock_fprog *program)
{
        long fd;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                     SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, program);
        return fd < 0 ? -errno : (int)fd;
}

/* The kernel checks the flags before it reads the program: EFAULT means that it knows them. */
int filter_check(struct err *err)
{
        unsigned int action = SECCOMP_RET_USER_NOTIF;
        long r;

        if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0)
                return err_say(err, -errno,
                               "this kernel has no seccomp user notification (Linux 5.0 or later has, "
                               "unless a container runtime forbids it)");
        r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                    SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, NULL);
        if (r < 0 && errno == EINVAL)
                return err_say(err, -ENOSYS,
                               "this kernel cannot keep a signal from restarting a supervised call: "
                               "Linux 5.19 or later is needed");
        return 0;
}
