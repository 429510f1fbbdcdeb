/*
 * The page: what libsublet.so is told about its tenant, on memory that the tenant can only read.
 *
 * A memfd under every seal. Who starts the tenant (`sublet run --preload`) puts it and the region (region.h) at two
 * fixed descriptor numbers, which go through fork and exec. No variable of the environment says anything.
 * Absent, unsealed, of another build or damaged: the library fails closed.
 */
#pragma once

#include "lease/lease.h"
#include "rm/layout.h"

enum {
        PAGE_FD = 1000, /* below the usual soft limit of 1024, above what programs use */
        PAGE_REGION_FD,

        PAGE_VERSION = 1,
};

struct page {
        char magic[8];
        uint32_t version, size;
        uint32_t uvm_major; /* of the driver's nodes; 0: none */
        uint32_t is_sim;    /* the nodes are the simulator's */
        struct lease lease; /* quotas as granted; nothing is ever counted here */
        struct rm_layout layout;
        uint64_t sum; /* of all that stands before it */
};

/* A sealed memfd. magic, version, size and sum are filled in. *ret_fd; -errno. */
int page_new(struct page *page, int *ret_fd);

/* Copies and checks it. 0; -EBADF: none there; -EPROTO: not sealed, not ours, or damaged. */
int page_read(int fd, struct page *ret);
