/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/spec.h"

#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *spec_hook(const struct spec_paths *paths, const char *name)
{
        json_t *args = paths->loader ?
                               json_pack("[s, s, s, s]", "sublet", "--library-path", paths->libraries, paths->program) :
                               json_pack("[s]", "sublet"),
               *hook;

        for (size_t i = 0; i < 3; i++)
                (void)json_array_append_new(args, json_string((const char *[]){ "hook", "--dir", paths->dir }[i]));
        hook = json_pack("{s:s, s:o}", "path", paths->loader ? paths->loader : paths->program, "args", args);
        if (hook && name)
                (void)json_object_set_new(hook, "hookName", json_string(name));
        return hook;
}

/* Whether `sublet oci spec` wrote it: by its arguments, whatever the program's path was. */
static bool is_ours(const json_t *hook)
{
        const json_t *args = json_object_get(hook, "args");
        const char *name = json_string_value(json_array_get(args, 0));
        bool is_hook = false;

        for (size_t i = 1; i < json_array_size(args); i++) {
                const char *word = json_string_value(json_array_get(args, i));

                is_hook = is_hook || (word && !strcmp(word, "hook"));
        }
        return is_hook && name && !strcmp(name, "sublet");
}

static json_t *object_of(json_t *parent, const char *key)
{
        json_t *child = json_object_get(parent, key);

        if (!json_is_object(child)) {
                child = json_object();
                (void)json_object_set_new(parent, key, child);
        }
        return child;
}

static void put_hook(json_t *hooks, const char *when, const struct spec_paths *paths)
{
        json_t *list = json_object_get(hooks, when), *hook;
        size_t i = json_array_size(list);

        if (!json_is_array(list)) {
                list = json_array();
                (void)json_object_set_new(hooks, when, list);
        }
        while (i-- > 0)
                if ((hook = json_array_get(list, i)) && is_ours(hook))
                        (void)json_array_remove(list, i);
        (void)json_array_append_new(list, spec_hook(paths, NULL));
}

int spec_make(const json_t *spec, json_t *profile, const struct spec_paths *paths, json_t **ret, struct err *err)
{
        json_t *made;

        if (!json_is_string(json_object_get(spec, "ociVersion")) || !json_is_object(json_object_get(spec, "linux")))
                return err_say(err, -EINVAL,
                               "no specification: it has no ociVersion, or no linux part "
                               "('ctr oci spec' and 'runc spec' print one)");
        made = json_deep_copy(spec);
        if (!made)
                return err_set(err, -ENOMEM, "writing the specification");
        (void)json_object_set(json_object_get(made, "linux"), "seccomp", profile);
        put_hook(object_of(made, "hooks"), "createRuntime", paths);
        *ret = made;
        return 0;
}

/* The rest is CRI's to fill in: process, hostname, cgroup, mounts of the pod. Source: config.md of runtime-spec 1.0.2,
 * and what containerd 1.6.20 prints. */
#define CAPABILITIES                                                                                                   \
        "[\"CAP_CHOWN\", \"CAP_DAC_OVERRIDE\", \"CAP_FSETID\", \"CAP_FOWNER\", \"CAP_MKNOD\", \"CAP_NET_RAW\","        \
        " \"CAP_SETGID\", \"CAP_SETUID\", \"CAP_SETFCAP\", \"CAP_SETPCAP\", \"CAP_NET_BIND_SERVICE\","                 \
        " \"CAP_SYS_CHROOT\", \"CAP_KILL\", \"CAP_AUDIT_WRITE\"]"
#define MOUNT(type, source, destination, options)                                                                      \
        "{\"destination\": \"" destination "\", \"type\": \"" type "\", \"source\": \"" source                         \
        "\", \"options\": [\"nosuid\", " options "]}"

static const char default_text[] =
        "{\"ociVersion\": \"1.0.2\", \"root\": {\"path\": \"rootfs\"},"
        "\"process\": {\"user\": {\"uid\": 0, \"gid\": 0}, \"cwd\": \"/\", \"noNewPrivileges\": true, \"capabilities\":"
        "{\"bounding\": " CAPABILITIES ", \"effective\": " CAPABILITIES ", \"permitted\": " CAPABILITIES "}},"
        "\"mounts\": [" MOUNT("proc", "proc", "/proc", "\"noexec\", \"nodev\"") ","           //
        MOUNT("tmpfs", "tmpfs", "/dev", "\"strictatime\", \"mode=755\", \"size=65536k\"") "," //
        MOUNT("devpts", "devpts", "/dev/pts",
              "\"noexec\", \"newinstance\", \"ptmxmode=0666\", \"mode=0620\", \"gid=5\"") ","          //
        MOUNT("tmpfs", "shm", "/dev/shm", "\"noexec\", \"nodev\", \"mode=1777\", \"size=65536k\"") "," //
        MOUNT("mqueue", "mqueue", "/dev/mqueue", "\"noexec\", \"nodev\"") ","                          //
        MOUNT("sysfs", "sysfs", "/sys", "\"noexec\", \"nodev\", \"ro\"") ","                           //
        MOUNT("tmpfs", "tmpfs", "/run",
              "\"strictatime\", \"mode=755\", \"size=65536k\"") "],"
                                                                "\"linux\": {\"resources\": {\"devices\": [{\"allow\": "
                                                                "false, \"access\": \"rwm\"}]}, \"namespaces\":"
                                                                "[{\"type\": \"pid\"}, {\"type\": \"ipc\"}, {\"type\": "
                                                                "\"uts\"}, {\"type\": \"mount\"}, {\"type\": "
                                                                "\"network\"}],"
                                                                "\"maskedPaths\": [\"/proc/acpi\", \"/proc/asound\", "
                                                                "\"/proc/kcore\", \"/proc/keys\", "
                                                                "\"/proc/latency_stats\","
                                                                "\"/proc/timer_list\", \"/proc/timer_stats\", "
                                                                "\"/proc/sched_debug\", \"/sys/firmware\","
                                                                "\"/sys/devices/virtual/powercap\", \"/proc/scsi\"],"
                                                                "\"readonlyPaths\": [\"/proc/bus\", \"/proc/fs\", "
                                                                "\"/proc/irq\", \"/proc/sys\", "
                                                                "\"/proc/sysrq-trigger\"]}}";

json_t *spec_default(void)
{
        return json_loads(default_text, JSON_REJECT_DUPLICATES, NULL);
}

char *spec_runtime(const struct spec_paths *paths, int version, bool is_systemd)
{
        const char *plugin = version == 2 ? "io.containerd.grpc.v1.cri" : "io.containerd.cri.v1.runtime";
        char *text = NULL, *options = NULL;

        if (is_systemd &&
            asprintf(&options, "[plugins.\"%s\".containerd.runtimes.%s.options]\n  SystemdCgroup = true\n", plugin,
                     paths->name) < 0)
                return NULL;
        if (asprintf(&text,
                     "[plugins.\"%s\".containerd.runtimes.%s]\n"
                     "  runtime_type = \"io.containerd.runc.v2\"\n"
                     "  base_runtime_spec = \"%s\"\n"
                     "  pod_annotations = [\"sublet.dev/*\"]\n"
                     "  container_annotations = [\"sublet.dev/*\"]\n"
                     "%s",
                     plugin, paths->name, paths->file, options ? options : "") < 0)
                text = NULL;
        free(options);
        return text;
}

char *spec_containerd(const struct spec_paths *paths)
{
        char *text = NULL, *tables = spec_runtime(paths, 2, false);

        if (!tables ||
            asprintf(&text, "# Into /etc/containerd/config.toml (version = 2), then: systemctl restart containerd\n%s",
                     tables) < 0)
                text = NULL;
        free(tables);
        return text;
}

char *spec_class(const struct spec_paths *paths)
{
        char *text = NULL;

        if (asprintf(&text,
                     "apiVersion: node.k8s.io/v1\n"
                     "kind: RuntimeClass\n"
                     "metadata:\n"
                     "  name: %s\n"
                     "handler: %s\n",
                     paths->name, paths->name) < 0)
                return NULL;
        return text;
}
