/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between `sublet run`, the shims and the daemon: one JSON object per packet of a SOCK_SEQPACKET socket, at
 * most MESSAGE_MAX bytes, with "v":1 and "type". Descriptors, here in brackets, travel with the packet.
 *
 *      run -> daemon     lease, then listener + [listener]; return + [lease descriptor, usage segment]
 *      daemon -> run     granted, or refused; returned
 *      shim -> run       event, report, end       (the shim gets the daemon's end of that socket)
 *      daemon -> shim    set, move, end, join + [listener], event (name, level, text; for `sublet run` to print)
 *      shim -> daemon    hello + [control block], event, changed, moved, ended
 *      shim -> shim      borrow + [files], lent; stands; return_loan      (of one job: shim/jobs.h)
 *
 * Unknown fields are ignored, missing ones keep their defaults; of a newer "v", known fields are read. Fields:
 * docs/messages.md.
 *
 * Threads: any; a socket has one reader and one writer at a time.
 */
#pragma once

#include "lease/lease.h"
#include "turns/turns.h"
#include "wire/labels.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        MESSAGE_VERSION = 1,
        MESSAGE_MAX = 64 * 1024,
        MESSAGE_FDS = 4,
};

/* Of sleep_after, where it is not 0. */
#define MESSAGE_SLEEP_LEAST NSEC_PER_SEC
#define MESSAGE_SLEEP_MOST (7 * 24 * 3600 * NSEC_PER_SEC)

enum {
        MESSAGE_OK,
        MESSAGE_E_NONE,   /* would block */
        MESSAGE_E_CLOSED, /* the other end is gone */
};

struct message {
        json_t *body;
        int fds[MESSAGE_FDS]; /* -1: none, or taken */
        size_t n_fds;
        uint64_t sender; /* as which they are dropped: base/descriptors.h */
};

/* A body to which fields may be added; NULL: no memory. */
json_t *message_new(const char *type);

/* Sends, and consumes `body` in any case (NULL: -ENOMEM). fds stay the caller's. Never raises SIGPIPE and never
 * blocks, even on a blocking socket: the peer may be stopped. MESSAGE_OK; MESSAGE_E_NONE; MESSAGE_E_CLOSED; -EMSGSIZE;
 * -errno. */
int message_send(int socket, json_t *body, const int *fds, size_t n_fds);

/* Blocks if the socket does. On MESSAGE_OK *ret is the caller's until message_done. -EPROTO: no message (it is
 * consumed with its descriptors, and the next may be read); -errno. */
int message_receive(int socket, struct message *ret);
void message_done(struct message *message); /* also for _cleanup_; what was not taken is dropped (descriptors_drop) */

/* The same, from who may be hostile: `sender` is the caller's number for it (base/descriptors.h). */
int message_receive_from(int socket, uint64_t sender, struct message *ret);

/* Parses a packet's bytes. 0; -EPROTO. */
int message_parse(const char *text, size_t size, json_t **ret);

const char *message_type(const struct message *message);  /* never NULL */
int message_take_fd(struct message *message, size_t i);   /* -1: there is none */
int message_fd(const struct message *message, size_t i);  /* the same; it stays the message's */
bool message_has_fd(const struct message *message);       /* one that nobody has taken */
bool message_keep_fds(struct message *message, size_t n); /* drops what is behind the first n; true: there was more */

/* Fields; the default if it is not there or of another type. Text is the body's. */
const char *message_text(const json_t *body, const char *name, const char *otherwise);
int64_t message_number(const json_t *body, const char *name, int64_t otherwise);
bool message_flag(const json_t *body, const char *name, bool otherwise);

/* ---- enforcement mode: where a tenant's driver calls are decided ---------------------------------------------- */

enum enforcement {
        ENFORCEMENT_GATE,     /* by a shim, since its command was started under the filter */
        ENFORCEMENT_ATTACHED, /* by a shim, to which libsublet.so has handed the tenant over */
        ENFORCEMENT_PRELOAD,  /* inside its programs */
};

const char *enforcement_name(enum enforcement enforcement);     /* "gate", "attached", "preload" */
int enforcement_parse(const char *text, enum enforcement *ret); /* -EINVAL */

/* ---- lease: what `sublet run` asks for ----------------------------------------------------------- */

struct message_request {
        char tenant[64];                    /* the name */
        bool is_named;                      /* the user chose it; else it comes from the command */
        char gpus[256], mem[512], host[64]; /* as wire/grant.h reads them; "": not given */
        char managed[16], mode[16];         /* "": not given */
        char job[64];                       /* "": none */
        char group[64];                     /* "": none */
        char labels[LABELS_TEXT];           /* wire/labels.h; "": none */
        char capabilities[64];              /* a list: lease/capabilities.h; "": the default */
        char command[64];                   /* last part of its path, for people */
        enum enforcement enforcement;       /* ENFORCEMENT_PRELOAD: lease descriptor and usage segment are wanted */
        char attach[16];                    /* "auto", "never" (as ""), "required" */
        char sms[16];                       /* of enforcement mode preload: preload/sms.h; "": all */
        char directory[256];                /* make them in this directory; "": on descriptors */
        char machine[32];                   /* which machine the caller is on: gpu_machine */
        permille share;                     /* 0: an equal part of the rest */
        permille cap;                       /* TURNS_WHOLE: none */
        enum turns_class class;
        nsec goal;        /* of a step's p99 (turns.h); 0: none */
        nsec sleep_after; /* idle for so long, it is suspended (daemon/state/suspend/sleeper.h); 0: never */
        bool swap;        /* it may be suspended to make room for others (daemon/state/suspend/swapper.h) */
        bytes host_swap;  /* host memory that it may have while it is suspended; 0: as much as it has of the devices */
        bool ipc_host;
        uint64_t audit_ms; /* 0: the gate's own */
};

json_t *message_request_new(const struct message_request *request);

/* 0; -EINVAL: a field is too long or out of range, named in *ret_field (static). */
int message_request_parse(const json_t *body, struct message_request *ret, const char **ret_field);

/* ---- hello: what a tenant was granted ------------------------------------------------------------ */

/* The container of a tenant; docs/containers.md. Unknown texts are "". */
struct message_container {
        char id[128];       /* the runtime's name for it; "": the tenant is not a container */
        char pod[64];       /* its pod's UID; "": it belongs to no pod */
        char namespace[64]; /* the pod's namespace */
        char name[254];     /* the pod's name */
        char container[64]; /* its name in the pod */
};

/* All that a shim or a new daemon needs to know. Stored as JSON by the daemon. */
struct message_lease {
        uint64_t id; /* the daemon's number for this tenancy, never reused; 0: none */
        char tenant[64], command[64], mode[16];
        char job[64];   /* tenants of one owner, and of one namespace, with this name come on together; "": none */
        char group[64]; /* tenants of one owner, and of one namespace, with this name share the device as one */
        uint32_t team;  /* the number of that group (daemon/state/mps/mps.h); 0: none */
        char labels[LABELS_TEXT]; /* wire/labels.h; "": none */
        uid_t owner;
        int64_t since; /* seconds since the epoch */
        permille share, cap;
        enum turns_class class;
        nsec goal;        /* of a step's p99 (turns.h); 0: none */
        nsec sleep_after; /* idle for so long, it is suspended (daemon/state/suspend/sleeper.h); 0: never */
        bool swap;        /* it begins suspended, and is on the device in turns (daemon/state/suspend/swapper.h) */
        bytes host_swap;  /* host memory that it may have while it is suspended; 0: as much as it has of the devices */
        bool ipc_host;
        uint64_t audit_ms;

        struct {
                bool is_granted;
                bytes quota;
                struct lease_own own; /* as the daemon knows it */
        } devices[LEASE_DEVICES_MAX]; /* by PCI bus order; the shim probes the devices themselves */
        struct {
                char uuid[64]; /* of mode mig: the instance on the only device; "": none */
                uint32_t gpu, compute;
                bytes memory;
        } mig;
        bytes host;
        enum lease_managed managed;
        unsigned int capabilities; /* a mask of lease/capabilities.h */
        uint32_t groups_max, channels_max;
        struct message_container container;
        enum enforcement enforcement;
        char sms[16];        /* of enforcement mode preload; "": all */
        char directory[256]; /* the lease directory that its programs have mounted; "": none */
};

/* Copies quotas and limits from a lease that grant_apply has completed; the rest of *ret stays. */
void message_lease_fill(const struct lease *lease, struct message_lease *ret);

/* Applies it to a lease whose devices are filled in. 0; -ENODEV: a granted device does not exist. */
int message_lease_apply(const struct message_lease *from, struct lease *lease);

/* As in leases and in the API's answers; null if the tenant is not a container. */
json_t *message_container_new(const struct message_container *container);

json_t *message_lease_new(const struct message_lease *lease);

/* By its mode: side by side through MPS, or on a MIG instance. Neither: in turns. */
bool message_lease_is_spatial(const struct message_lease *lease);
bool message_lease_is_mig(const struct message_lease *lease);

/* Of an MPS server: of mode spatial, or of a trust group, which takes turns as one. */
bool message_lease_is_client(const struct message_lease *lease);

/* 0; -EINVAL. */
int message_lease_parse(const json_t *body, struct message_lease *ret);
