/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.so - writes down what a process says to the NVIDIA driver.
 *
 *      gcc -O2 -shared -fPIC tools/record.c -o record.so -ldl
 *      SUBLET_RECORD=/tmp/t/smi LD_PRELOAD=$PWD/record.so nvidia-smi
 *
 * One file per process, PREFIX.PID; without SUBLET_RECORD nothing is written. A process that never
 * touches the driver leaves no file. The recorder only observes: it fails no call of its host, it
 * keeps errno, it never touches memory directly that the host named (a wild pointer is the
 * driver's to refuse), and it allocates nothing.
 *
 * Grammar. Lines end in \n, words are separated by one blank, in the order of the *ends* of calls:
 *
 *      process PID PPID EXE                    first in a file; again after an exec or a reopening
 *      open FD NODE ERRNO                      FD is -1 and ERRNO is not 0 when it failed
 *      have FD NODE                            FD was there before we looked (inherited, received)
 *      dup FD NEW
 *      close FD
 *      ioctl FD REQUEST SIZE RC ERRNO USEC [in=B] [out=B] [pin=B] [pout=B]
 *      mmap ADDR LEN PROT FLAGS FD OFF RET     RET is -ERRNO when it failed
 *      munmap ADDR LEN
 *      mark TEXT                               to the end of the line
 *
 * REQUEST, ADDR, LEN, PROT, FLAGS, OFF and a successful RET are hexadecimal without 0x; the rest
 * is decimal. SIZE is what was read at the argument: the size in the request for /dev/nvidiactl
 * and /dev/nvidiaN, a table's answer for /dev/nvidia-uvm (requests there carry none; 0: unknown).
 * USEC is the duration of the call.
 *
 * in, out: the argument block before and after the call. pin, pout: what the block points to, for
 * RM_ALLOC (0x2b) and RM_CONTROL (0x2a) the parameters, for XFER (0xd3) the inner block. out and
 * pout are left out when nothing changed; a word whose bytes cannot be read is left out, too.
 * At most 64 KiB of parameters are shown.
 *
 * B is bytes as hex pairs in memory order, where a run of N >= 4 zero bytes is "zN." with N in
 * decimal: "0100z14.ff" is 17 bytes.
 *
 * Every path under /dev/nvidia is shown when opened; calls, mappings, copies and closes only of
 * /dev/nvidiactl, /dev/nvidiaN, /dev/nvidia-uvm and -uvm-tools.
 *
 * A program marks its phases by calling sublet_record_mark(), found with dlsym(RTLD_DEFAULT, ...).
 *
 * How it stays safe:
 *  R1  An open file is the driver's when its device number is one of the driver's; that is asked
 *      each time, so descriptors may come from anywhere and go without our seeing it.
 *  R2  The output descriptor is used only if it still is our file: hosts close numbers they do
 *      not know and reuse them, and a fork has another file.
 *  R3  A line is one write() with O_APPEND; nothing is held across a call into the driver but a
 *      buffer out of a fixed pool. When the pool is empty the line goes without its bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HOOK __attribute__((visibility("default")))

enum {
        BLOCK_MAX = 16384, /* _IOC_SIZE has 14 bits */
        PARAMS_MAX = 65536,
        N_PADS = 64, /* calls in flight at once whose bytes we can keep */
        N_MAPS = 8192,
        N_FDS = 4096,
        RM_MAJOR = 195,   /* /dev/nvidiactl, /dev/nvidiaN; UVM's is dynamic */
        OUT_FD_MIN = 600, /* out of the way of hosts that expect low numbers */
};

/* ---- what the host would have called ------------------------------------------------------- */

static int (*next_ioctl)(int, unsigned long, ...);
static int (*next_open)(const char *, int, ...);
static int (*next_openat)(int, const char *, int, ...);
static int (*next_close)(int);
static int (*next_dup)(int);
static int (*next_dup2)(int, int);
static int (*next_dup3)(int, int, int);
static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_munmap)(void *, size_t);

/* Before the constructor ran (jemalloc maps early) the system call itself serves. */
#define NEXT(name, number, ...) (next_##name ? next_##name(__VA_ARGS__) : (int)syscall(number, __VA_ARGS__))

/* ---- the output ---------------------------------------------------------------------------- */

static char prefix[3072];
static atomic_bool recording;
static atomic_int out_fd = -1;
static atomic_bool said_process;
static atomic_uchar known[N_FDS / 8]; /* descriptors this file has introduced */

static bool same_file(int fd, const char *path)
{
        struct stat a, b;

        return fd >= 0 && fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* Our file, opened again if need be (R2). Negative: this event is lost. */
static int out_open(void)
{
        char path[sizeof(prefix) + 16];
        int fd = atomic_load(&out_fd), low;

        (void)snprintf(path, sizeof(path), "%s.%d", prefix, (int)getpid());
        if (same_file(fd, path))
                return fd;

        low = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (low < 0)
                return -1;
        fd = (int)syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, OUT_FD_MIN);
        if (fd < 0)
                fd = low; /* a small RLIMIT_NOFILE */
        else
                (void)syscall(SYS_close, low);
        atomic_store(&out_fd, fd);
        atomic_store(&said_process, false);
        return fd;
}

static void out_write(const char *text, size_t size)
{
        int fd = out_open();

        if (fd < 0)
                return;
        if (!atomic_exchange(&said_process, true)) {
                char exe[256], line[320];
                ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

                exe[n < 0 ? 0 : n] = 0;
                n = snprintf(line, sizeof(line), "process %d %d %s\n", (int)getpid(), (int)getppid(),
                             exe[0] ? exe : "?");
                (void)!syscall(SYS_write, fd, line, (size_t)n);
        }
        (void)!syscall(SYS_write, fd, text, size);
}

__attribute__((format(printf, 1, 2))) static void record(const char *format, ...)
{
        char line[512];
        va_list list;
        int n;

        va_start(list, format);
        n = vsnprintf(line, sizeof(line), format, list);
        va_end(list);
        if (n < 0)
                return;
        if ((size_t)n >= sizeof(line)) { /* a mark; the grammar needs its line end */
                n = sizeof(line) - 1;
                line[n - 1] = '\n';
        }
        out_write(line, (size_t)n);
}

/* ---- which descriptors are the driver's ------------------------------------------------------ */

static atomic_uint uvm_major;

static void find_uvm_major(void)
{
        char text[8192];
        char *at = text;
        size_t size = 0;
        ssize_t n;
        int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/devices", O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return;
        while (size < sizeof(text) - 1 && (n = syscall(SYS_read, fd, text + size, sizeof(text) - 1 - size)) > 0)
                size += (size_t)n;
        (void)syscall(SYS_close, fd);
        text[size] = 0;
        while (at && *at) {
                char name[64];
                unsigned int major;

                if (sscanf(at, "%u %63s", &major, name) == 2 && strcmp(name, "nvidia-uvm") == 0)
                        atomic_store(&uvm_major, major);
                at = strchr(at, '\n');
                if (at)
                        at++;
        }
}

enum node {
        NODE_NONE,
        NODE_RM,
        NODE_UVM,
};

static enum node node_of(int fd)
{
        struct stat st;
        unsigned int number;

        if (fd < 0 || !atomic_load(&recording) || fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode))
                return NODE_NONE;
        number = major(st.st_rdev);
        if (number == RM_MAJOR)
                return NODE_RM;
        if (number == atomic_load(&uvm_major) && number)
                return NODE_UVM;
        return NODE_NONE;
}

static bool is_node_path(const char *path)
{
        return atomic_load(&recording) && path && strncmp(path, "/dev/nvidia", 11) == 0;
}

/* True once per descriptor and file. */
static bool introduce(int fd)
{
        unsigned char bit = (unsigned char)(1u << (fd % 8));

        return fd < N_FDS && !(atomic_fetch_or(&known[fd / 8], bit) & bit);
}

static void forget(int fd)
{
        if (fd >= 0 && fd < N_FDS)
                atomic_fetch_and(&known[fd / 8], (unsigned char)~(1u << (fd % 8)));
}

static void ensure_introduced(int fd)
{
        char link[64], node[256];
        ssize_t n;

        (void)out_open(); /* a new file knows nobody yet */
        if (!introduce(fd))
                return;
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, node, sizeof(node) - 1);
        node[n < 0 ? 0 : n] = 0;
        record("have %d %s\n", fd, node[0] ? node : "?");
}

static void opened(const char *path, int fd, int error)
{
        if (fd >= 0) {
                (void)out_open();
                (void)introduce(fd);
                if (!atomic_load(&uvm_major))
                        find_uvm_major(); /* the module may have come with this open */
        }
        record("open %d %s %d\n", fd, path, fd < 0 ? error : 0);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/*
 * What a call in flight needs: its bytes from before, room for those from after, and for the line.
 * All of it is zero pages until used.
 */
struct pad {
        atomic_flag busy;
        unsigned char in[BLOCK_MAX], out[BLOCK_MAX];
        unsigned char pin[PARAMS_MAX], pout[PARAMS_MAX];
        char line[4 * (BLOCK_MAX + PARAMS_MAX) + 256];
};

static struct pad pads[N_PADS];

static struct pad *pad_take(void)
{
        for (size_t i = 0; i < N_PADS; i++)
                if (!atomic_flag_test_and_set(&pads[i].busy))
                        return &pads[i];
        return NULL;
}

static void pad_drop(struct pad *pad)
{
        if (pad)
                atomic_flag_clear(&pad->busy);
}

/* Copies the host's memory without the risk of a fault. */
static bool copy_in(void *to, uint64_t from, size_t size)
{
        struct iovec here = { to, size }, there = { (void *)(uintptr_t)from, size };
        ssize_t n;

        if (!size || !from)
                return false;
        n = syscall(SYS_process_vm_readv, getpid(), &here, 1UL, &there, 1UL, 0UL);
        if (n < 0 && (errno == ENOSYS || errno == EPERM)) { /* forbidden here: trust the host */
                memcpy(to, (void *)(uintptr_t)from, size);
                return true;
        }
        return n == (ssize_t)size;
}

static uint32_t u32_at(const unsigned char *bytes, size_t offset)
{
        uint32_t value;

        memcpy(&value, bytes + offset, sizeof(value));
        return value;
}

static uint64_t u64_at(const unsigned char *bytes, size_t offset)
{
        uint64_t value;

        memcpy(&value, bytes + offset, sizeof(value));
        return value;
}

/* " WORD=B" at `at`; returns the new end. */
static char *put_bytes(char *at, const char *word, const unsigned char *bytes, size_t size)
{
        static const char digit[] = "0123456789abcdef";

        at += sprintf(at, " %s=", word);
        for (size_t i = 0; i < size;) {
                size_t zeros = 0;

                while (i + zeros < size && bytes[i + zeros] == 0)
                        zeros++;
                if (zeros >= 4) {
                        at += sprintf(at, "z%zu.", zeros);
                        i += zeros;
                        continue;
                }
                *at++ = digit[bytes[i] >> 4];
                *at++ = digit[bytes[i] & 15];
                i++;
        }
        return at;
}

/* ---- what a request carries ------------------------------------------------------------------ */

/*
 * Block sizes of UVM requests, release 580 (550.54.14 to 580.x; others differ in 33 and 68).
 * Source: docs/rm-abi.md 8.3; those it does not name: uvm_ioctl.h of the open kernel modules.
 */
static size_t uvm_size(unsigned long request)
{
        static const uint16_t sizes[] = {
                [23] = 16,  [24] = 16,   [25] = 32, [26] = 20, [27] = 56, [28] = 28,   [29] = 36, [30] = 36,
                [31] = 32,  [33] = 9264, [34] = 24, [35] = 24, [37] = 40, [38] = 20,   [39] = 8,  [40] = 272,
                [41] = 272, [42] = 40,   [43] = 24, [44] = 24, [45] = 24, [46] = 40,   [47] = 40, [51] = 80,
                [53] = 32,  [54] = 20,   [55] = 20, [65] = 40, [66] = 40, [68] = 9248, [69] = 4,  [70] = 24,
                [71] = 24,  [72] = 24,   [73] = 24, [74] = 40, [75] = 8,  [78] = 56,   [79] = 4,  [80] = 24,
        };

        request &= 0xffffffff;
        if (request == 0x30000001)
                return 16;
        return request < sizeof(sizes) / sizeof(*sizes) ? sizes[request] : 0;
}

/* Parameter bytes of a class, for callers that leave paramsSize 0. Release 580. */
static size_t class_size(uint32_t class)
{
        static const struct {
                uint32_t class;
                size_t size;
        } rows[] = {
                { 0x00, 4 },    { 0x01, 4 },     { 0x41, 4 },     { 0x80, 56 },  { 0x2080, 4 },
                { 0x3e, 128 },  { 0x40, 128 },   { 0x50a0, 128 }, { 0x42, 128 }, { 0xa06c, 20 },
                { 0x9067, 12 }, { 0x90f1, 56 },  { 0x79, 24 },    { 0x05, 24 },  { 0xde, 8 },
                { 0x90cd, 72 }, { 0x90ce, 128 }, { 0xf8, 48 },    { 0xfd, 80 },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                if (rows[i].class == class)
                        return rows[i].size;
        if (class < 0x9000 || class > 0xffff)
                return 0;
        switch (class & 0xff) {
        case 0x6f:
                return 368; /* a channel */
        case 0xb5:
                return 8; /* a copy engine */
        case 0xc0:
                return 16; /* compute */
        default:
                return 0;
        }
}

struct nested {
        uint64_t at;
        size_t size;
};

static struct nested nested_of(unsigned int nr, const unsigned char *block, size_t size)
{
        struct nested nested = { 0 };

        if (nr == 0x2a && size >= 32)
                nested = (struct nested){ u64_at(block, 16), u32_at(block, 24) };
        else if (nr == 0x2b && size == 48)
                nested = (struct nested){ u64_at(block, 16), u32_at(block, 32) };
        else if (nr == 0x2b && size == 32)
                nested = (struct nested){ u64_at(block, 16), u32_at(block, 24) };
        else if (nr == 0x2b && size == 40)
                nested = (struct nested){ u64_at(block, 16), 0 };
        else if (nr == 0xd3 && size >= 16)
                nested = (struct nested){ u64_at(block, 8), u32_at(block, 4) };

        if (nr == 0x2b && size >= 16 && nested.at && !nested.size)
                nested.size = class_size(u32_at(block, 12));
        if (nested.size > PARAMS_MAX)
                nested.size = PARAMS_MAX;
        return nested;
}

static uint64_t now_usec(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int record_ioctl(enum node node, int fd, unsigned long request, void *argument)
{
        size_t size = node == NODE_UVM ? uvm_size(request) : request >> 16 & 0x3fff;
        uint64_t block = (uintptr_t)argument, began;
        struct nested nested = { 0 };
        bool has_in = false, has_pin = false;
        struct pad *pad = pad_take();
        int saved = errno, r, error;

        ensure_introduced(fd);
        if (pad) {
                has_in = copy_in(pad->in, block, size);
                if (has_in && node == NODE_RM)
                        nested = nested_of(request & 0xff, pad->in, size);
                has_pin = copy_in(pad->pin, nested.at, nested.size);
        }

        errno = saved;
        began = now_usec();
        r = NEXT(ioctl, SYS_ioctl, fd, request, argument);
        began = now_usec() - began;
        error = errno;

        if (pad) {
                char *at = pad->line;

                at += sprintf(at, "ioctl %d %lx %zu %d %d %llu", fd, request & 0xffffffff, size, r, r < 0 ? error : 0,
                              (unsigned long long)began);
                if (has_in)
                        at = put_bytes(at, "in", pad->in, size);
                if (has_in && copy_in(pad->out, block, size) && memcmp(pad->in, pad->out, size) != 0)
                        at = put_bytes(at, "out", pad->out, size);
                if (has_pin)
                        at = put_bytes(at, "pin", pad->pin, nested.size);
                if (has_pin && copy_in(pad->pout, nested.at, nested.size) &&
                    memcmp(pad->pin, pad->pout, nested.size) != 0)
                        at = put_bytes(at, "pout", pad->pout, nested.size);
                *at++ = '\n';
                out_write(pad->line, (size_t)(at - pad->line));
        } else {
                record("ioctl %d %lx %zu %d %d %llu\n", fd, request & 0xffffffff, size, r, r < 0 ? error : 0,
                       (unsigned long long)began);
        }
        pad_drop(pad);
        errno = error;
        return r;
}

/* ---- mappings we saw ------------------------------------------------------------------------- */

static struct {
        atomic_uintptr_t at; /* 0: free */
        size_t size;
} maps[N_MAPS];
static atomic_size_t n_maps; /* slots ever used, so that a host's munmap is cheap */

static void map_put(uintptr_t at, size_t size)
{
        for (size_t i = 0; i < N_MAPS; i++) {
                uintptr_t none = 0;

                if (!atomic_compare_exchange_strong(&maps[i].at, &none, at))
                        continue;
                maps[i].size = size;
                while (atomic_load(&n_maps) <= i)
                        atomic_store(&n_maps, i + 1);
                return;
        }
}

/* Was any of this the driver's? What is covered wholly is forgotten. */
static bool map_take(uintptr_t at, size_t size)
{
        size_t n = atomic_load(&n_maps);
        bool found = false;

        for (size_t i = 0; i < n; i++) {
                uintptr_t start = atomic_load(&maps[i].at);

                if (!start || start >= at + size || at >= start + maps[i].size)
                        continue;
                found = true;
                if (start >= at && start + maps[i].size <= at + size)
                        atomic_store(&maps[i].at, 0);
        }
        return found;
}

static void *real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
        if (next_mmap)
                return next_mmap(at, size, prot, flags, fd, offset);
        return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, offset);
}

static void *record_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
        int saved = errno, error;
        void *r;

        if ((flags & MAP_ANONYMOUS) || node_of(fd) == NODE_NONE) {
                errno = saved;
                return real_mmap(at, size, prot, flags, fd, offset);
        }
        ensure_introduced(fd);
        errno = saved;
        r = real_mmap(at, size, prot, flags, fd, offset);
        error = errno;
        if (r == MAP_FAILED) {
                record("mmap %lx %zx %x %x %d %llx -%d\n", (unsigned long)at, size, (unsigned int)prot,
                       (unsigned int)flags, fd, (unsigned long long)offset, error);
        } else {
                map_put((uintptr_t)r, size);
                record("mmap %lx %zx %x %x %d %llx %lx\n", (unsigned long)at, size, (unsigned int)prot,
                       (unsigned int)flags, fd, (unsigned long long)offset, (unsigned long)r);
        }
        errno = error;
        return r;
}

/* ---- what the host calls --------------------------------------------------------------------- */

HOOK void sublet_record_mark(const char *text);

HOOK void sublet_record_mark(const char *text)
{
        int saved = errno;

        if (atomic_load(&recording))
                record("mark %s\n", text);
        errno = saved;
}

HOOK int ioctl(int fd, unsigned long request, ...)
{
        enum node node;
        int saved = errno;
        va_list list;
        void *argument;

        va_start(list, request);
        argument = va_arg(list, void *);
        va_end(list);

        node = node_of(fd);
        errno = saved;
        if (node == NODE_NONE)
                return NEXT(ioctl, SYS_ioctl, fd, request, argument);
        return record_ioctl(node, fd, request, argument);
}

static int record_open(int dir, const char *path, int flags, mode_t mode)
{
        int r, saved;

        if (dir == AT_FDCWD && next_open)
                r = next_open(path, flags, mode);
        else
                r = NEXT(openat, SYS_openat, dir, path, flags, mode);
        if (!is_node_path(path))
                return r;
        saved = errno;
        opened(path, r, saved);
        errno = saved;
        return r;
}

#define MODE(flags, mode)                                                                                              \
        do {                                                                                                           \
                if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                               \
                        va_list list;                                                                                  \
                        va_start(list, flags);                                                                         \
                        mode = va_arg(list, mode_t);                                                                   \
                        va_end(list);                                                                                  \
                }                                                                                                      \
        } while (0)

HOOK int open(const char *path, int flags, ...)
{
        mode_t mode = 0;

        MODE(flags, mode);
        return record_open(AT_FDCWD, path, flags, mode);
}

HOOK int open64(const char *path, int flags, ...)
{
        mode_t mode = 0;

        MODE(flags, mode);
        return record_open(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

HOOK int openat(int dir, const char *path, int flags, ...)
{
        mode_t mode = 0;

        MODE(flags, mode);
        return record_open(dir, path, flags, mode);
}

HOOK int openat64(int dir, const char *path, int flags, ...)
{
        mode_t mode = 0;

        MODE(flags, mode);
        return record_open(dir, path, flags | O_LARGEFILE, mode);
}

/* What open() becomes in a host built with _FORTIFY_SOURCE. */
HOOK int __open_2(const char *path, int flags);
HOOK int __open64_2(const char *path, int flags);
HOOK int __openat_2(int dir, const char *path, int flags);
HOOK int __openat64_2(int dir, const char *path, int flags);

HOOK int __open_2(const char *path, int flags)
{
        return record_open(AT_FDCWD, path, flags, 0);
}

HOOK int __open64_2(const char *path, int flags)
{
        return record_open(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

HOOK int __openat_2(int dir, const char *path, int flags)
{
        return record_open(dir, path, flags, 0);
}

HOOK int __openat64_2(int dir, const char *path, int flags)
{
        return record_open(dir, path, flags | O_LARGEFILE, 0);
}

HOOK int close(int fd)
{
        int saved = errno;

        if (node_of(fd) != NODE_NONE) {
                record("close %d\n", fd); /* before: afterwards the number may be somebody else's */
                forget(fd);
        }
        errno = saved;
        return NEXT(close, SYS_close, fd);
}

static int copied(int fd, int r)
{
        int saved = errno;

        if (r >= 0 && r != fd) {
                forget(r);
                if (node_of(r) != NODE_NONE) {
                        ensure_introduced(fd);
                        record("dup %d %d\n", fd, r);
                        (void)introduce(r);
                }
        }
        errno = saved;
        return r;
}

HOOK int dup(int fd)
{
        return copied(fd, NEXT(dup, SYS_dup, fd));
}

HOOK int dup2(int fd, int to)
{
        return copied(fd, NEXT(dup2, SYS_dup2, fd, to));
}

HOOK int dup3(int fd, int to, int flags)
{
        return copied(fd, NEXT(dup3, SYS_dup3, fd, to, flags));
}

HOOK void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
        return record_mmap(at, size, prot, flags, fd, offset);
}

HOOK void *mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
        return record_mmap(at, size, prot, flags, fd, offset);
}

HOOK int munmap(void *at, size_t size)
{
        int saved = errno;

        if (atomic_load(&recording) && map_take((uintptr_t)at, size))
                record("munmap %lx %zx\n", (unsigned long)at, size);
        errno = saved;
        return NEXT(munmap, SYS_munmap, at, size);
}

/* ---- beginnings ------------------------------------------------------------------------------ */

/* The child has its own file, and the threads that held pads are not in it. */
static void forked(void)
{
        for (size_t i = 0; i < N_PADS; i++)
                atomic_flag_clear(&pads[i].busy);
        for (size_t i = 0; i < sizeof(known); i++)
                atomic_store(&known[i], 0);
}

__attribute__((constructor)) static void begin(void)
{
        const char *path = getenv("SUBLET_RECORD");

        next_ioctl = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
        next_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
        next_openat = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
        next_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
        next_dup = (int (*)(int))dlsym(RTLD_NEXT, "dup");
        next_dup2 = (int (*)(int, int))dlsym(RTLD_NEXT, "dup2");
        next_dup3 = (int (*)(int, int, int))dlsym(RTLD_NEXT, "dup3");
        next_mmap = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
        next_munmap = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");

        if (!path || !*path)
                return;
        if (path[0] == '/') {
                (void)snprintf(prefix, sizeof(prefix), "%s", path);
        } else { /* the host may change directory */
                char here[2048];

                if (!getcwd(here, sizeof(here)))
                        return;
                (void)snprintf(prefix, sizeof(prefix), "%s/%s", here, path);
        }
        find_uvm_major();
        (void)pthread_atfork(NULL, NULL, forked);
        atomic_store(&recording, true);
}
