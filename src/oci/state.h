/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container runtime says of a container: the state that it gives to hooks and, with the notify descriptor, to
 * the seccomp listener; and those parts of the bundle's config.json that request a lease.
 *
 * Runtimes run as root and are trusted. What the container's author could write is not: names that Kubernetes would not
 * accept are refused, and a container's request is only a request (daemon/containers/agent.h).
 *
 * Pure: bytes in, values out. Source: runtime-spec 1.0.2, runtime.md (State) and config-linux.md
 * (containerProcessState); written by runc 1.1.5, crun 1.8.1 (over several lines, with ociVersion 0.2.0) and
 * containerd 1.6.20.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
        OCI_STATE_MAX = 256 * 1024,   /* bytes of a state */
        OCI_CONFIG_MAX = 1024 * 1024, /* bytes of a config.json; containerd's have 20 KiB */

        OCI_ROOT = 4096, /* bytes of a path */

        OCI_E_NOT_WHOLE = 1, /* the text ends early: more may come */
};

struct oci_container {
        char id[128];       /* as the runtime calls it: letters, digits, '_', '+', '-', '.' */
        char bundle[4096];  /* directory of its config.json; "": unknown */
        char status[16];    /* "creating", "created", "running", "stopped": runtimes differ; "": unknown */
        pid_t pid;          /* of the container's first process; 0: it has ended, or is unknown */
        pid_t process;      /* the process with the listener's filter; 0 in a hook's state */
        char metadata[64];  /* the profile's listenerMetadata (oci/profile.h); "": none */
        bool is_sandbox;    /* a pod's pause container */
        char pod[64];       /* UID; "": no Kubernetes pod. This and what follows come from annotations */
        char namespace[64]; /* the pod's namespace */
        char name[254];     /* the pod's name */
        char container[64]; /* name in the pod */
};

/* What a container requests, in the syntax of `sublet run`; "": nothing. */
struct oci_request {
        char mem[512], share[16], cap[16], class[16], latency[16], sleep_after[16], swap[16], host_swap[32], gpus[256],
                mode[16], job[64], group[64];
        char capabilities[64];
        char driver_capabilities[64]; /* NVIDIA_DRIVER_CAPABILITIES of its environment; counts if it asks for none */
        char unknown[64];             /* another annotation below sublet.dev/, perhaps misspelt; "": none */
        bool names_pipe;              /* its environment says where MPS's pipe is, and not where it is (side.h) */
        bool has_annotations;         /* the request comes from annotations, and the environment is ignored */
        bool has_group_annotation;    /* so does `group`, by which nothing else is ignored */
        char listener[108];           /* the listener of its seccomp profile; "": none */
        bool wants_gpu;               /* it requests something, or has a node of the driver */
};

/*
 * Parses the state that came with a listener (a containerProcessState, which contains the container's), or that a hook
 * got. 0; OCI_E_NOT_WHOLE: a JSON object begins and does not end; -EINVAL: not a state, or a bad name in it: *ret_wrong
 * (static) says which.
 */
int oci_state_parse(const char *text, size_t size, struct oci_container *ret, const char **ret_wrong);

/* Parses a bundle's config.json. 0; -EINVAL: not a config, or a field is too long: *ret_wrong (static) says which. */
int oci_config_parse(const char *text, size_t size, struct oci_request *ret, const char **ret_wrong);

/* Where the container's root is on the machine, as the same file says it; a path, or one relative to the bundle. 0;
 * -EINVAL. */
int oci_config_root(const char *text, size_t size, char ret[static OCI_ROOT]);

/* Writes "shop/web-0/main", or the id of a container without a pod (the first 12 of 64 digits). Returns buffer. */
const char *oci_container_format(const struct oci_container *container, char buffer[static 512]);
