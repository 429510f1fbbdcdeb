/* SPDX-License-Identifier: Apache-2.0 */
/* The lease of a replica, in the terms of `sublet run` and the daemon's API. */
#pragma once

#include "plan/plan.h"

enum {
        PLAN_NAME = 80,     /* of a replica: SERVICE-N */
        PLAN_COMMAND = 320, /* "sublet run ..." */
        PLAN_GPUS = 64,     /* "0,1" of PLAN_PARTS_MAX devices */
};

struct plan_lease {
        char name[PLAN_NAME];
        unsigned int device; /* the first */
        uint64_t devices;    /* all of them, as bits of the plan's */
        bytes quota;         /* whole MiB */
        enum plan_way way;
        char group[64];     /* of --mode spatial: the trust group that a pod asks for instead; "": none */
        bool has_share;     /* else neither share nor class matter */
        unsigned int share; /* permille */
        const char *class;
        bool swap; /* it may be suspended for others */
};

void plan_lease_of(const struct plan *plan, size_t device, const struct plan_seat *seat, struct plan_lease *ret);

/* "0,1" */
void plan_gpus_format(uint64_t devices, char ret[static PLAN_GPUS]);

/* The command that starts the replica: "sublet run --gpu 0 --mem 8192M ... -- COMMAND". */
void plan_command(const struct plan_lease *lease, char ret[static PLAN_COMMAND]);
