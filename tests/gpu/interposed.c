/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interposed - programs that a library inside them must not disturb, and that must not get past it by accident.
 *
 *      interposed symbols                     which library answers for ioctl, however it is asked for
 *      interposed dlopen LIBCUDA [STEP-MiB]   memory through a libcuda opened by its path, until refused
 *      interposed procaddress LIBCUDA [STEP-MiB]   the same by what cuGetProcAddress gives
 *      interposed threads N                   N threads take 8 MiB each time, until each is refused
 *      interposed forks N N children take and free 4 MiB at a time and are killed at random; 8 at a time interposed
 *      signals MILLISECONDS driver calls in a signal handler that comes anywhere, also in malloc interposed fork a
 *      child of fork has none of its parent's objects, and may have its own interposed close COMMAND... closes every
 *      descriptor above 2, as daemons do, and executes the command interposed late LIBRARY loads the library with
 *      threads running; each reports whether it is below a gate interposed hold MiB FILE takes so much, writes its
 *      number into the file, and waits to be ended interposed spawn closing in a child of vfork leaves the parent's
 *      books alone
 *
 * The driver is spoken to as raw.c does (docs/rm-abi.md, release 580). Exit status: 0 as it should be; 1 not; 2 usage.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ull << 20)

enum {
        NR_FREE = 0x29,
        NR_ALLOC = 0x2b,
        NR_REGISTER_FD = 0xc9,
        CLASS_CLIENT = 0x41,
        CLASS_DEVICE = 0x80,
        CLASS_MEMORY = 0x40,
        H_DEVICE = 0x5c000002,
        H_MEMORY = 0x5c100000,
        NO_MEMORY = 0x51,
        BLOCK = 48,
};

/* ---- the driver ------------------------------------------------------------------------------------------- */

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

/* The status; -1: the system call failed. */
static int64_t rm_alloc(int ctl, uint32_t client, uint32_t parent, uint32_t object, uint32_t class, void *params,
                        uint32_t size, uint32_t *ret_object)
{
        unsigned char block[BLOCK] = { 0 };

        put32(block, 0, client);
        put32(block, 4, parent);
        put32(block, 8, object);
        put32(block, 12, class);
        put64(block, 16, (uintptr_t)params);
        put32(block, 32, size);
        if (ioctl(ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_ALLOC, BLOCK), block) < 0)
                return -1;
        if (ret_object)
                *ret_object = get32(block, 8);
        return get32(block, 40);
}

static int64_t rm_free(int ctl, uint32_t client, uint32_t object)
{
        unsigned char block[16] = { 0 };

        put32(block, 0, client);
        put32(block, 8, object);
        if (ioctl(ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_FREE, 16), block) < 0)
                return -1;
        return get32(block, 12);
}

static int64_t client_new(int ctl, uint32_t *ret)
{
        return rm_alloc(ctl, 0, 0, 0, CLASS_CLIENT, NULL, 0, ret);
}

static int64_t device_new(int ctl, uint32_t client)
{
        unsigned char params[56] = { 0 };

        return rm_alloc(ctl, client, client, H_DEVICE, CLASS_DEVICE, params, sizeof(params), NULL);
}

static int64_t memory_new(int ctl, uint32_t client, uint32_t object, uint64_t size)
{
        unsigned char params[128] = { 0 };

        put32(params, 0, client);
        put32(params, 8, 0x1c101);
        put32(params, 24, 0x11800000);
        put32(params, 28, 0x100005);
        put32(params, 32, 6);
        put64(params, 64, size);
        put64(params, 72, 2 * MIB);
        put64(params, 88, size - 1);
        return rm_alloc(ctl, client, H_DEVICE, object, CLASS_MEMORY, params, sizeof(params), NULL);
}

/* nvidiactl and nvidia0 opened, a client with a device; or ends the program. */
static int driver_open(uint32_t *ret_client)
{
        int ctl = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC), info = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);

        if (ctl < 0 || info < 0 || client_new(ctl, ret_client) != 0 ||
            ioctl(info, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_REGISTER_FD, 4), &ctl) < 0 ||
            device_new(ctl, *ret_client) != 0) {
                printf("driver: %s\n", strerror(errno));
                exit(1);
        }
        return ctl;
}

/* ---- symbols ------------------------------------------------------------------------------------------------ */

static const char *owner(void *symbol)
{
        Dl_info info;
        const char *slash;

        if (!symbol || !dladdr(symbol, &info))
                return "nobody";
        slash = strrchr(info.dli_fname, '/');
        return slash ? slash + 1 : info.dli_fname;
}

static int symbols(void)
{
        printf("default=%s next=%s versioned=%s\n", owner(dlsym(RTLD_DEFAULT, "ioctl")),
               owner(dlsym(RTLD_NEXT, "ioctl")), owner(dlvsym(RTLD_DEFAULT, "ioctl", "GLIBC_2.2.5")));
        return 0;
}

/* ---- libcuda, by its path ------------------------------------------------------------------------------------- */

typedef int (*get_proc)(const char *, void **, int, uint64_t, void *);

/* As the runtime library of CUDA 12 finds its functions; or by dlsym. */
static void *function_find(void *library, get_proc get, const char *name, const char *versioned)
{
        void *found = NULL;

        if (!get)
                return dlsym(library, versioned);
        return get(name, &found, 12000, 0, NULL) == 0 ? found : NULL;
}

static int by_path(const char *path, uint64_t step, bool by_driver)
{
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*init)(unsigned int), (*get)(int *, int), (*create)(void **, unsigned int, int);
        int (*alloc)(uint64_t *, size_t), device, r = 0;
        uint64_t pointer, got = 0;
        get_proc proc = NULL;
        void *context;

        if (!library) {
                printf("%s\n", dlerror());
                return 1;
        }
        if (by_driver)
                *(void **)&proc = dlsym(library, "cuGetProcAddress_v2");
        *(void **)&init = function_find(library, proc, "cuInit", "cuInit");
        *(void **)&get = function_find(library, proc, "cuDeviceGet", "cuDeviceGet");
        *(void **)&create = function_find(library, proc, "cuCtxCreate", "cuCtxCreate_v2");
        *(void **)&alloc = function_find(library, proc, "cuMemAlloc", "cuMemAlloc_v2");
        if ((by_driver && !proc) || !init || !get || !create || !alloc || init(0) || get(&device, 0) ||
            create(&context, 0, device))
                return 1;
        while (got < 1024 * MIB * 64 && (r = alloc(&pointer, step)) == 0)
                got += step;
        printf("got_mib=%llu last=%d\n", (unsigned long long)(got / MIB), r);
        return r == 2 ? 0 : 1; /* CUDA_ERROR_OUT_OF_MEMORY */
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static int threads_ctl;
static uint32_t threads_client;

static void *take_until_refused(void *context)
{
        uint32_t first = H_MEMORY + 65536u * (uint32_t)(uintptr_t)context, n = 0;

        while (n < 65536 && memory_new(threads_ctl, threads_client, first + n, 8 * MIB) == 0)
                n++;
        return (void *)(uintptr_t)n;
}

static int threads(unsigned int n)
{
        pthread_t list[64];
        uint64_t sum = 0;
        void *got;

        threads_ctl = driver_open(&threads_client);
        for (unsigned int i = 0; i < n && i < 64; i++)
                if (pthread_create(&list[i], NULL, take_until_refused, (void *)(uintptr_t)i))
                        return 1;
        for (unsigned int i = 0; i < n && i < 64; i++) {
                (void)pthread_join(list[i], &got);
                sum += (uintptr_t)got;
        }
        printf("got_mib=%llu\n", (unsigned long long)sum * 8);
        return 0;
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void live_and_be_killed(void)
{
        uint32_t client;
        int ctl = driver_open(&client);

        for (uint32_t n = 0;; n = (n + 1) % 16) {
                (void)rm_free(ctl, client, H_MEMORY + n);
                (void)memory_new(ctl, client, H_MEMORY + n, 4 * MIB);
        }
}

static int forks(unsigned int n)
{
        enum { AT_ONCE = 8 };
        pid_t list[AT_ONCE] = { 0 };

        srand(1);
        for (unsigned int i = 0; i < n + AT_ONCE; i++) {
                unsigned int seat = i % AT_ONCE;
                struct timespec moment = { 0, (rand() % 3000) * 1000L };
                int status;

                if (list[seat]) {
                        (void)nanosleep(&moment, NULL);
                        (void)kill(list[seat], SIGKILL);
                        if (waitpid(list[seat], &status, 0) < 0 || !WIFSIGNALED(status))
                                return 1; /* it ended by itself: the driver refused it */
                }
                list[seat] = i < n ? fork() : 0;
                if (i < n && list[seat] == 0)
                        live_and_be_killed();
        }
        printf("killed=%u\n", n);
        return 0;
}

/* ---- signals --------------------------------------------------------------------------------- */

static int signals_ctl;
static volatile sig_atomic_t n_handled, n_bad;

static void on_alarm(int number)
{
        int saved = errno;
        uint32_t client;

        (void)number;
        if (client_new(signals_ctl, &client) != 0 || rm_free(signals_ctl, client, client) != 0)
                n_bad++;
        n_handled++;
        errno = saved;
}

static int signals(unsigned int ms)
{
        struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { 0 };
        struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
        struct timespec now;
        uint32_t client;
        long until;

        signals_ctl = driver_open(&client);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        until = now.tv_sec * 1000 + now.tv_nsec / 1000000 + (long)ms;
        (void)sigaction(SIGALRM, &action, NULL);
        (void)setitimer(ITIMER_REAL, &often, NULL);
        do {
                void *volatile p = malloc(100000);

                free(p);
                if (memory_new(signals_ctl, client, H_MEMORY, MIB) != 0 || rm_free(signals_ctl, client, H_MEMORY) != 0)
                        n_bad++;
                (void)clock_gettime(CLOCK_MONOTONIC, &now);
        } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < until);
        (void)setitimer(ITIMER_REAL, &never, NULL);
        printf("handled=%d bad=%d\n", (int)n_handled, (int)n_bad);
        return n_bad || !n_handled;
}

/* ---- fork, close, spawn ---------------------------------------------------------------------- */

static int after_fork(void)
{
        uint32_t client, own;
        int ctl = driver_open(&client), status;
        pid_t child;

        if (memory_new(ctl, client, H_MEMORY, 64 * MIB) != 0)
                return 1;
        child = fork();
        if (child == 0) {
                int own_ctl;

                if (memory_new(ctl, client, H_MEMORY + 1, MIB) == 0)
                        _exit(3);
                own_ctl = driver_open(&own);
                _exit(memory_new(own_ctl, own, H_MEMORY, 64 * MIB) == 0 ? 0 : 4);
        }
        if (waitpid(child, &status, 0) < 0)
                return 1;
        printf("child=%d parent=%lld\n", WEXITSTATUS(status), (long long)memory_new(ctl, client, H_MEMORY + 1, MIB));
        return WEXITSTATUS(status);
}

static int spawn(void)
{
        char *argv[] = { (char[]){ "true" }, NULL };
        uint32_t client, n = 0;
        int ctl = driver_open(&client), status;
        pid_t child;

        if (memory_new(ctl, client, H_MEMORY, 512 * MIB) != 0)
                return 1;
        child = vfork();
        if (child == 0) {
                (void)close(ctl);
                (void)close_range(3, ~0u, 0);
                (void)execvp(argv[0], argv);
                _exit(127);
        }
        if (waitpid(child, &status, 0) < 0 || status)
                return 1;
        while (n < 4096 && memory_new(ctl, client, H_MEMORY + 1 + n, 64 * MIB) == 0)
                n++;
        printf("got_mib=%u\n", 512 + 64 * n);
        return 0;
}

static int hold(unsigned int mib, const char *path)
{
        uint32_t client;
        int ctl = driver_open(&client);
        FILE *file;

        if (memory_new(ctl, client, H_MEMORY, mib * MIB) != 0)
                return 1;
        file = fopen(path, "we");
        if (!file || fprintf(file, "%d\n", getpid()) < 0 || fclose(file) != 0)
                return 1;
        for (;;)
                (void)pause();
}

static void *probe_later(void *context)
{
        int *go = context;

        (void)!read(*go, &(char){ 0 }, 1);
        return (void *)(uintptr_t)(syscall(SYS_ioctl, -1, 0xc00446ffu, 0L) > 0); /* GATE_PROBE of gate/gate.h */
}

/* The library comes when there are threads already. */
static int late(const char *path)
{
        pthread_t list[2];
        uintptr_t below = 0;
        int fds[2];
        void *is;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return 1;
        for (int i = 0; i < 2; i++)
                if (pthread_create(&list[i], NULL, probe_later, &fds[0]))
                        return 1;
        if (!dlopen(path, RTLD_NOW)) {
                printf("%s\n", dlerror());
                return 1;
        }
        (void)close(fds[1]);
        for (int i = 0; i < 2; i++) {
                (void)pthread_join(list[i], &is);
                below += (uintptr_t)is;
        }
        printf("threads=2 below=%u\n", (unsigned int)below);
        return below == 2 ? 0 : 1;
}

static int close_all(char **command)
{
        for (int fd = 3; fd < 1100; fd++)
                (void)close(fd);
        (void)close_range(3, ~0u, 0);
        (void)execvp(command[0], command);
        return 127;
}

int main(int argc, char **argv)
{
        unsigned int n = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
        const char *what = argc > 1 ? argv[1] : "";

        if (!strcmp(what, "symbols"))
                return symbols();
        if (!strcmp(what, "dlopen") && argc > 2)
                return by_path(argv[2], (argc > 3 ? (uint64_t)(unsigned int)atoi(argv[3]) : 32) * MIB, false);
        if (!strcmp(what, "procaddress") && argc > 2)
                return by_path(argv[2], (argc > 3 ? (uint64_t)(unsigned int)atoi(argv[3]) : 32) * MIB, true);
        if (!strcmp(what, "threads") && n)
                return threads(n);
        if (!strcmp(what, "forks") && n)
                return forks(n);
        if (!strcmp(what, "signals") && n)
                return signals(n);
        if (!strcmp(what, "fork"))
                return after_fork();
        if (!strcmp(what, "close") && argc > 2)
                return close_all(argv + 2);
        if (!strcmp(what, "hold") && argc > 3)
                return hold(n, argv[3]);
        if (!strcmp(what, "late") && argc > 2)
                return late(argv[2]);
        if (!strcmp(what, "spawn"))
                return spawn();
        fprintf(stderr,
                "usage: interposed symbols|dlopen|procaddress|threads|forks|signals|fork|close|hold|late|spawn ...\n");
        return 2;
}
