/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon has now: its devices, what others have on them, and which of its tenants are replicas of the
 * services in the file. A replica's tenant is called SERVICE-N, as `sublet plan` names it.
 */
#pragma once

#include "plan/read.h"

struct ask;

struct plan_tenant {
        char name[64];
        unsigned int service, replica;
        unsigned int device; /* the first it has */
        uint64_t devices;    /* all, as bits */
        bool is_on_several, swap;
        enum plan_way way;
        bytes quota;
        unsigned int share, cap; /* asked for, permille; 0, 1000: none */
        char class[16];
};

struct plan_live {
        struct plan_model models[PLAN_DEVICES_MAX];
        char names[PLAN_DEVICES_MAX][64]; /* of models that are not in our table */
        struct plan_others others[PLAN_DEVICES_MAX];
        uint64_t nvlink[PLAN_DEVICES_MAX];
        bytes host; /* sublet daemon --swap */
        char policy[16];
        size_t n_devices;
        struct plan_tenant tenants[PLAN_REPLICAS_MAX];
        size_t n_tenants;
};

/* From the daemon's answers; missing fields are 0. 0; -EPROTO: not a valid answer. Too large for the stack. */
int plan_live_read(const json_t *devices, const json_t *tenants, const struct plan_input *input, struct plan_live *ret,
                   struct err *err);

int plan_live_ask(struct ask *ask, const struct plan_input *input, struct plan_live *ret, struct err *err);

/* Sets devices and pins of the plan, which borrows them. */
void plan_live_fill(const struct plan_live *live, struct plan *plan);

/* The tenant of a replica; NULL: it does not run. */
const struct plan_tenant *plan_live_find(const struct plan_live *live, unsigned int service, unsigned int replica);
