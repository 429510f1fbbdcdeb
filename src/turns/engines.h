/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on one fixed-function engine of a device (copy, decoder, ...). Pure, as turns/turns.h: time is a parameter.
 *
 * The policy is a plain round robin, because little is known: there is no context-switch log for these engines, only
 * rings with work or without (sched/engines.c).
 *
 * Promises (tests/unit/turns/engines.c):
 *      E1  among tenants that want the engine, time is divided by shares, measured over a second;
 *      E2  one that wants it alone has it; what a share leaves unused is lent at once;
 *      E3  no tenant has more than its cap over a second, once it has used 100 ms of it;
 *      E4  a tenant that wants nothing is enabled: its next work runs, and shows that it wants.
 *
 * Threads: none; a struct engine_turns belongs to its caller.
 */
#pragma once

#include "turns/turns.h"

struct engine_tenant {
        uint64_t id;
        permille share; /* 0: none was promised; an equal part of what is left */
        permille cap;   /* TURNS_WHOLE: none */
        bool wants;     /* it has work for the engine */
        nsec used;      /* never falls */
};

struct engine_turns;

int engine_turns_new(const struct turns_settings *settings, struct engine_turns **ret); /* -ENOMEM */
struct engine_turns *engine_turns_free(struct engine_turns *turns);                     /* NULL is fine */

/* Whom to disable from now on, one flag per tenant, at most TURNS_TENANTS_MAX. Returns the latest time of the next
 * call; earlier calls do no harm. */
nsec engine_turns_next(struct engine_turns *turns, nsec now, const struct engine_tenant *tenants, size_t n,
                       bool *ret_is_disabled);
