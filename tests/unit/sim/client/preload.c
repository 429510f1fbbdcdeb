/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is tried where it works: this program starts itself again with it preloaded, and the
 * part named in its argument uses plain open, ioctl and mmap.
 */
#include "sim/rig.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

/* ---- inside: plain system interfaces only ---------------------------------------------------- */

#define CHECK(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #condition, errno);                      \
                        _exit(1);                                                                                      \
                }                                                                                                      \
        } while (0)

#define REQUEST(nr, size) ((unsigned long)_IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size))

static int inside_ioctl(int fd, uint32_t nr, void *block, uint32_t size)
{
        return ioctl(fd, REQUEST(nr, size), block);
}

static uint32_t inside_client(int ctl)
{
        unsigned char block[48] = { 0 }, params[128] = { 0 };
        uint32_t client;

        rm_put32(block, 48, 12, RM_CLASS_CLIENT);
        CHECK(inside_ioctl(ctl, RM_NR_ALLOC, block, 48) == 0 && rm_get32(block, 48, 40) == 0);
        client = rm_get32(block, 48, 8);
        for (uint32_t i = 0; i < 2; i++) {
                rm_put32(block, 48, 0, client);
                rm_put32(block, 48, 4, i ? DEVICE : client);
                rm_put32(block, 48, 8, i ? SUBDEVICE : DEVICE);
                rm_put32(block, 48, 12, i ? RM_CLASS_SUBDEVICE : RM_CLASS_DEVICE);
                rm_put64(block, 48, 16, (uintptr_t)params);
                CHECK(inside_ioctl(ctl, RM_NR_ALLOC, block, 48) == 0 && rm_get32(block, 48, 40) == 0);
        }
        return client;
}

static uint64_t inside_free(int ctl, uint32_t client)
{
        unsigned char block[32] = { 0 }, params[1028] = { 0 };

        rm_put32(block, 32, 0, client);
        rm_put32(block, 32, 4, SUBDEVICE);
        rm_put32(block, 32, 8, RM_FB_GET_INFO_V2);
        rm_put64(block, 32, 16, (uintptr_t)params);
        rm_put32(block, 32, 24, sizeof(params));
        rm_put32(params, 1028, 0, 1);
        rm_put32(params, 1028, 4, RM_FB_HEAP_FREE);
        CHECK(inside_ioctl(ctl, RM_NR_CONTROL, block, 32) == 0 && rm_get32(block, 32, 28) == 0);
        return (uint64_t)rm_get32(params, 1028, 8) * KIB;
}

static void inside_nodes(void)
{
        int ctl = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC), device = open("/dev/nvidia1", O_RDWR);
        uint64_t value = 0;

        CHECK(ctl >= 0 && device >= 0);
        CHECK(inside_ioctl(ctl, RM_NR_SYS_PARAMS, &value, 8) == 0 && value);
        CHECK(inside_ioctl(dup(device), RM_NR_SYS_PARAMS, &value, 8) == 0);
        CHECK(inside_ioctl(ctl, 0x39, &value, 8) == -1 && errno == EINVAL);
        CHECK(inside_ioctl(ctl, RM_NR_SYS_PARAMS, (void *)16, 8) == -1 && errno == EFAULT);
        CHECK(open("/dev/nvidia7", O_RDWR) == -1 && errno == ENOENT);
        CHECK(openat(AT_FDCWD, "/dev/nvidia-uvm", O_RDWR) >= 0);
        CHECK(inside_free(ctl, inside_client(ctl)) == GIB);
}

static void inside_files(void)
{
        char line[128] = { 0 };
        struct stat st;
        struct statx stx;
        FILE *file = fopen("/proc/driver/nvidia/version", "r");
        DIR *gpus = opendir("/proc/driver/nvidia/gpus");
        int fd = open("/sys/module/nvidia/version", O_RDONLY);

        CHECK(file && fgets(line, sizeof(line), file) && strstr(line, MACHINE_RELEASE));
        CHECK(gpus && fd >= 0 && read(fd, line, sizeof(line)) > 0 && !strncmp(line, MACHINE_RELEASE, 10));
        CHECK(access("/dev/nvidia0", R_OK | W_OK) == 0);
        CHECK(access("/dev/nvidia7", F_OK) == -1 && errno == ENOENT);
        CHECK(stat("/dev/nvidia1", &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(195, 1));
        CHECK(lstat("/dev/nvidiactl", &st) == 0 && st.st_rdev == makedev(195, 255));
        CHECK(statx(AT_FDCWD, "/dev/nvidia-uvm", 0, STATX_ALL, &stx) == 0 && S_ISCHR(stx.stx_mode));
        CHECK(stat("/dev/null", &st) == 0 && st.st_rdev == makedev(1, 3));
        CHECK(fclose(file) == 0 && closedir(gpus) == 0 && close(fd) == 0);
}

static void inside_others(void)
{
        int pair[2], null = open("/dev/null", O_RDWR), n = -1;

        CHECK(pipe(pair) == 0 && write(pair[1], "four", 4) == 4);
        CHECK(ioctl(pair[0], FIONREAD, &n) == 0 && n == 4);
        CHECK(ioctl(null, TIOCGWINSZ, &n) == -1 && errno == ENOTTY);
        CHECK(inside_ioctl(null, RM_NR_SYS_PARAMS, &n, 8) == -1 && errno == ENOTTY);
        CHECK(ioctl(9999, FIONREAD, &n) == -1 && errno == EBADF);
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, pair[0], 0) == MAP_FAILED && errno == ENODEV);
        CHECK(open("/tmp", O_RDWR | O_TMPFILE, 0600) >= 0);
        CHECK(open("/nowhere/at/all", O_RDONLY) == -1 && errno == ENOENT);
}

static void inside_managed(void)
{
        int ctl = open("/dev/nvidiactl", O_RDWR), uvm = open("/dev/nvidia-uvm", O_RDWR), status;
        uint32_t client = inside_client(ctl);
        unsigned char block[40] = { 0 };
        char *at, *back;
        pid_t child;

        CHECK(ioctl(uvm, UVM_INITIALIZE, block) == 0 && rm_get32(block, 16, 8) == 0);
        gpu_uuid(0, block);
        rm_put32(block, 40, 24, (uint32_t)ctl);
        rm_put32(block, 40, 28, client);
        CHECK(ioctl(uvm, UVM_REGISTER_GPU, block) == 0 && rm_get32(block, 40, 36) == 0);
        at = mmap(NULL, 8 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        back = mmap(at, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm, (off_t)(intptr_t)at);
        CHECK(back == at);
        memset(at, 'x', 8 * MIB);
        CHECK(inside_free(ctl, client) == GIB - 8 * MIB - RIG_REGISTERED);

        child = fork();
        if (child == 0) /* the driver's ranges are not inherited; unmapping here is nobody's business */
                _exit(msync(at, 4096, MS_ASYNC) == 0 || munmap(at, 8 * MIB) != 0);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(inside_free(ctl, client) == GIB - 8 * MIB - RIG_REGISTERED);

        CHECK(munmap(at + 4 * MIB, 4 * MIB) == 0);
        CHECK(inside_free(ctl, client) == GIB - 4 * MIB - RIG_REGISTERED);
        CHECK(munmap(at, 4 * MIB) == 0);
        CHECK(inside_free(ctl, client) == GIB - RIG_REGISTERED);
}

static void inside_mapping(void)
{
        int ctl = open("/dev/nvidiactl", O_RDWR), fd = open("/dev/nvidiactl", O_RDWR);
        uint32_t client = inside_client(ctl);
        unsigned char block[56] = { 0 }, params[128] = { 0 };
        char *at, *second;

        rm_put32(params, 128, 0, client);
        rm_put32(params, 128, 24, ATTR);
        rm_put64(params, 128, 64, 2 * MIB);
        rm_put32(block, 48, 0, client);
        rm_put32(block, 48, 4, DEVICE);
        rm_put32(block, 48, 8, MEMORY);
        rm_put32(block, 48, 12, RM_CLASS_VIDEO_MEMORY);
        rm_put64(block, 48, 16, (uintptr_t)params);
        CHECK(inside_ioctl(ctl, RM_NR_ALLOC, block, 48) == 0 && rm_get32(block, 48, 40) == 0);
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);
        memset(block, 0, sizeof(block));
        rm_put32(block, 56, 0, client);
        rm_put32(block, 56, 4, DEVICE);
        rm_put32(block, 56, 8, MEMORY);
        rm_put64(block, 56, 24, 8192);
        rm_put32(block, 56, 48, (uint32_t)fd);
        CHECK(inside_ioctl(ctl, RM_NR_MAP_MEMORY, block, 56) == 0 && rm_get32(block, 56, 40) == 0);
        at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        second = mmap64(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
        CHECK(at != MAP_FAILED && second != MAP_FAILED);
        at[4096 + 5] = 'y';
        CHECK(second[5] == 'y');
}

/* S1: a supervisor's answer counts, and the server is not asked. */
static void inside_supervised(void)
{
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)REQUEST(RM_NR_SYS_PARAMS, 8), 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
        int ctl = open("/dev/nvidiactl", O_RDWR);
        uint64_t value = 0;

        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
        CHECK(inside_ioctl(ctl, RM_NR_SYS_PARAMS, &value, 8) == -1 && errno == EDOM && value == 0);
        CHECK(inside_free(ctl, inside_client(ctl)) == GIB);
}

static void inside_nothing(void)
{
        struct stat st;

        CHECK(stat("/dev/nvidiactl", &st) == 0 || (open("/dev/nvidiactl", O_RDWR) == -1 && errno == ENOENT));
}

/* ---- outside --------------------------------------------------------------------------------- */

static const struct part_of {
        const char *name;
        void (*run)(void);
} parts[] = {
        { "nodes", inside_nodes },     { "files", inside_files },     { "others", inside_others },
        { "managed", inside_managed }, { "mapping", inside_mapping }, { "supervised", inside_supervised },
        { "nothing", inside_nothing },
};

/* The runtime of a sanitized build must come first. */
static const char *sanitizer(void)
{
        void *symbol = dlsym(RTLD_DEFAULT, "__asan_init");
        static Dl_info info;

        return symbol && dladdr(symbol, &info) ? info.dli_fname : "";
}

/* This program again, with the library of this build. */
static void run_inside(const char *directory, const char *part)
{
        char self[512], library[1024], preload[2048];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        int status = -1;
        pid_t child;

        assert_true(n > 0);
        self[n] = 0;
        (void)snprintf(library, sizeof(library), "%.*s/../../src/sim/libsublet-sim.so",
                       (int)(strrchr(self, '/') - self), self);
        if (access(library, R_OK) < 0)
                skip(); /* built without it */
        (void)snprintf(preload, sizeof(preload), "%s:%s", sanitizer(), library);
        child = fork();
        if (child == 0) {
                (void)setenv("LD_PRELOAD", preload, 1);
                if (directory)
                        (void)setenv("SUBLET_SIM", directory, 1);
                else
                        (void)unsetenv("SUBLET_SIM");
                (void)execl(self, self, part, (char *)NULL);
                _exit(127);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
}

#define INSIDE(sentence, part)                                                                                         \
        static void sentence(void **state)                                                                             \
        {                                                                                                              \
                run_inside(((struct rig *)*state)->directory, part);                                                   \
        }

INSIDE(nodes_open_and_answer, "nodes")
INSIDE(files_of_the_driver_are_the_machines, "files")
INSIDE(what_is_not_a_node_is_untouched, "others")
INSIDE(managed_memory_is_mapped_and_unmapped, "managed")
INSIDE(memory_is_mapped_through_its_node, "mapping")
INSIDE(a_supervisor_answers_before_the_server, "supervised")

static void without_a_machine_it_does_nothing(void **state)
{
        (void)state;
        run_inside(NULL, "nothing");
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(nodes_open_and_answer),
                RIG_TEST(files_of_the_driver_are_the_machines),
                RIG_TEST(what_is_not_a_node_is_untouched),
                RIG_TEST(managed_memory_is_mapped_and_unmapped),
                RIG_TEST(memory_is_mapped_through_its_node),
                RIG_TEST(a_supervisor_answers_before_the_server),
                cmocka_unit_test(without_a_machine_it_does_nothing),
        };

        for (size_t i = 0; argc == 2 && i < sizeof(parts) / sizeof(parts[0]); i++) {
                if (strcmp(argv[1], parts[i].name) != 0)
                        continue;
                parts[i].run();
                return 0;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
