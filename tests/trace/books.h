/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's decisions and books over a recorded call, without a kernel or a driver between: what
 * src/gate does around perform(), with the reply that the real driver gave. */
#pragma once

#include "trace.h"

#include "gate/policy/decide.h"
#include "lease/lease.h"
#include "lease/ledger.h"

enum {
        BOOKS_DEVICES = 2, /* as many as any recording has */
};

struct books {
        struct rm_layout layout;
        struct lease lease;
        struct ledger *ledger;
        unsigned int n_calls, n_charges;
        bytes peak;             /* the most that was held on all devices together */
        uint32_t continued[64]; /* handles that the gate never saw: made by calls that it lets go on */
        size_t n_continued;
};

/* What became of one call. */
struct told {
        bool is_found;    /* it is a request of this release */
        bool is_recorded; /* its parameters are in the trace: it could be decided */
        bool is_client;   /* it made a client: ret_client */
        uint32_t client;
        uint32_t status; /* as the driver answered; 0: fine, or the block has none */
        struct rm_call call;
        struct gate_verdict verdict;
};

void books_init(struct books *books);
void books_done(struct books *books);
bytes books_held(const struct books *books); /* what is charged now, on all devices together */

/* The file behind another descriptor number of the process. */
typedef uint64_t (*books_file_at)(void *context, int fd);

/* An ioctl on a node; file and process are the caller's numbers. */
struct told books_ioctl(struct books *books, unsigned int process, const struct trace_event *event, uint64_t file,
                        enum rm_node node, books_file_at file_at, void *context);

/* A mapping of a UVM file, and its end. */
void books_mmap(struct books *books, unsigned int process, const struct trace_event *event, uint64_t file);
void books_munmap(struct books *books, unsigned int process, const struct trace_event *event);

void books_close(struct books *books, uint64_t file);
void books_end(struct books *books, unsigned int process);
