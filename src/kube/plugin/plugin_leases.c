/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/plugin/plugin_leases.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/process.h"
#include "kube/plugin/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Kubelet waits 10 s for an Allocate, and blocks the loop meanwhile. */
#define ALLOCATE_TIME (5 * NSEC_PER_SEC)
#define RETRY_TIME (3 * NSEC_PER_SEC) /* the daemon notices removed directories twice a second */
#define RETRY_EVERY (250 * NSEC_PER_MSEC)
#define SWEEP_EVERY (10 * NSEC_PER_SEC)

enum {
        ANSWER = 8192,
        ARGUMENTS = 12,
};

/* ---- running `sublet lease` ---- */

/* The exit code; -ETIMEDOUT: it was killed because it took too long. */
static int wait_for(pid_t child, nsec until)
{
        _cleanup_(closep) int pidfd = pidfd_open(child, 0);
        struct pollfd end = { .fd = pidfd, .events = POLLIN };
        nsec left = until - clock_now();
        bool is_late = pidfd < 0 || poll(&end, 1, left > 0 ? (int)(left / NSEC_PER_MSEC) : 0) != 1;
        int status = 0;

        if (is_late)
                (void)kill(child, SIGKILL);
        if (waitpid(child, &status, 0) != child)
                return -errno;
        return is_late ? -ETIMEDOUT : WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

static void read_all(int fd, char ret[static ANSWER])
{
        ssize_t n = pread(fd, ret, ANSWER - 1, 0);

        ret[n > 0 ? n : 0] = '\0';
}

/* 0; -EBUSY with its first line of errors; -errno. */
static int run_lease(char *const *argv, nsec until, char answer[static ANSWER], struct err *err)
{
        _cleanup_(closep) int out = memfd_create("sublet-lease", MFD_CLOEXEC),
                              errors = memfd_create("sublet-lease", MFD_CLOEXEC);
        const char *line = answer;
        pid_t child;
        int r = out < 0 || errors < 0 ? -errno : process_spawn_self(argv, out, errors, &child);

        if (r < 0)
                return err_set(err, r, "starting 'sublet lease'");
        r = wait_for(child, until);
        read_all(r == 0 ? out : errors, answer);
        if (r <= 0)
                return r < 0 ? err_set(err, r, "'sublet lease'") : 0;
        answer[strcspn(answer, "\n")] = '\0';
        if (!strncmp(line, "sublet: ", 8))
                line += 8;
        return err_say(err, -EBUSY, "no lease: %s", *line ? line : "'sublet lease' failed");
}

static int end_one(const struct plugin_leases *leases, struct leases_name name)
{
        char path[PLUGIN_MOUNT_PATH], text[LEASES_NAME], answer[ANSWER];
        char *argv[] = { (char[]){ "sublet" }, (char[]){ "lease" }, (char[]){ "--end" }, path, NULL };
        struct err err = { 0 };
        int r;

        leases_name_format(name, text);
        (void)snprintf(path, sizeof(path), "%s/%s", leases->path, text);
        r = run_lease(argv, clock_now() + ALLOCATE_TIME, answer, &err);
        if (r < 0)
                leases->say("ending %s: %s", path, err.text);
        return r;
}

/* ---- expired leases ---- */

static int newest_first(const void *a, const void *b)
{
        nsec x = ((const struct leases_name *)a)->since, y = ((const struct leases_name *)b)->since;

        return x > y ? -1 : x < y;
}

static size_t list_all(const struct plugin_leases *leases, struct leases_name ret[static LEASES_MAX])
{
        DIR *dir = opendir(leases->path);
        const struct dirent *entry;
        size_t n = 0;

        while (dir && n < LEASES_MAX && (entry = readdir(dir)) != NULL)
                n += leases_name_parse(entry->d_name, &ret[n]) == 0;
        if (dir)
                (void)closedir(dir);
        qsort(ret, n, sizeof(*ret), newest_first);
        return n;
}

/* How many were ended. */
static size_t end_expired(const struct plugin_leases *leases, const struct plugin_lease_request *asked)
{
        _cleanup_(checkpoint_done) struct checkpoint checkpoint = { 0 };
        _cleanup_(freep) struct leases_name *list = calloc(LEASES_MAX, sizeof(*list));
        nsec now = clock_realtime(), until = clock_now() + NSEC_PER_SEC;
        size_t n, n_ended = 0;

        if (!list || checkpoint_load(leases->kubelet, &checkpoint) < 0) /* the allocation reporter logs it */
                return 0;
        n = list_all(leases, list);
        for (size_t i = 0; i < n && clock_now() < until; i++)
                if (leases_is_expired(list, i, &checkpoint, asked, now))
                        n_ended += end_one(leases, list[i]) == 0;
        return n_ended;
}

void leases_sweep(struct plugin_leases *leases)
{
        (void)end_expired(leases, NULL);
}

static void on_due(struct loop_timer *timer)
{
        leases_sweep(timer->context);
}

int leases_start(struct plugin_leases *leases, struct loop *loop, struct err *err)
{
        struct statfs fs;

        /* Users of the host must not read lease descriptors or write usage segments. */
        if (mkdir(leases->path, 0700) < 0 && errno != EEXIST)
                return err_set(err, -errno, "making %s", leases->path);
        if (statfs(leases->path, &fs) < 0)
                return err_set(err, -errno, "%s", leases->path);
        if (fs.f_type != TMPFS_MAGIC)
                return err_say(err, -EXDEV, "%s is not on a tmpfs: choose a --lease-dir under /run", leases->path);
        leases->loop = loop;
        leases->timer = (struct loop_timer){ .due = on_due, .context = leases };
        loop_timer_set(loop, &leases->timer, 0, SWEEP_EVERY);
        return 0;
}

void leases_stop(struct plugin_leases *leases)
{
        if (leases->loop)
                loop_timer_drop(leases->loop, &leases->timer);
        leases->loop = NULL;
}

/* ---- a new lease ---- */

/* {"mounts":[{"source","target","read_only"}]}. How many; -EPROTO. */
static int read_mounts(const char *text, struct plugin_mount ret[static PLUGIN_MOUNTS])
{
        json_t *root = json_loads(text, 0, NULL);
        const json_t *list = json_object_get(root, "mounts"), *entry;
        size_t i, n = json_array_size(list);
        int r = n && n <= PLUGIN_MOUNTS ? (int)n : -EPROTO;

        json_array_foreach (list, i, entry) {
                const char *source = json_string_value(json_object_get(entry, "source"));
                const char *target = json_string_value(json_object_get(entry, "target"));

                if (r < 0 || !source || !target || strlen(source) >= PLUGIN_MOUNT_PATH ||
                    strlen(target) >= PLUGIN_MOUNT_PATH) {
                        r = -EPROTO;
                        break;
                }
                (void)snprintf(ret[i].source, PLUGIN_MOUNT_PATH, "%s", source);
                (void)snprintf(ret[i].target, PLUGIN_MOUNT_PATH, "%s", target);
                ret[i].is_read_only = !json_is_false(json_object_get(entry, "read_only"));
        }
        json_decref(root);
        return r;
}

int leases_lease(void *context, const struct plugin_lease_request *asked, struct plugin_mount ret[static PLUGIN_MOUNTS],
                 struct err *err)
{
        const struct plugin_leases *leases = context;
        const struct timespec pause = { .tv_nsec = RETRY_EVERY };
        nsec began = clock_now();
        size_t n_ended = end_expired(leases, asked), n = 0;
        struct leases_name name = { leases_hash(asked->resource, (const char *const *)asked->ids, asked->n_ids),
                                    clock_realtime() };
        char path[PLUGIN_MOUNT_PATH], text[LEASES_NAME], memory[24], gpu[16], answer[ANSWER];
        char *argv[ARGUMENTS] = { (char[]){ "sublet" },
                                  (char[]){ "lease" },
                                  (char[]){ "--json" },
                                  (char[]){ "--daemon" },
                                  (char[]){ "--mem" },
                                  memory,
                                  (char[]){ "--gpu" },
                                  gpu,
                                  path };
        int r;

        leases_name_format(name, text);
        (void)snprintf(path, sizeof(path), "%s/%s", leases->path, text);
        (void)snprintf(memory, sizeof(memory), "%llu", (unsigned long long)asked->memory);
        (void)snprintf(gpu, sizeof(gpu), "%u", asked->device->index);
        while (argv[n])
                n++;
        if (leases->dir) {
                argv[n++] = (char[]){ "--dir" };
                argv[n] = (char *)(uintptr_t)leases->dir;
        }
        while ((r = run_lease(argv, began + ALLOCATE_TIME, answer, err)) == -EBUSY && n_ended &&
               clock_now() - began < RETRY_TIME)
                (void)nanosleep(&pause, NULL);
        if (r < 0)
                return r;
        r = read_mounts(answer, ret);
        return r < 0 ? err_set(err, r, "'sublet lease' answered: %.100s", answer) : r;
}
