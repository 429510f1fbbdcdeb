/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/state.h"

#include "base/cleanup.h"
#include "oci/side.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "sublet.dev/"
#define NODE "/dev/nvidia"
#define NAMED_BY_MOUNT "/var/run/nvidia-container-devices"

enum {
        MAJOR_NVIDIA = 195,
        PID_MAX = 1 << 22, /* the kernel's bound */
        ID_SHOWN = 12,     /* of 64 hexadecimal digits, as is usual */
};

static void json_freep(json_t **json)
{
        json_decref(*json);
}

static const char *text_of(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

/* Text that does not fit is refused, not truncated. */
static bool copy(char *to, size_t room, const char *text)
{
        size_t n = strlen(text);

        if (n >= room)
                return false;
        memcpy(to, text, n + 1);
        return true;
}

static bool is_made_of(const char *text, const char *also)
{
        for (; *text; text++)
                if (!isalnum((unsigned char)*text) && !strchr(also, *text))
                        return false;
        return true;
}

/* Paths are printed, too. */
static bool is_printable(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return false;
        return true;
}

static bool copy_pid(const json_t *object, pid_t *ret)
{
        const json_t *pid = json_object_get(object, "pid");
        json_int_t number = json_integer_value(pid);

        *ret = (pid_t)number;
        return !pid || (json_is_integer(pid) && number >= 0 && number <= PID_MAX);
}

/* containerd's, or CRI-O's, which always has ContainerType. Returns the bad key, or NULL. */
static const char *read_annotations(const json_t *annotations, struct oci_container *to)
{
        const struct {
                const char *key, *crio;
                char *text;
                size_t room;
        } rows[] = {
#define ROW(key, crio, field) { "io.kubernetes.cri." key, "io.kubernetes." crio, to->field, sizeof(to->field) }
                ROW("sandbox-uid", "pod.uid", pod),
                ROW("sandbox-namespace", "pod.namespace", namespace),
                ROW("sandbox-name", "pod.name", name),
                ROW("container-name", "container.name", container),
#undef ROW
        };
        const char *type = text_of(annotations, "io.kubernetes.cri-o.ContainerType"),
                   *of_containerd = text_of(annotations, "io.kubernetes.cri.container-type");

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const char *key = *type ? rows[i].crio : rows[i].key;

                if (!copy(rows[i].text, rows[i].room, text_of(annotations, key)) || !is_made_of(rows[i].text, "._-"))
                        return key;
        }
        to->is_sandbox = !strcmp(*type ? type : of_containerd, "sandbox");
        /* A pod's container gets what was allocated to it, or nothing. containerd before 1.6.11 does not name the pod:
         * such a container would count as no pod's and get what it requests itself. */
        if (*type && !to->pod[0])
                return "io.kubernetes.pod.uid";
        return *of_containerd && !to->is_sandbox && !to->pod[0] ? "io.kubernetes.cri.sandbox-uid" : NULL;
}

static const char *read_state(const json_t *state, struct oci_container *to)
{
        if (!copy(to->id, sizeof(to->id), text_of(state, "id")) || !to->id[0] || !is_made_of(to->id, "_+-."))
                return "id";
        if (!copy(to->bundle, sizeof(to->bundle), text_of(state, "bundle")) || !is_printable(to->bundle))
                return "bundle";
        if (to->bundle[0] != '/') /* crun exec gives a relative path */
                to->bundle[0] = '\0';
        if (!copy(to->status, sizeof(to->status), text_of(state, "status")))
                return "status";
        if (!copy_pid(state, &to->pid))
                return "pid";
        return read_annotations(json_object_get(state, "annotations"), to);
}

/* Two forms: a hook gets the state itself; with a listener the state is a member. */
static const char *read_either(const json_t *root, struct oci_container *to)
{
        const json_t *within = json_object_get(root, "state");
        const char *wrong;

        if (!within)
                return read_state(root, to);
        wrong = read_state(within, to);
        if (!wrong && !copy(to->metadata, sizeof(to->metadata), text_of(root, "metadata")))
                return "metadata";
        return wrong ? wrong : copy_pid(root, &to->process) ? NULL : "pid";
}

/* Whether the text ended while the parser expected more. */
static bool is_cut_off(const char *text, size_t size, const json_error_t *error)
{
        size_t i = 0;

        while (i < size && isspace((unsigned char)text[i]))
                i++;
        return i == size || (text[i] == '{' && json_error_code(error) == json_error_premature_end_of_input);
}

int oci_state_parse(const char *text, size_t size, struct oci_container *ret, const char **ret_wrong)
{
        struct oci_container container = { 0 };
        json_error_t error = { 0 };
        _cleanup_(json_freep) json_t *root = NULL;

        *ret_wrong = "size";
        if (size > OCI_STATE_MAX)
                return -EINVAL;
        *ret_wrong = "JSON";
        root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
        if (!root && is_cut_off(text, size, &error))
                return OCI_E_NOT_WHOLE;
        if (!json_is_object(root))
                return -EINVAL;
        *ret_wrong = read_either(root, &container);
        if (*ret_wrong)
                return -EINVAL;
        *ret = container;
        return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

struct field {
        const char *annotation, *variable;
        size_t at, room;
};

static const struct field fields[] = {
#define ROW(name, word, variable)                                                                                      \
        {                                                                                                              \
                PREFIX word, "SUBLET_" variable "=", offsetof(struct oci_request, name),                               \
                        sizeof(((struct oci_request *)0)->name)                                                        \
        }
        ROW(mem, "mem", "MEM"),
        ROW(share, "share", "SHARE"),
        ROW(cap, "cap", "CAP"),
        ROW(class, "class", "CLASS"),
        ROW(latency, "latency", "LATENCY"),
        ROW(gpus, "gpus", "GPUS"),
        ROW(mode, "mode", "MODE"),
        ROW(job, "job", "JOB"),
        ROW(group, "group", "GROUP"),
        ROW(capabilities, "capabilities", "CAPABILITIES"),
        ROW(sleep_after, "sleep-after", "SLEEP_AFTER"),
        ROW(swap, "swap", "SWAP"),
        ROW(host_swap, "host-swap", "HOST_SWAP"),
#undef ROW
};

static const char *field_set(struct oci_request *to, const struct field *field, const char *text)
{
        if (!copy((char *)to + field->at, field->room, text) || !is_printable(text))
                return field->annotation;
        to->wants_gpu = true;
        return NULL;
}

static void see_unknown(const json_t *annotations, struct oci_request *to)
{
        const char *key;
        json_t *value;

        json_object_foreach ((json_t *)(uintptr_t)annotations, key, value) {
                size_t i = 0;

                while (i < ARRAY_SIZE(fields) && strcmp(key, fields[i].annotation) != 0)
                        i++;
                if (i == ARRAY_SIZE(fields) && !strncmp(key, PREFIX, strlen(PREFIX)) && is_printable(key))
                        (void)snprintf(to->unknown, sizeof(to->unknown), "%s", key);
        }
}

static const char *read_asked(const json_t *annotations, struct oci_request *to)
{
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
                const json_t *value = json_object_get(annotations, fields[i].annotation);
                const char *wrong =
                        value ? field_set(to, &fields[i], text_of(annotations, fields[i].annotation)) : NULL;

                if (wrong)
                        return wrong;
                if (fields[i].at == offsetof(struct oci_request, group))
                        to->has_group_annotation = value != NULL;
                else
                        to->has_annotations |= value != NULL;
        }
        see_unknown(annotations, to);
        return NULL;
}

/* The environment variables for which NVIDIA's hook would give it devices. Of several equal names the last one counts,
 * for that hook too: containerd 1.6 to 2.2 list a pod's variable after its image's, and keep both. */
struct visible {
        bool is_said, names_devices, has_version, has_require;
};

/* The variable's value, or NULL. */
static const char *value_of(const char *text, const char *name)
{
        size_t n = strlen(name);

        return !strncmp(text, name, n) ? text + n : NULL;
}

static void see_variable(const char *text, struct visible *visible, struct oci_request *to)
{
        const char *devices = value_of(text, "NVIDIA_VISIBLE_DEVICES="), *version = value_of(text, "CUDA_VERSION="),
                   *require = value_of(text, "NVIDIA_REQUIRE_CUDA="),
                   *capabilities = value_of(text, "NVIDIA_DRIVER_CAPABILITIES="),
                   *pipe = value_of(text, "CUDA_MPS_PIPE_DIRECTORY=");

        if (devices)
                visible->names_devices = *devices && strcmp(devices, "void") != 0 && strcmp(devices, "none") != 0;
        if (pipe)
                to->names_pipe = strcmp(pipe, "/" SIDE_PIPE) != 0;
        visible->is_said |= devices != NULL;
        if (capabilities && is_printable(capabilities))
                (void)copy(to->driver_capabilities, sizeof(to->driver_capabilities), capabilities);
        visible->has_version |= version && *version;
        if (require)
                visible->has_require = *require;
}

/* An image from before 2017 gets every device without naming any.
 * Source: nvidia-container-toolkit, internal/config/image/cuda_image.go, IsLegacy and DevicesFromEnvvars. */
static bool is_given_all(const struct visible *visible)
{
        return visible->has_version && !visible->has_require && !visible->is_said;
}

/* The last of several equal names counts. */
static const char *read_variable(const char *text, struct oci_request *to)
{
        for (size_t i = 0; i < ARRAY_SIZE(fields) && !to->has_annotations; i++)
                if (!strncmp(text, fields[i].variable, strlen(fields[i].variable)) &&
                    !(to->has_group_annotation && fields[i].at == offsetof(struct oci_request, group)))
                        return field_set(to, &fields[i], text + strlen(fields[i].variable));
        return NULL;
}

/* A device by name or by the driver's fixed major; a mounted device file of the host; or a mount that NVIDIA's hook
 * takes for a device's name (accept-nvidia-visible-devices-as-volume-mounts). */
static bool has_node(const json_t *root)
{
        const json_t *devices = json_object_get(json_object_get(root, "linux"), "devices"),
                     *mounts = json_object_get(root, "mounts"), *one;
        size_t i;

        json_array_foreach (devices, i, one) {
                if (!strncmp(text_of(one, "path"), NODE, strlen(NODE)) ||
                    json_integer_value(json_object_get(one, "major")) == MAJOR_NVIDIA)
                        return true;
        }
        json_array_foreach (mounts, i, one) {
                if (value_of(text_of(one, "source"), NODE) || value_of(text_of(one, "destination"), NAMED_BY_MOUNT))
                        return true;
        }
        return false;
}

static const char *read_config(const json_t *root, struct oci_request *to)
{
        const json_t *env = json_object_get(json_object_get(root, "process"), "env");
        const json_t *seccomp = json_object_get(json_object_get(root, "linux"), "seccomp");
        const char *wrong = read_asked(json_object_get(root, "annotations"), to);
        struct visible visible = { 0 };

        for (size_t i = 0; !wrong && i < json_array_size(env); i++) {
                const char *text = json_string_value(json_array_get(env, i));

                if (text)
                        see_variable(text, &visible, to);
                wrong = text ? read_variable(text, to) : NULL;
        }
        to->wants_gpu |= visible.names_devices || has_node(root) || is_given_all(&visible);
        if (!wrong && !copy(to->listener, sizeof(to->listener), text_of(seccomp, "listenerPath")))
                wrong = "listenerPath";
        return wrong;
}

int oci_config_parse(const char *text, size_t size, struct oci_request *ret, const char **ret_wrong)
{
        struct oci_request request = { 0 };
        _cleanup_(json_freep) json_t *root = NULL;

        *ret_wrong = "size";
        if (size > OCI_CONFIG_MAX)
                return -EINVAL;
        *ret_wrong = "JSON";
        root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(root))
                return -EINVAL;
        *ret_wrong = read_config(root, &request);
        if (*ret_wrong)
                return -EINVAL;
        *ret = request;
        return 0;
}

int oci_config_root(const char *text, size_t size, char ret[static OCI_ROOT])
{
        _cleanup_(json_freep) json_t *root = size > OCI_CONFIG_MAX ? NULL : json_loadb(text, size, 0, NULL);
        const char *path = text_of(json_object_get(root, "root"), "path");

        return *path && copy(ret, OCI_ROOT, path) ? 0 : -EINVAL;
}

const char *oci_container_format(const struct oci_container *container, char buffer[static 512])
{
        bool is_long = strlen(container->id) == 64 && !strpbrk(container->id, "_+-.");

        if (container->pod[0])
                (void)snprintf(buffer, 512, "%s/%s/%s", container->namespace, container->name, container->container);
        else
                (void)snprintf(buffer, 512, "%.*s", is_long ? ID_SHOWN : 127, container->id);
        return buffer;
}
