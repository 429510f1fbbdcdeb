/*
 * The rules are written with libseccomp, which knows the system-call tables, and compiled to a
 * program that we load ourselves: libseccomp 2.5 cannot ask for WAIT_KILLABLE_RECV, without which a
 * signal would make the kernel restart a call that the gate has already performed.
 */
#include "gate/filter.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "rm/call.h"
#include "rm/numbers.h"

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

enum {
        NR_AND_SIZE = 0x3fff00ff, /* F1: what of a request the driver looks at */
        CARDS_MAX = 32,
        UVM_FREE_WITHOUT_LENGTH = 16,
};

static void seccomp_releasep(scmp_filter_ctx *context)
{
        if (*context)
                seccomp_release(*context);
}

static int notify(scmp_filter_ctx context, uint32_t mask, uint32_t value)
{
        int r = seccomp_rule_add(context, SCMP_ACT_NOTIFY, SCMP_SYS(ioctl), 1,
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, mask, value));

        return r == -EEXIST ? 0 : r;
}

/* F1. A row without a size takes any number of 72-byte elements. */
static int notify_row(scmp_filter_ctx context, uint32_t nr, uint32_t size)
{
        int r = 0;

        if (size == RM_ABSENT)
                return 0;
        if (size)
                return notify(context, NR_AND_SIZE, size << 16 | nr);
        for (uint32_t n = 1; n <= CARDS_MAX && !r; n++)
                r = notify(context, NR_AND_SIZE, (n * 72) << 16 | nr);
        return r;
}

static int add_requests(scmp_filter_ctx context, const struct rm_layout *layout)
{
        int r;

#define REQUEST(kind, node, nr, size, status, fd, client, meaning)                                                     \
        if (RM_NODE_##node == RM_NODE_CTL) {                                                                           \
                r = notify_row(context, nr, size);                                                                     \
                if (r < 0)                                                                                             \
                        return r;                                                                                      \
        }
#include "rm/requests.def"
#undef REQUEST
        return 0;
}

/* F1, for what no row names: a request of type 'F', the driver's own, with another number or size,
 * is worth an answer and a line in the log. One whose type is another's is the other's. */
static int add_unknown(scmp_filter_ctx context)
{
        int r = 0;

        for (uint32_t high = 0x20; high <= 0xe0 && !r; high += 0x20)
                r = notify(context, 0xffe0u, (uint32_t)'F' << 8 | high);
        return r;
}

/* F2: 4 to 127, known or not, and the two large numbers. 1 to 3 are other people's (FIBMAP,
 * FIGETBSZ) and no longer UVM's in any release that we know. UVM_CREATE_EXTERNAL takes nothing and
 * need not be seen where UVM_FREE tells a range's length (up to 580): one notification less for
 * every allocation. */
static int add_uvm(scmp_filter_ctx context, const struct rm_layout *layout)
{
        static const struct {
                uint32_t first, n; /* n is a power of two, first a multiple of it */
        } spans[] = { { 4, 4 },  { 8, 8 },  { 16, 16 }, { 32, 32 }, { 64, 8 }, { 72, 1 },
                      { 73, 1 }, { 74, 2 }, { 76, 4 },  { 80, 16 }, { 96, 32 } };
        int r = notify(context, 0xfffffffcu, UVM_INITIALIZE & ~3u);

        for (size_t i = 0; i < ARRAY_SIZE(spans) && !r; i++)
                if (spans[i].first != UVM_CREATE_EXTERNAL || layout->uvm_free_size == UVM_FREE_WITHOUT_LENGTH)
                        r = notify(context, ~(spans[i].n - 1), spans[i].first);
        return r;
}

/* F3. MAP_ANONYMOUS has no file; offset 0 can be no UVM range, as address 0 is none. */
static int add_mmap(scmp_filter_ctx context)
{
        return seccomp_rule_add(context, SCMP_ACT_NOTIFY, SCMP_SYS(mmap), 2,
                                SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED),
                                SCMP_A5(SCMP_CMP_GE, 4096, 0));
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
            (r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 0)) < 0)
                return r;
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap2), 1,
                             SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED));
        if (r < 0)
                return r;
        *ret = TAKE(context);
        return 0;
}

/* libseccomp writes programs to descriptors only. */
static int export(scmp_filter_ctx context, struct sock_fprog *ret)
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
        code = malloc((size_t)st.st_size);
        if (!code)
                return -ENOMEM;
        if (pread(fd, code, (size_t)st.st_size, 0) != st.st_size)
                return -EIO;
        *ret = (struct sock_fprog){ .len = (unsigned short)((size_t)st.st_size / sizeof(*code)), .filter = TAKE(code) };
        return 0;
}

int filter_build(const struct rm_layout *layout, struct sock_fprog *ret)
{
        _cleanup_(seccomp_releasep) scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
        scmp_filter_ctx foreign;
        int r;

        if (!context)
                return -ENOMEM;
        if ((r = add_requests(context, layout)) < 0 || (r = add_unknown(context)) < 0 ||
            (r = add_uvm(context, layout)) < 0 || (r = add_mmap(context)) < 0)
                return r;
        r = build_foreign(&foreign);
        if (r < 0)
                return r;
        r = seccomp_merge(context, foreign); /* takes `foreign` on success */
        if (r < 0) {
                seccomp_release(foreign);
                return r;
        }
        return export(context, ret);
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
