/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/measure.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/own_table.h"
#include "gpu/find.h"
#include "gpu/own.h"
#include "wire/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
        USERS_MAX = 64,
};

_Static_assert(GPU_OWN_N == (int)OWN_KINDS && GPU_OWN_GROUP == (int)OWN_group && GPU_OWN_CHANNEL == (int)OWN_channel &&
                       GPU_OWN_SPACE == (int)OWN_address_space && GPU_OWN_CLIENT == (int)OWN_client,
               "the kinds that are measured are those of own.def");

struct measured {
        struct own_table table;
        unsigned int devices[OWN_MODELS_MAX]; /* on which one each was measured */
};

/* Processes with a compute context, by NVML; without it the figure itself must do. */
static int check_users(const struct gpu_device *device, struct err *err)
{
        struct gpu_users *users = NULL;
        pid_t found[USERS_MAX];
        size_t n = 0;

        if (gpu_users_open(&users) < 0)
                return 0;
        if (gpu_users_list(users, device->uuid, found, USERS_MAX, &n) < 0)
                n = 0;
        (void)gpu_users_close(users);
        if (!n)
                return 0;
        return err_say(err, -EBUSY, "the device is not idle: process %d%s uses it; end it and try again", (int)found[0],
                       n > 1 ? " and others" : "");
}

static int measure_one(const struct gpu_backend *backend, const struct gpu_device *device, struct measured *measured,
                       struct err *err)
{
        struct own_model *model = &measured->table.models[measured->table.n];
        struct gpu_own found;
        int r = check_users(device, err);

        if (r == 0)
                r = gpu_own_measure(backend, device->index, &found, err);
        if (r < 0)
                return err_while(err, "device %u", device->index);
        (void)snprintf(model->name, sizeof(model->name), "%s", found.name);
        model->architecture = found.architecture;
        for (unsigned int i = 0; i < OWN_KINDS; i++) {
                model->own.of[i].is_known = found.of[i].is_known;
                model->own.of[i].size = found.of[i].size;
        }
        measured->devices[measured->table.n++] = device->index;
        return 0;
}

static bool has_model(const struct own_table *table, const char *name)
{
        for (size_t i = 0; i < table->n; i++)
                if (!strcmp(table->models[i].name, name))
                        return true;
        return false;
}

static int measure_each(const struct gpu_backend *backend, struct measured *measured, struct err *err)
{
        static struct gpu_device devices[GPU_DEVICES_MAX];
        unsigned int n = 0;
        int r = gpu_find(backend, devices, &n, err);

        for (unsigned int i = 0; r == 0 && i < n; i++)
                if (measured->table.n < OWN_MODELS_MAX && !has_model(&measured->table, devices[i].name))
                        r = measure_one(backend, &devices[i], measured, err);
        return r;
}

/* Beside the file and then in its place, so that nobody reads half of one. */
static int write_file(const char *path, const struct own_table *table, struct err *err)
{
        _cleanup_(freep) char *next = NULL;
        char parent[PATH_MAX];
        FILE *to;
        int fd;

        (void)snprintf(parent, sizeof(parent), "%s", path);
        for (char *slash = parent; (slash = strchr(slash + 1, '/')); *slash = '/') {
                *slash = '\0';
                (void)mkdir(parent, 0755);
        }
        if (asprintf(&next, "%s.new-XXXXXX", path) < 0)
                return err_set(err, -ENOMEM, "writing %s", path);
        fd = mkostemp(next, O_CLOEXEC);
        to = fd < 0 ? NULL : fdopen(fd, "w");
        if (!to)
                return err_set(err, -errno, "writing %s", path);
        own_table_print(to, table);
        if (fchmod(fd, 0644) < 0 || fflush(to) != 0 || fsync(fd) < 0 || rename(next, path) < 0) {
                int r = -errno;

                (void)fclose(to);
                (void)unlink(next);
                return err_set(err, r, "writing %s", path);
        }
        (void)fclose(to);
        return 0;
}

static void print_text(FILE *to, const struct measured *measured, const char *path)
{
        for (size_t i = 0; i < measured->table.n; i++) {
                const struct own_model *model = &measured->table.models[i];

                (void)fprintf(to, "%s (device %u, architecture 0x%x), driver %s\n", model->name, measured->devices[i],
                              model->architecture, measured->table.release);
                for (enum own_kind kind = 0; kind < OWN_KINDS; kind++)
                        if (model->own.of[kind].is_known)
                                (void)fprintf(to, "  %-14s %6llu KiB\n", own_name(kind),
                                              (unsigned long long)(model->own.of[kind].size / KIB));
                        else
                                (void)fprintf(
                                        to,
                                        "  %-14s not measured: it could not be made; %llu KiB, the largest known, "
                                        "counts\n",
                                        own_name(kind), (unsigned long long)(own_largest(kind) / KIB));
        }
        if (path)
                (void)fprintf(to, "written to %s\n", path);
}

/* Only what was measured. */
static json_t *model_new(const struct own_model *model, unsigned int device)
{
        json_t *kib = json_object();

        for (enum own_kind kind = 0; kib && kind < OWN_KINDS; kind++)
                if (model->own.of[kind].is_known)
                        (void)json_object_set_new(kib, own_name(kind),
                                                  json_integer((json_int_t)(model->own.of[kind].size / KIB)));
        return json_pack("{s:s, s:i, s:i, s:o}", "model", model->name, "device", (int)device, "architecture",
                         (int)model->architecture, "kib", kib);
}

static int print_json(FILE *to, const struct measured *measured, const char *path)
{
        json_t *list = json_array(), *body;
        int r;

        for (size_t i = 0; list && i < measured->table.n; i++)
                (void)json_array_append_new(list, model_new(&measured->table.models[i], measured->devices[i]));
        body = json_pack("{s:s, s:s?, s:o}", "release", measured->table.release, "file", path, "models", list);
        r = body && json_dumpf(body, to, JSON_COMPACT) == 0 ? 0 : -ENOMEM;
        (void)fputc('\n', to);
        json_decref(body);
        return r;
}

int measure_devices(FILE *to, const struct measure_options *options, struct err *err)
{
        static struct measured measured; /* some KiB */
        _cleanup_(closep) int lock = -1;
        struct gpu_backend backend;
        bool is_written = !options->output || strcmp(options->output, "-") != 0;
        char path[PATH_MAX];
        int r = gpu_backend_find(&backend, err);

        if (r < 0)
                return r;
        lock = gpu_serve_lock(err);
        if (lock < 0)
                return lock == -EBUSY ?
                               err_say(err, lock, "the devices are not idle: a daemon serves them; stop it first") :
                               lock;
        (void)snprintf(measured.table.release, sizeof(measured.table.release), "%s", backend.release);
        r = measure_each(&backend, &measured, err);
        own_file_path(options->output, path);
        if (r == 0 && is_written)
                r = write_file(path, &measured.table, err);
        if (r < 0 && !measured.table.n)
                return r;
        if (!options->is_json)
                print_text(to, &measured, is_written && r == 0 ? path : NULL);
        else if (print_json(to, &measured, is_written && r == 0 ? path : NULL) < 0)
                return err_set(err, -ENOMEM, "printing it");
        return r;
}
