/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what offers.c judges: files, sockets, libraries. Starts nothing and changes nothing. */
#include "doctor/offers.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/process.h"
#include "gate/policy/filter.h"
#include "gpu/backend.h"
#include "gpu/find.h"
#include "shim/mps_server.h"
#include "net/socket.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define MODULE "ngx_http_sublet_module.so"

/* Searches PATH and the directories of root's programs; "": not found. */
static void program_find(const char *name, char ret[static PATH_MAX])
{
        char list[4096];

        (void)snprintf(list, sizeof(list), "%s:/usr/sbin:/usr/local/sbin", getenv("PATH") ? getenv("PATH") : "");
        for (char *rest = list, *directory; (directory = strsep(&rest, ":"));) {
                (void)snprintf(ret, PATH_MAX, "%s/%s", directory, name);
                if (*directory && access(ret, X_OK) == 0)
                        return;
        }
        ret[0] = '\0';
}

/* How many matching files contain the word in their first 64 KiB; without a word, all of them. */
static size_t count_files(const char *pattern, const char *word)
{
        static char text[64 << 10];
        glob_t found = { 0 };
        size_t n = 0;

        (void)glob(pattern, GLOB_NOSORT | GLOB_BRACE, NULL, &found);
        for (size_t i = 0; i < found.gl_pathc; i++) {
                _cleanup_(closep) int fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC);
                ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof(text));

                n += !word || (size > 0 && memmem(text, (size_t)size, word, strlen(word)));
        }
        globfree(&found);
        return n;
}

/* The control daemon and the server share the first fifteen letters, the most that a name holds. */
static size_t count_mps(void)
{
        return count_files("/proc/[0-9]*/comm", "nvidia-cuda-mps");
}

/* Processes and pipes belong to the real machine, so they are ignored on a simulated one. */
static void check_mps(struct findings *findings, const char *dir)
{
        const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
        bool is_simulated = getenv("SUBLET_SIM");
        struct offers_mps mps = { 0 };
        char path[PATH_MAX];

        mps.is_ours = mps_is_any(dir);
        mps.has_process = !is_simulated && !mps.is_ours && count_mps();
        (void)snprintf(path, sizeof(path), "%s/control", pipes ? pipes : "/tmp/nvidia-mps");
        mps.has_pipe = !is_simulated && access(path, F_OK) == 0;
        program_find("nvidia-cuda-mps-control", path);
        mps.has_program = path[0];
        offers_judge_mps(findings, &mps);
}

static void check_mig(struct findings *findings, const struct gpu_backend *backend)
{
        static struct gpu_device devices[GPU_DEVICES_MAX];
        struct gpu_instance instances[GPU_INSTANCES_MAX];
        unsigned int n = 0, n_instances;

        if (gpu_find(backend, devices, &n, NULL) < 0)
                return; /* driver.c reports that there is no device */
        for (unsigned int i = 0; i < n; i++) {
                n_instances = 0;
                if (devices[i].has_mig)
                        (void)gpu_instances(devices[i].uuid, &devices[i].has_mig, instances, &n_instances);
                offers_judge_mig(findings, &devices[i], n_instances);
        }
}

static void check_green(struct findings *findings, const struct gpu_backend *backend)
{
        void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
        bool has_call = library && dlsym(library, "cuGreenCtxCreate");

        offers_judge_green(findings, (unsigned int)strtoul(backend->release, NULL, 10), library, has_call);
        if (library)
                (void)dlclose(library);
}

static bool is_listened_to(const char *path)
{
        _cleanup_(closep) int fd = socket_connect(SOCK_STREAM | SOCK_NONBLOCK, 0, "%s", path);

        return fd >= 0 || fd == -EAGAIN;
}

static void daemon_read(struct offers_daemon *ret)
{
        const char *named = getenv("SUBLET_DIR");
        char path[160];
        struct stat is;

        *ret = (struct offers_daemon){ 0 };
        (void)snprintf(ret->dir, sizeof(ret->dir), "%s", named && *named ? named : "/run/sublet");
        if (stat(ret->dir, &is) < 0) {
                ret->error = errno;
                return;
        }
        ret->mode = is.st_mode;
        ret->owner = is.st_uid;
        (void)snprintf(path, sizeof(path), "%s/sublet.sock", ret->dir);
        ret->answers = is_listened_to(path);
        (void)snprintf(path, sizeof(path), "%s/seccomp.sock", ret->dir);
        ret->has_agent = stat(path, &is) == 0 && S_ISSOCK(is.st_mode);
}

static void check_cdi(struct findings *findings)
{
        static const char files[] = "{/etc/cdi,/run/cdi}/*.{json,yaml,yml}";

        offers_judge_cdi(findings, count_files(files, NULL), count_files(files, "sublet.dev/"));
}

/* Where the router's agent searches. */
static void check_router(struct findings *findings)
{
        char nginx[PATH_MAX], module[PATH_MAX];

        if (!process_beside("route/nginx/" MODULE, module, sizeof(module)) &&
            !process_beside("../lib/nginx/modules/" MODULE, module, sizeof(module)))
                (void)snprintf(module, sizeof(module), "/usr/lib/nginx/modules/" MODULE);
        program_find("nginx", nginx);
        offers_judge_router(findings, nginx, access(module, R_OK) == 0 ? module : "");
}

void offers_read(struct findings *findings, const struct gpu_backend *backend, int listener)
{
        struct offers_daemon daemon;
        int filter = filter_check(NULL);

        daemon_read(&daemon);
        if (backend) {
                check_mps(findings, daemon.dir);
                check_mig(findings, backend);
                check_green(findings, backend);
        }
        offers_judge_directory(findings, &daemon);
        offers_judge_daemon(findings, &daemon);
        if (listener >= 0)
                offers_judge_attach(findings, -filter, listener, daemon.answers);
        offers_judge_containers(findings, &daemon);
        check_cdi(findings);
        check_router(findings);
}
