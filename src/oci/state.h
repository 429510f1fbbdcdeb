/*
 * What a container runtime says of a container: the state that it hands to hooks and, with the notify descriptor, to
 * the seccomp listener; and the little of the bundle's config.json that asks for a lease.
 *
 * Runtimes run as root and are believed. What the container's own author could write is not: names that Kubernetes
 * would not let in are refused, and what a container asks for is only asked (node/agent.h).
 *
 * Pure: bytes in, values out. Source: runtime-spec 1.0.2, runtime.md (State) and config-linux.md (containerProcessState);
 * runc 1.1.5, crun 1.8.1 and containerd 1.6.20 write it (crun over several lines, and with ociVersion 0.2.0).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
        OCI_STATE_MAX = 256 * 1024,   /* bytes of a state; annotations are of no use to anybody beyond that */
        OCI_CONFIG_MAX = 1024 * 1024, /* of a config.json; containerd's have 20 KiB */

        OCI_E_NOT_WHOLE = 1, /* it is cut off: more may come */
};

struct oci_container {
        char id[128];       /* as the runtime calls it: letters, digits, '_', '+', '-', '.' */
        char bundle[4096];  /* where its config.json is; "": not said */
        char status[16];    /* "creating", "created", "running", "stopped": runtimes do not agree; "": not said */
        pid_t pid;          /* of the container's first process; 0: it has ended, or is not said */
        pid_t process;      /* whose filter the listener belongs to; 0 in a hook's state */
        char metadata[64];  /* what the profile says of itself, with a listener (oci/profile.h); "": nothing */
        bool is_sandbox;    /* a pod's pause container */
        char pod[64];       /* UID; "": no pod of Kubernetes'. From here on by containerd's annotations */
        char namespace[64]; /* the pod's namespace */
        char name[254];     /* the pod's name */
        char container[64]; /* name in the pod */
};

/* What a container asks for, as `sublet run` reads it; "": not asked. */
struct oci_request {
        char mem[512], share[16], cap[16], class[16], gpus[256], mode[16];
        char unknown
                [64]; /* one more annotation below sublet.dev/; pods have such, others mean one of these; "": none */
        bool has_annotations; /* it comes from sublet.dev/ annotations, and what the environment says is left out */
        char listener[108];   /* where its seccomp profile sends its driver calls; "": nowhere */
        bool wants_gpu;       /* it asks for something, or was given a node of the driver's */
};

/*
 * The state that came with a listener (a containerProcessState: the container's is within), or that a hook is given.
 * 0; OCI_E_NOT_WHOLE: a JSON object begins there and does not end; -EINVAL: not a state, or a name in it is none, *ret_wrong
 * (static) says what.
 */
int oci_state_parse(const char *text, size_t size, struct oci_container *ret, const char **ret_wrong);

/* A bundle's config.json. 0; -EINVAL: not a config, or a field is too long, as *ret_wrong (static) says. */
int oci_config_parse(const char *text, size_t size, struct oci_request *ret, const char **ret_wrong);

/* "shop/web-0/main", for lines; the id where it is no pod's, 64 digits by the first 12. */
const char *oci_container_format(const struct oci_container *container, char buffer[static 512]);
