/*
 * The page: what libsublet.so is told about its tenant, on memory that the tenant can only read.
 *
 * It lies in one of two places, and nowhere else (no variable of the environment says anything):
 *      LEASE_DESCRIPTOR_MOUNTED        a directory on a read-only mount: `sublet lease` makes it, a container runtime mounts it. In it
 *                        the file `page`, which root owns, and over it a writable mount of the file `region`;
 *      LEASE_DESCRIPTOR_FD   a memfd under every seal, and the usage segment, at two fixed descriptor numbers, which go through
 *                        fork and exec: `sublet run --preload`.
 * The mount comes first: what is in a container's configuration cannot be replaced by a descriptor from inside. Absent,
 * writable, of another build, for a release that this build does not know, or damaged: the library fails closed.
 */
#pragma once

#include "preload/sms.h"
#include "lease/lease.h"
#include "rm/layout.h"

#include <linux/filter.h>

enum {
        LEASE_DESCRIPTOR_FD = 1000, /* below the usual soft limit of 1024, above what programs use */
        LEASE_DESCRIPTOR_SEGMENT_FD,

        LEASE_DESCRIPTOR_VERSION = 3,
        LEASE_DESCRIPTOR_FILTER_MAX = 1024, /* instructions; a filter has about half of it */
        LEASE_DESCRIPTOR_TOKEN = 16,
};

#define LEASE_DESCRIPTOR_MOUNT_DIR "/run/sublet/lease"

enum lease_descriptor_source {
        LEASE_DESCRIPTOR_MOUNTED,
        LEASE_DESCRIPTOR_INHERITED, /* at LEASE_DESCRIPTOR_FD */
};

/* Whether the library hands its process over to the daemon's gate (attach.h). */
enum lease_descriptor_attach {
        LEASE_DESCRIPTOR_ATTACH_NEVER,
        LEASE_DESCRIPTOR_ATTACH_AUTO,     /* where it can be done; else the quota is kept inside */
        LEASE_DESCRIPTOR_ATTACH_REQUIRED, /* where it cannot, no driver call is made */
};

struct lease_descriptor {
        char magic[8];
        uint32_t version, size;
        uint32_t uvm_major; /* of the driver's nodes; 0: none */
        uint32_t is_sim;    /* the nodes are the simulator's */
        uint64_t tenancy;   /* of this lease; the usage segment has the same number. Never 0 */
        uint32_t attach;    /* enum lease_descriptor_attach */
        uint32_t n_filter;
        uint8_t token[LEASE_DESCRIPTOR_TOKEN]; /* by which the daemon knows the tenancy's processes */
        char listening_socket[108];            /* the daemon's socket for that; "": none */
        struct sms sms;
        struct lease lease; /* quotas as granted; nothing is ever counted here */
        struct rm_layout layout;
        struct sock_filter filter
                [LEASE_DESCRIPTOR_FILTER_MAX]; /* as gate/policy/filter.h builds it: the library has no libseccomp */
        uint64_t sum;                          /* of all that stands before it */
};

/* Fills in magic, version, size and sum; and a tenancy, if there is none yet. 0; -errno. */
int lease_descriptor_seal(struct lease_descriptor *descriptor);

/* Sealed, on a memfd under seals. *ret_fd; -errno. */
int lease_descriptor_new(struct lease_descriptor *descriptor, int *ret_fd);

/* Bytes that somebody wrote, checked. 0; -EPROTO. */
int lease_descriptor_parse(const void *from, size_t size, struct lease_descriptor *ret);

/* Copies and checks what a descriptor holds. 0; -EBADF: none there; -EPROTO: writable in that place, not ours, or
 * damaged. */
int lease_descriptor_read(int fd, enum lease_descriptor_source source, struct lease_descriptor *ret);

/* The page of this process. 0; -ENOENT: it has none; -EPROTO. */
int lease_descriptor_find(struct lease_descriptor *ret, enum lease_descriptor_source *ret_source);

/* The region of that place; the caller's. Or -errno. */
int lease_descriptor_open_segment(enum lease_descriptor_source source);

/* Whether it belongs to root, or to nobody here (a user namespace): files of a mount, which the tenant must not own. */
struct stat;
bool lease_descriptor_owner_is_good(const struct stat *st);
