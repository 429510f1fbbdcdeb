/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease descriptor: what libsublet.so knows of its tenant, in memory that the tenant can only read.
 *
 * It has one of two sources, and no other (no environment variable counts):
 *      LEASE_DESCRIPTOR_MOUNTED    a directory on a read-only mount, made by `sublet lease` and mounted by a container
 *              runtime. It holds the file `page`, owned by root, and a writable mount over the file `region`, which is
 *              the usage segment;
 *      LEASE_DESCRIPTOR_INHERITED  a memfd under every seal, and the usage segment, at two fixed descriptor numbers
 *              that pass through fork and exec: `sublet run --preload`.
 * The mount is tried first: a descriptor from inside cannot replace what a container's configuration gave. If the lease
 * descriptor is absent, writable, damaged, of another build, or for a driver release that this build does not know, the
 * library fails closed.
 */
#pragma once

#include "preload/sms.h"
#include "lease/lease.h"
#include "rm/layout.h"

#include <linux/filter.h>

enum {
        LEASE_DESCRIPTOR_FD_FIRST = 900, /* numbers of the library's own descriptors: above what programs use, */
        LEASE_DESCRIPTOR_FD_END = 1024,  /* and below the usual soft limit */
        LEASE_DESCRIPTOR_FD = 1000,
        LEASE_DESCRIPTOR_SEGMENT_FD,

        LEASE_DESCRIPTOR_VERSION = 4,
        LEASE_DESCRIPTOR_FILTER_MAX = 1024, /* instructions; the gate's filter has about half as many */
        LEASE_DESCRIPTOR_TOKEN = 16,        /* bytes */
};

#define LEASE_DESCRIPTOR_MOUNT_DIR "/run/sublet/lease"

enum lease_descriptor_source {
        LEASE_DESCRIPTOR_MOUNTED,
        LEASE_DESCRIPTOR_INHERITED, /* at LEASE_DESCRIPTOR_FD */
};

/* Whether the library hands its process over to the daemon's gate (attach.h). */
enum lease_descriptor_attach {
        LEASE_DESCRIPTOR_ATTACH_NEVER,
        LEASE_DESCRIPTOR_ATTACH_AUTO,     /* if that fails, the quota is kept inside */
        LEASE_DESCRIPTOR_ATTACH_REQUIRED, /* if that fails, no driver call is made */
};

struct lease_descriptor {
        char magic[8];
        uint32_t version, size;
        uint32_t uvm_major; /* of /dev/nvidia-uvm; 0: there is none */
        uint32_t is_sim;    /* the nodes are the simulator's */
        uint64_t tenancy;   /* this lease's number, as in the usage segment; never 0 */
        uint32_t attach;    /* enum lease_descriptor_attach */
        uint32_t n_filter;
        uint8_t token[LEASE_DESCRIPTOR_TOKEN]; /* proves to the daemon that a process is the tenancy's */
        char listening_socket[108];            /* the daemon's socket for self-attach; "": none */
        struct sms sms;
        struct lease lease; /* as granted; nothing is counted here */
        struct rm_layout layout;
        /* The gate's filter (gate/policy/filter.h), made outside: the library has no libseccomp. */
        struct sock_filter filter[LEASE_DESCRIPTOR_FILTER_MAX];
        uint64_t sum; /* of all fields above */
};

/* Sets magic, version, size and sum, and a random tenancy if it is 0. 0; -errno. */
int lease_descriptor_seal(struct lease_descriptor *descriptor);

/* Seals the descriptor and copies it to a sealed memfd: *ret_fd, the caller's. 0; -errno. */
int lease_descriptor_new(struct lease_descriptor *descriptor, int *ret_fd);

/* Copies and checks bytes of unknown origin. 0; -EPROTO. */
int lease_descriptor_parse(const void *from, size_t size, struct lease_descriptor *ret);

/* Copies and checks a file of that source. 0; -EBADF: fd is not open; -EPROTO: the file can be written to, is damaged,
 * or is no lease descriptor. */
int lease_descriptor_read(int fd, enum lease_descriptor_source source, struct lease_descriptor *ret);

/* Reads this process's lease descriptor. 0; -ENOENT: it has none; -EPROTO. */
int lease_descriptor_find(struct lease_descriptor *ret, enum lease_descriptor_source *ret_source);

/* Opens the usage segment of that source: a descriptor, the caller's; or -errno. */
int lease_descriptor_open_segment(enum lease_descriptor_source source);

struct stat;

/* Whether a mounted file belongs to root, or to nobody (as seen in a user namespace): the tenant must not own it. */
bool lease_descriptor_owner_is_good(const struct stat *st);
