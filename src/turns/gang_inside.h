/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a struct gangs remembers; for gang_views.c (what devices tell, and what they are told), gang_demand.c (which
 * gangs want turns, and what they are owed) and gang_rounds.c (who is on).
 */
#pragma once

#include "turns/gangs.h"
#include "turns/inside.h"

/* A gang on one device. The sign is that of its entities there, added up. */
struct rank {
        unsigned int n_entities;
        struct turns_sign sign;
        nsec told_at, metered_until;
        bool was_seen;  /* switched to, since the gang came on */
        bool is_asleep; /* J5 */

        nsec used, always_on; /* up to here the account has it */
};

struct gang {
        uint64_t id;             /* 0: the slot is free */
        uint32_t devices, awake; /* bits; awake: those with a rank that is not asleep */
        unsigned int n_entities;
        struct rank ranks[GANGS_DEVICES_MAX];

        bool is_time_sliced, is_blocked;
        uint32_t weight;
        nsec owed, accounted_at;

        bool is_on;
        bool is_lent; /* J6: on without a turn */
        nsec since;   /* on since then */
        bool is_seen; /* one rank was, since then */

        bool has_turn, has_begun; /* of this round */
        nsec turn, until;
        bool is_chosen; /* gang_rounds.c, within a call */
};

struct gangs_device {
        int slots[TURNS_TENANTS_MAX]; /* of each tenant of the latest view, its gang's index; NOBODY: none */
        size_t n_slots;
        struct gangs_rest rest;
        nsec freed_at;       /* when a gang's turn ended here */
        nsec wake, wakes_at; /* when it is to be looked at; what it was told of that */
        int domain;          /* the device with the lowest number in it */
};

struct gangs {
        enum turns_policy policy;
        nsec period, period_most; /* of a round; the latter where gangs have their devices for themselves */
        nsec now;
        struct gang gangs[GANGS_MAX];
        size_t n; /* slots in use are below this */
        struct gangs_device devices[GANGS_DEVICES_MAX];
        struct gangs_round {
                nsec at, length;
        } rounds[GANGS_DEVICES_MAX];  /* by domain: the latest */
        nsec wake[GANGS_DEVICES_MAX]; /* by domain */
        uint32_t changed;             /* devices that have not been told yet */
};

/* For each bit of `bits`: `d` is its number. */
#define EACH_DEVICE(d, bits)                                                                                           \
        for (uint32_t d##_left = (bits), d = 0; d##_left && ((d = (uint32_t)__builtin_ctz(d##_left)), true);           \
             d##_left &= d##_left - 1)

/* It is decided here: it has two entities at least. */
static inline bool is_gang(const struct gang *gang)
{
        return gang->id && gang->n_entities > 1;
}

static inline int domain_of(const struct gangs *gangs, const struct gang *gang)
{
        return gangs->devices[__builtin_ctz(gang->awake ? gang->awake : gang->devices)].domain;
}

/* Its part of a round. */
static inline nsec part_of_round(const struct gangs *gangs, const struct gang *gang)
{
        return part(gangs->rounds[domain_of(gangs, gang)].length, gang->weight);
}

static inline void device_wake_at(struct gangs *gangs, uint32_t device, nsec at)
{
        gangs->devices[device].wake = nsec_min(gangs->devices[device].wake, at);
}

void gang_demand_update(struct gangs *gangs, struct gang *gang);
void gang_rounds_next(struct gangs *gangs);
