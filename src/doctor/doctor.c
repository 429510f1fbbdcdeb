/*
 * `sublet doctor`: what this machine offers a tenant, and the next step for each gap.
 *
 * It tries what can be tried, as `sublet run` would do it (a child under a listener, a client of
 * the driver), and reads what the kernel and the driver tell about themselves; findings.h judges.
 * With a simulated machine (SUBLET_SIM) its files and nodes are looked at instead of the real ones.
 */
#include "doctor/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/filter.h"
#include "gate/gate.h"
#include "gate/state/probe.h"
#include "gpu/backend.h"
#include "doctor/offers.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdint.h>
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

struct doctor {
        const char *root; /* of the simulated machine's files; "" for the real one */
        struct gpu_backend backend;
        struct gate_driver driver;
        bool has_backend;
        int listener; /* the errno of a child that asked for one; -1: it could not be tried */
        struct findings findings;
};

static bool is_simulated(const struct doctor *doctor)
{
        return doctor->root[0];
}

/* The beginning of a small file, without its last newline; "" if it cannot be read. */
static const char *file_head(const char *path, char *ret, size_t size)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, ret, size - 1);

        ret[n < 0 ? 0 : n] = '\0';
        ret[strcspn(ret, "\n")] = '\0';
        return ret;
}

/* ---- the driver
 * ---------------------------------------------------------------------------------- */

static void check_release(struct doctor *doctor)
{
        struct findings *findings = &doctor->findings;
        char path[PATH_MAX], known[512];
        struct err err = { 0 };
        int r;

        (void)snprintf(path, sizeof(path), "%s/sys/module/nvidia/version", doctor->root);
        r = gpu_release_read(path, &doctor->backend, &err);
        if (r < 0 && r != -ENOTSUP) {
                findings_put(findings, "driver", FINDING_MISSING, "%s",
                             r != -ENOENT         ? err.text :
                             is_simulated(doctor) ? "SUBLET_SIM does not name a simulated machine" :
                                                    "no NVIDIA driver is loaded");
                findings_next(findings, "load one, or try on a simulated GPU: sublet sim -- sublet doctor");
                return;
        }
        findings_put(findings, "driver", FINDING_OK, "%s%s", doctor->backend.release,
                     is_simulated(doctor) ? ", simulated" : "");
        if (r == 0) {
                findings_put(findings, "abi", FINDING_OK, "known for this release");
                return;
        }
        findings_releases(known, sizeof(known));
        findings_put(findings, "abi", FINDING_MISSING, "not known for '%s': nothing would be let through",
                     doctor->backend.release);
        findings_next(findings, "use a known release: %s", known);
}

static int node_open(const struct doctor *doctor, const char *node)
{
        char path[PATH_MAX];
        int fd;

        if (doctor->has_backend)
                return doctor->backend.open(doctor->backend.context, node);
        (void)snprintf(path, sizeof(path), "%s/dev/%s", doctor->root, node);
        fd = open(path, O_RDWR | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static void check_node(struct doctor *doctor, const char *node, const char *name, const char *next)
{
        struct findings *findings = &doctor->findings;
        _cleanup_(closep) int fd = node_open(doctor, node);

        if (fd >= 0) {
                findings_put(findings, name, FINDING_OK, "can be opened");
                return;
        }
        findings_put(findings, name, FINDING_MISSING, "/dev/%s: %s", node, strerror(-fd));
        if (fd == -EACCES)
                findings_next(findings, "give this user read and write permission on /dev/%s", node);
        else
                findings_next(findings, "%s", next);
}

/* "Model: NVIDIA H200" of the card with this minor; "" if the driver does not tell. */
static void read_model(const struct doctor *doctor, uint32_t minor, char *ret, size_t size)
{
        char pattern[PATH_MAX];
        glob_t found = { 0 };

        ret[0] = '\0';
        (void)snprintf(pattern, sizeof(pattern), "%s/proc/driver/nvidia/gpus/*/information", doctor->root);
        (void)glob(pattern, GLOB_NOSORT, NULL, &found);
        for (size_t i = 0; i < found.gl_pathc && !ret[0]; i++) {
                FILE *file = fopen(found.gl_pathv[i], "re");
                char line[256], model[128] = "";
                unsigned int at;

                while (file && fgets(line, sizeof(line), file)) {
                        (void)sscanf(line, "Model: %127[^\n]", model);
                        if (sscanf(line, "Device Minor: %u", &at) == 1 && at == minor)
                                (void)snprintf(ret, size, "%s, ", model);
                }
                if (file)
                        (void)fclose(file);
        }
        globfree(&found);
}

static void check_cards(struct doctor *doctor)
{
        struct findings *findings = &doctor->findings;
        static struct lease lease; /* large */
        char size[BYTES_TEXT], model[160];
        struct probe probe;
        int r;

        doctor->driver = (struct gate_driver){ doctor->backend.context, doctor->backend.node, doctor->backend.ioctl,
                                               doctor->backend.open, doctor->backend.map };
        r = probe_init(&probe, &doctor->driver, &doctor->backend.layout);
        if (r == 0) {
                r = probe_devices(&probe, &lease);
                probe_done(&probe);
        }
        for (unsigned int i = 0; r == 0 && i < lease.n_devices; i++) {
                read_model(doctor, lease.devices[i].minor, model, sizeof(model));
                findings_put(findings, "card", FINDING_OK, "device %u: %s%s, /dev/nvidia%u", i, model,
                             bytes_format(lease.devices[i].total, size), lease.devices[i].minor);
        }
        if (r == 0)
                return;
        findings_put(findings, "card", FINDING_MISSING, "%s",
                     r == -ENODEV ? "the driver serves no card" : "the driver does not tell its cards");
        if (r == -EACCES || r == -EPERM)
                findings_next(findings, "give this user read and write permission on /dev/nvidia0 and the others");
        else if (r == -ENOENT)
                findings_next(findings, "make the nodes: nvidia-modprobe -c 0");
        else
                findings_next(findings, "look at 'nvidia-smi' and the kernel's log (%s)", strerror(-r));
}

static void check_driver(struct doctor *doctor)
{
        struct err err = { 0 };

        check_release(doctor);
        if (!findings_can_run(&doctor->findings))
                return;
        doctor->has_backend = gpu_backend_find(&doctor->backend, &err) == 0;
        check_node(doctor, "nvidiactl", "nvidiactl", "make the node: nvidia-modprobe");
        /* A tenant cannot gain privileges, so libcuda in it cannot load the module either. */
        check_node(doctor, "nvidia-uvm", "nvidia-uvm", "load it before any tenant: nvidia-modprobe -u -c 0");
        if (doctor->has_backend)
                check_cards(doctor);
}

/* ---- the kernel
 * ---------------------------------------------------------------------------------- */

/* What a child under a listener reports, and what may be done to it; errno values. */
struct child_trial {
        int listener, wake_up;
        int memory, descriptor, file;
};

/* In the child: a filter that lets everything through, for the sake of its listener. */
static void child_run(int socket)
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
                (void)read(socket, &byte, 1); /* until the parent has tried the rest */
        _exit(0);
}

static int error_of(long r)
{
        return r < 0 ? errno : 0;
}

/* As the gate reads a tenant (process.c, files.c). */
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
                child_inspect(child, sockets[1], ret); /* the number is open in the child */
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

        if (r == 0) {
                findings_put(findings, "seccomp", FINDING_OK, "user notification, and WAIT_KILLABLE_RECV (5.19)");
                return;
        }
        findings_put(findings, "seccomp", FINDING_MISSING, "%s", err.text);
        findings_next(findings,
                      r == -ENOSYS ? "run Linux 5.19 or later" : "run Linux 5.19 or later, outside of a sandbox");
}

static bool has_capability(unsigned int capability)
{
        struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };

        return syscall(SYS_capget, &header, data) == 0 &&
               data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

static void check_kernel(struct doctor *doctor)
{
        struct findings *findings = &doctor->findings;
        struct child_trial child_trial = { 0 };
        struct utsname name;
        char yama[16];
        int r;

        check_seccomp(findings);
        (void)file_head("/proc/sys/kernel/yama/ptrace_scope", yama, sizeof(yama));
        findings_judge_ptrace(findings, yama[0] ? atoi(yama) : -1, geteuid() == 0, has_capability(CAP_SYS_PTRACE));
        r = child_try(&child_trial);
        doctor->listener = r < 0 ? -1 : child_trial.listener;
        if (r < 0) {
                findings_put(findings, "listener", FINDING_MISSING, "a child cannot be tried: %s", strerror(-r));
                return;
        }
        findings_judge_listener(findings, child_trial.listener);
        if (!child_trial.listener)
                findings_judge_wake_up(findings, child_trial.wake_up, uname(&name) ? "" : name.release);
        findings_judge_call(findings, "memory", "process_vm_readv of a child", child_trial.memory);
        findings_judge_call(findings, "descriptors", "pidfd_getfd of a child", child_trial.descriptor);
        findings_judge_call(findings, "files", "kcmp with a child", child_trial.file);
}

/* ---- what else is there
 * --------------------------------------------------------------------------- */

/* Of the cards of several makers only NVIDIA's matter; one that cannot be told counts. */
static bool is_of_others(const char *path)
{
        char vendor[PATH_MAX], text[16];

        if (strncmp(path, "/dev/dri/", 9))
                return false;
        (void)snprintf(vendor, sizeof(vendor), "/sys/class/drm/%s/device/vendor", path + 9);
        (void)file_head(vendor, text, sizeof(text));
        return text[0] && strcmp(text, "0x10de");
}

static void check_other_nodes(struct findings *findings)
{
        static const char *const patterns[] = {
                "/dev/nvidia-modeset",   "/dev/nvidia-uvm-tools", "/dev/dri/card*",
                "/dev/dri/renderD*",     "/dev/nvidia-caps/*",    "/dev/nvidia-caps-imex-channels/*",
                "/dev/nvidia-nvswitch*", "/dev/nvidia-nvlink",    "/dev/nvidia-fs*",
                "/dev/gdrdrv",
        };
        char nodes[300] = "";
        glob_t found = { 0 };

        for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
                (void)glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &found);
        for (size_t i = 0; i < found.gl_pathc; i++) {
                const char *path = found.gl_pathv[i];

                if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) < 0 || is_of_others(path))
                        continue;
                if (strlen(nodes) + strlen(path) + 2 > sizeof(nodes))
                        break;
                (void)strcat(strcat(nodes, nodes[0] ? " " : ""), path);
        }
        globfree(&found);
        findings_judge_nodes(findings, nodes);
}

static void check_uvm(struct findings *findings)
{
        char hmm[8], tests[8];

        (void)file_head("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", hmm, sizeof(hmm));
        (void)file_head("/sys/module/nvidia_uvm/parameters/uvm_enable_builtin_tests", tests, sizeof(tests));
        findings_judge_uvm(findings, hmm[0], tests[0]);
}

/* The places where verb.c of src/sim looks, in a build tree and installed. */
static void check_simulator(struct doctor *doctor)
{
        static const char *const places[] = { "sim", "../lib/sublet/sim" };
        char self[PATH_MAX], path[2 * PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        self[n < 0 ? 0 : n] = '\0';
        if (strrchr(self, '/'))
                *strrchr(self, '/') = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s/libsublet-sim.so", self, places[i]);
                if (access(path, R_OK) < 0)
                        continue;
                findings_put(&doctor->findings, "simulator", FINDING_OK, "%s",
                             is_simulated(doctor) ? "this is one" : "sublet sim -- COMMAND");
                return;
        }
        findings_put(&doctor->findings, "simulator", FINDING_LIMITED, "libsublet-sim.so is not beside this program");
        findings_next(&doctor->findings, "build or install it as a whole: make install");
}

static void check_surroundings(struct doctor *doctor)
{
        struct findings *findings = &doctor->findings;

        if (doctor->has_backend && !is_simulated(doctor)) {
                check_uvm(findings);
                check_other_nodes(findings);
        }
        offers_read(findings, doctor->has_backend ? &doctor->backend : NULL, doctor->listener);
        check_simulator(doctor);
}

/* ---- the verb
 * --------------------------------------------------------------------------------------- */

static const char usage[] = "usage: sublet doctor [--json]\n"
                            "Says what works on this machine, and the next step for what does not.\n"
                            "\n"
                            "  ok        as it should be\n"
                            "  limited   tenants can be run, with the limit that is named\n"
                            "  unknown   cannot be told from here\n"
                            "  missing   no tenant can be run without it\n"
                            "\n"
                            "The exit code is 0 if a tenant can be run here, 1 if not, 2 for bad use.\n";

/* 0; 1: help was asked for; -EINVAL. */
static int doctor_parse(int argc, char **argv, bool *ret_json)
{
        static const struct option options[] = {
                { "json", no_argument, NULL, 'j' },
                { "help", no_argument, NULL, 'h' },
                { 0 },
        };
        int option;

        opterr = 0;
        optind = 0;
        *ret_json = false;
        while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
                if (option == 'h')
                        return 1;
                if (option != 'j')
                        return -EINVAL;
                *ret_json = true;
        }
        return optind < argc ? -EINVAL : 0;
}

int doctor_main(int argc, char **argv)
{
        static struct doctor doctor; /* large */
        const char *sim = getenv("SUBLET_SIM");
        bool is_json;
        int r = doctor_parse(argc, argv, &is_json);

        if (r == 1) {
                (void)fputs(usage, stdout);
                return 0;
        }
        if (r < 0) {
                (void)fprintf(stderr, "sublet: bad use ('sublet doctor --help')\n");
                return 2;
        }
        doctor.root = sim ? sim : "";
        check_driver(&doctor);
        check_kernel(&doctor);
        check_surroundings(&doctor);
        if (!is_json)
                findings_text(stdout, &doctor.findings);
        else if (findings_json(stdout, &doctor.findings) < 0)
                return 1;
        return findings_can_run(&doctor.findings) ? 0 : 1;
}
