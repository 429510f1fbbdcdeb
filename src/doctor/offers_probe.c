/* Reads what offers.c judges: files, sockets, libraries; nothing is started and nothing changed. */
#include "doctor/offers.h"

#include "base/cleanup.h"
#include "base/err.h"
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

/* The path of a program in PATH, and where packages put what root runs; "" if there is none. */
static void find_program(const char *name, char ret[static PATH_MAX])
{
        char places[4096];

        (void)snprintf(places, sizeof(places), "%s:/usr/sbin:/usr/local/sbin", getenv("PATH") ? getenv("PATH") : "");
        for (char *rest = places, *place; (place = strsep(&rest, ":"));) {
                (void)snprintf(ret, PATH_MAX, "%s/%s", place, name);
                if (*place && access(ret, X_OK) == 0)
                        return;
        }
        ret[0] = '\0';
}

/* Of the files that match, those that have the word in their first 64 KiB; all of them without a word. */
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

/* ---- MPS --------------------------------------------------------------------------------------- */

/* The control daemon and the server share the first fifteen letters, which is what a name holds. */
static size_t count_mps(void)
{
        return count_files("/proc/[0-9]*/comm", "nvidia-cuda-mps");
}

/* Processes and pipes of a simulated machine are the real one's: not told. */
static void check_mps(struct findings *findings, const char *dir)
{
        const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
        bool is_simulated = getenv("SUBLET_SIM");
        struct offers_mps mps = { 0 };
        char path[PATH_MAX];
        uint64_t begun;

        for (unsigned int i = 0; i < GPU_DEVICES_MAX; i++)
                mps.is_ours |= mps_control(dir, i, &begun) != 0;
        mps.has_process = !is_simulated && !mps.is_ours && count_mps();
        (void)snprintf(path, sizeof(path), "%s/control", pipes ? pipes : "/tmp/nvidia-mps");
        mps.has_pipe = !is_simulated && access(path, F_OK) == 0;
        find_program("nvidia-cuda-mps-control", path);
        mps.has_program = path[0];
        offers_judge_mps(findings, &mps);
}

/* ---- devices ------------------------------------------------------------------------------------- */

static void check_mig(struct findings *findings, const struct gpu_backend *backend)
{
        static struct gpu_device devices[GPU_DEVICES_MAX];
        struct gpu_instance instances[GPU_INSTANCES_MAX];
        unsigned int n = 0, n_instances;

        if (gpu_find(backend, devices, &n, NULL) < 0)
                return; /* a finding of its own says that there is no card */
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

/* ---- the daemon ---------------------------------------------------------------------------------- */

static bool is_listened_to(const char *path)
{
        _cleanup_(closep) int fd = socket_connect(SOCK_STREAM | SOCK_NONBLOCK, 0, "%s", path);

        return fd >= 0 || fd == -EAGAIN;
}

static void find_daemon(struct offers_daemon *ret)
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

/* ---- what comes by other ways ---------------------------------------------------------------------- */

static void check_cdi(struct findings *findings)
{
        static const char files[] = "{/etc/cdi,/run/cdi}/*.{json,yaml,yml}";

        offers_judge_cdi(findings, count_files(files, NULL), count_files(files, "sublet.dev/"));
}

/* The places where the router's agent looks. */
static void check_router(struct findings *findings)
{
        static const char *const beside[] = { "/route/nginx/" MODULE, "/../lib/nginx/modules/" MODULE };
        char self[PATH_MAX] = "", nginx[PATH_MAX], module[PATH_MAX + 64] = "/usr/lib/nginx/modules/" MODULE;

        if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 && strrchr(self, '/'))
                *strrchr(self, '/') = '\0';
        for (size_t i = ARRAY_SIZE(beside); i-- > 0;) {
                char path[PATH_MAX + 64];

                (void)snprintf(path, sizeof(path), "%s%s", self, beside[i]);
                if (access(path, R_OK) == 0)
                        memcpy(module, path, sizeof(path));
        }
        find_program("nginx", nginx);
        offers_judge_router(findings, nginx, access(module, R_OK) == 0 ? module : "");
}

void offers_read(struct findings *findings, const struct gpu_backend *backend, int listener)
{
        struct offers_daemon daemon;
        int filter = filter_check(NULL);

        find_daemon(&daemon);
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
