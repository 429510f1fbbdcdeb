/*
 * What kubelet is told of this node's devices, and what a container gets: pure, from a view of the devices.
 *
 * Kubelet counts ids and knows nothing of memory: an id stands for a unit of a device's memory, for a percent of its time, or for a
 * seat on it. Ids are as gpushare's: "GPU-<uuid>-_-<n>".
 *
 *  P1  what kubelet hands back is looked up among what we have: unknown, twice, or on a sick device is refused;
 *  P2  a container's memory is on one device. Where the extender places, it names the device on the pod, and ids are an amount only:
 *      kubelet's own choice of ids says nothing;
 *  P3  kubelet takes lists of at most 4 MiB: a unit that would need more is refused, with one that would do.
 */
#pragma once

#include "base/text.h"
#include "kube/plugin/grpc.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum {
        PLUGIN_DEVICES = 32,
        PLUGIN_UUID = 48,
        PLUGIN_ID = 64, /* kubelet: at most 63 characters */
        PLUGIN_NAME = 128,
        PLUGIN_LIST_MAX = GRPC_MESSAGE_MAX - 4096,
        PLUGIN_MOUNTS = 4, /* of a lease */
        PLUGIN_MOUNT_PATH = 256,
};

struct plugin_device {
        char uuid[PLUGIN_UUID];
        unsigned int index; /* as nvidia-smi numbers */
        bytes memory;
        bool is_healthy;
};

/* The devices, as last heard of. */
struct plugin_node {
        struct plugin_device devices[PLUGIN_DEVICES];
        size_t n_devices;
        bool is_heard; /* the daemon answers: a container could start now */
};

enum plugin_kind {
        PLUGIN_MEMORY, /* an id is `unit` bytes */
        PLUGIN_SHARE,  /* an id is a percent of a device's time */
        PLUGIN_COUNT,  /* an id is a device; only to be counted */
        PLUGIN_SEATS,  /* an id is one of `seats` equal places: plain time-slicing, nothing is kept apart */
        PLUGIN_MPS,    /* the same, beside each other under a control daemon of MPS */
};

struct plugin_resource {
        const char *name; /* "sublet.dev/gpu-mem" */
        enum plugin_kind kind;
        bool is_aliyun; /* its containers get gpushare's variables too */
        bytes unit;
        unsigned int seats;
};

/* What a container is to have a lease of. */
struct plugin_lease_request {
        const char *resource;
        char *const *ids;
        size_t n_ids;
        bytes memory;
        const struct plugin_device *device;
};

struct plugin_mount {
        char source[PLUGIN_MOUNT_PATH], target[PLUGIN_MOUNT_PATH];
        bool is_read_only;
};

/* How a container gets what it needs of the node. */
struct plugin_ways {
        bool is_placed;      /* P2: the extender names the device */
        bool has_cdi;        /* cdi_devices, which kubelet has since 1.28 */
        bool has_annotation; /* the same names as an annotation, for runtimes of before */
        bool has_nodes;      /* the device nodes themselves */
        const char *mps;     /* directory of MPS's pipes */

        /* Makes a lease that the container mounts, where no supervisor can be; or NULL. The number of mounts; -errno with err. */
        int (*lease)(void *context, const struct plugin_lease_request *asked,
                     struct plugin_mount ret[static PLUGIN_MOUNTS], struct err *err);
        void *context;
};

#define PLUGIN_CDI_KIND "sublet.dev/gpu" /* the kind of what `sublet cdi` writes */

/* How many ids a device has. */
unsigned int plugin_ids(const struct plugin_resource *resource, const struct plugin_device *device);

/* "GPU-...-_-7" of a device; and back: the device's place in the node. 0; -ENOENT: none of ours. */
void plugin_id_format(const struct plugin_device *device, unsigned int number, char id[static PLUGIN_ID]);
int plugin_id_parse(const struct plugin_resource *resource, const struct plugin_node *node, const char *id,
                    size_t *ret_device, unsigned int *ret_number);

/* Whether a list of this resource is one that kubelet takes (P3). 0; -EMSGSIZE with err. */
int plugin_fits(const struct plugin_resource *resource, const struct plugin_node *node, struct err *err);

/* The answers to kubelet's questions, encoded. 0; -EINVAL: not understood; -ENOENT, -EBUSY (P1, P2); -ENOMEM. */
int plugin_list(const struct plugin_resource *resource, const struct plugin_node *node, struct grpc_message *ret);
int plugin_options(struct grpc_message *ret);
int plugin_prefer(const struct plugin_resource *resource, const struct plugin_node *node,
                  const struct grpc_message *request, struct grpc_message *ret, struct err *err);
int plugin_allocate(const struct plugin_resource *resource, const struct plugin_node *node,
                    const struct plugin_ways *ways, const struct grpc_message *request, struct grpc_message *ret,
                    struct err *err);
int plugin_pre_start(const struct plugin_resource *resource, const struct plugin_node *node,
                     const struct grpc_message *request, struct grpc_message *ret, struct err *err);

/* Our RegisterRequest. endpoint: the name of our socket in kubelet's folder. */
int plugin_register(const char *resource, const char *endpoint, struct grpc_message *ret);

/* The daemon's answer to /v1/devices. 0; -EPROTO. */
int plugin_node_read(const json_t *root, struct plugin_node *ret);
bool plugin_node_equal(const struct plugin_node *a, const struct plugin_node *b);
