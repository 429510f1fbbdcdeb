/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of devices that kubelet gets, and what a container gets. Pure, from a view of the devices.
 *
 * Kubelet counts ids and knows nothing of memory: an id stands for a unit of a device's memory, a percent of its time,
 * or a seat on it. Ids have gpushare's form: "GPU-<uuid>-_-<n>".
 *
 *  P1  Ids that kubelet hands back are checked: unknown ones, duplicates and those of an unhealthy device are refused.
 *  P2  A container's memory is on one device. Where the extender places, it names the device on the pod, and the ids
 *      are only an amount: which ids kubelet chose means nothing.
 *      Kubelet's account is one of sums. So where there is host memory for containers with swap, which together may
 *      have more than the devices, it counts in ids; that nobody else gets them is the extender's affair.
 *  P3  Kubelet takes lists of at most 4 MiB: a unit that needs more is refused, and the message names one that fits.
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
        PLUGIN_MOUNTS = 4, /* of one lease */
        PLUGIN_MOUNT_PATH = 256,
};

struct plugin_device {
        char uuid[PLUGIN_UUID];
        unsigned int index; /* as in nvidia-smi */
        bytes memory;
        bytes lent; /* beyond that, for containers with swap: it counts in ids, and is host memory */
        bool is_healthy;
        int numa;        /* -1: not known */
        uint32_t nvlink; /* bit i: joined with the device at i of the node's */
};

/* The devices, as the daemon last reported them. */
struct plugin_node {
        struct plugin_device devices[PLUGIN_DEVICES];
        size_t n_devices;
        bytes swap;        /* the host's memory for tenants with --swap; 0: none */
        bool is_daemon_up; /* the daemon answers, so a container can start now */
        bool is_placed;    /* P2: ids mean no device, so kubelet is told no NUMA nodes */
};

enum plugin_kind {
        PLUGIN_MEMORY, /* an id is `unit` bytes */
        PLUGIN_SHARE,  /* an id is a percent of a device's time */
        PLUGIN_COUNT,  /* an id is a device; a figure, never allocated */
        PLUGIN_SEATS,  /* an id is one of `seats` of a device: plain time-slicing without quotas */
        PLUGIN_MPS,    /* the same, at once under an MPS control daemon */
};

struct plugin_resource {
        const char *name; /* "sublet.dev/gpu-mem" */
        enum plugin_kind kind;
        bool is_aliyun; /* containers get gpushare's variables too */
        bytes unit;
        unsigned int seats;
        bool is_single; /* a container has one seat at most */
};

/* What a container gets a lease for. All of it is borrowed. */
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

/* How a container gets its devices. */
struct plugin_ways {
        bool is_placed;      /* P2: the extender names the device */
        bool has_cdi;        /* cdi_devices, known to kubelet since 1.28 */
        bool has_annotation; /* the same names as an annotation, for older kubelets */
        bool has_nodes;      /* the device nodes themselves */
        const char *mps;     /* directory of the MPS pipes; NULL: no MPS */

        /* Makes a lease that the container mounts, for containers without a supervisor; NULL: none. Returns the number
         * of mounts; -errno with err. */
        int (*lease)(void *context, const struct plugin_lease_request *asked,
                     struct plugin_mount ret[static PLUGIN_MOUNTS], struct err *err);
        void *context;
};

#define PLUGIN_CDI_KIND "sublet.dev/gpu" /* kind of the devices that `sublet cdi` writes */

/* How many ids a device has. */
unsigned int plugin_ids(const struct plugin_resource *resource, const struct plugin_device *device);

/* An id from a device and a number, and back to the device's index in the node. 0; -ENOENT: not one of ours. */
void plugin_id_format(const struct plugin_device *device, unsigned int number, char id[static PLUGIN_ID]);
int plugin_id_parse(const struct plugin_resource *resource, const struct plugin_node *node, const char *id,
                    size_t *ret_device, unsigned int *ret_number);

/* P3. 0; -EMSGSIZE with err. */
int plugin_fits(const struct plugin_resource *resource, const struct plugin_node *node, struct err *err);

/* The answers to kubelet, encoded. 0; -EINVAL: malformed request; -ENOENT, -EBUSY (P1, P2); -ENOMEM. */
int plugin_list(const struct plugin_resource *resource, const struct plugin_node *node, struct grpc_message *ret);
int plugin_options(struct grpc_message *ret);
int plugin_prefer(const struct plugin_resource *resource, const struct plugin_node *node,
                  const struct grpc_message *request, struct grpc_message *ret, struct err *err);
int plugin_allocate(const struct plugin_resource *resource, const struct plugin_node *node,
                    const struct plugin_ways *ways, const struct grpc_message *request, struct grpc_message *ret,
                    struct err *err);
int plugin_pre_start(const struct plugin_resource *resource, const struct plugin_node *node,
                     const struct grpc_message *request, struct grpc_message *ret, struct err *err);

/* Our RegisterRequest. endpoint: name of our socket in kubelet's directory. */
int plugin_register(const char *resource, const char *endpoint, struct grpc_message *ret);

/* The daemon's answer to /v1/devices. 0; -EPROTO. Nothing is lent yet. */
int plugin_node_read(const json_t *root, struct plugin_node *ret);
void plugin_node_lend(struct plugin_node *node); /* P2: an equal part of `swap` with each device */
bool plugin_node_equal(const struct plugin_node *a, const struct plugin_node *b);
