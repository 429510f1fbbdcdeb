/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which way to share which device: services in, a plan out. Pure.
 *
 * Each device of the plan has one mode. A set of replicas may sit on a device in a mode if
 *      P1  their memory fits, with what the driver keeps;
 *      P2  what they need of its time at their busiest fits, with what the mode costs;
 *      P3  each meets its goal, by an estimate of its p99 in that mode (fit.c);
 *      P4  their trust allows it: a fault of one MPS client ends all, so only one team may share by MPS; an
 *          untrusted service gets hardware of its own, an instance or a device.
 *      P5  a replica of several devices is on devices of one server that can all take it, in turns or alone, those
 *          that NVLink joins first (near/near.h); on all of them or on none.
 * Replicas are placed largest first, each where it leaves the least memory over; a device is opened when no
 * open one can take it. That is not the best packing, but each step of it can be explained. A replica that runs
 * stays where it is if it can, and what others have on a device is not available.
 *
 * Its numbers are facts.def, measured where that says so.
 */
#pragma once

#include "base/clock.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        PLAN_SERVICES_MAX = 128,
        PLAN_DEVICES_MAX = 64,
        PLAN_SEATS_MAX = 48, /* of a device */
        PLAN_REPLICAS_MAX = 1024,
        PLAN_PARTS_MAX = 16, /* devices of a replica */
        PLAN_TEXT = 240,
};

enum plan_trust {
        PLAN_TEAM,      /* of one team: `team` says which */
        PLAN_TENANT,    /* somebody else: may fail, must not harm */
        PLAN_UNTRUSTED, /* runs unreviewed code */
};

enum plan_burst {
        PLAN_STEADY,
        PLAN_BURSTY,
        PLAN_RARE, /* idle for minutes: may be suspended if its first request can wait */
};

struct plan_service {
        char name[64], team[64];
        bytes memory; /* of a replica on each of its devices, its context included */
        double load;  /* of a device's time, mean, of a replica: 0 .. */
        nsec time;    /* of a request alone on the device; 0: batch work without requests */
        nsec goal;    /* for the p99 of a request; 0: none */
        nsec wake;    /* what a first request may wait for a suspended replica; 0: nothing */
        enum plan_trust trust;
        enum plan_burst burst;
        unsigned int count;
        unsigned int gpus; /* devices of a replica; 0 is 1 */
};

struct plan_model {
        const char *name;
        bytes memory;
        bool has_mig;
        bytes mig_slice;
};

enum plan_mode {
        PLAN_WHOLE,
        PLAN_TURNS,
        PLAN_SLICES,
        PLAN_SPATIAL,
        PLAN_MIG,
        PLAN_SUSPEND,
        PLAN_N_MODES,
};

enum plan_fact {
#define FACT(name, value, unit, meaning, source) PLAN_FACT_##name,
#include "plan/facts.def"
#undef FACT
        PLAN_N_FACTS,
};

struct plan_facts {
#define FACT(name, value, unit, meaning, source) double name;
#include "plan/facts.def"
#undef FACT
        bool is_replaced[PLAN_N_FACTS]; /* by a value of a file */
        char from[PLAN_TEXT];           /* the file's description of itself */
};

struct plan_seat {
        unsigned int service, replica;
        unsigned int part;  /* of a replica of several devices: which of them this is, from 0 */
        unsigned int share; /* permille */
        bool is_latency, is_batch;
        unsigned int compute, memory; /* MIG slices; 0: not in an instance */
        nsec p99;                     /* expected; 0: no requests */
};

/* The daemon's name of what a mode needs: tenants of different ways cannot be on one device. */
enum plan_way {
        PLAN_NO_WAY, /* the first tenant decides */
        PLAN_TIME,
        PLAN_SPACE,
        PLAN_INSTANCES,
        PLAN_N_WAYS,
};

/* What tenants outside the plan have on a device. */
struct plan_others {
        bytes memory;       /* leased to them */
        unsigned int share; /* promised to them, permille */
        enum plan_way way;  /* PLAN_NO_WAY: there are none */
        bool is_lost;       /* the device does not answer */
};

struct plan_device {
        size_t at; /* in the plan */
        const struct plan_model *model;
        struct plan_others others;
        unsigned int server; /* devices of equal numbers are in one machine */
        uint64_t nvlink;     /* bit i: NVLink joins it with device i of the plan */
        enum plan_mode mode;
        struct plan_seat seats[PLAN_SEATS_MAX];
        size_t n_seats;
        bool lacks_host; /* for `suspend` nothing else is missing */
        bytes memory_free;
        double time_free; /* share of the device's time that is not promised */
        char reason[PLAN_TEXT];
};

struct plan_left {
        unsigned int service, replica;
        char reason[PLAN_TEXT];
};

/* Where a replica runs now. */
struct plan_pin {
        unsigned int service, replica;
        uint64_t devices; /* as bits */
};

/* Tenants that are suspended almost always, beside those of the plan. memory and host are the caller's. */
struct plan_sleepers {
        bytes memory; /* of each; 0: nobody has asked */
        bytes host;   /* of each server: what it has for suspended tenants */

        unsigned int n, n_awake; /* that fit, and of them at once on their devices */
        unsigned int n_devices;  /* with room for one that wakes */
        bool is_host_full;       /* it is the host memory that bounds n */
};

struct plan {
        const struct plan_service *services; /* borrowed */
        size_t n_services;
        struct plan_facts facts;
        struct plan_device devices[PLAN_DEVICES_MAX];
        size_t n_devices; /* that there are; unused ones have no seats */
        struct plan_pin pins[PLAN_REPLICAS_MAX];
        size_t n_pins;
        bytes host; /* what each server has for suspended tenants; 0: nobody has said */
        struct plan_left left[PLAN_REPLICAS_MAX];
        size_t n_left; /* replicas that fit nowhere */
        struct plan_sleepers sleepers;
};

extern const struct plan_facts plan_facts;

const struct plan_model *plan_model(const char *name); /* NULL: not in the table */

/* The model that a driver calls `name` ("NVIDIA H100 80GB HBM3"), of several the nearest in memory. NULL: none. */
const struct plan_model *plan_model_of(const char *name, bytes memory);

const char *plan_mode_name(enum plan_mode mode);
enum plan_way plan_way_of(enum plan_mode mode);
const char *plan_way_name(enum plan_way way); /* the daemon's word: "time", "spatial", "mig"; "" */

/* services, facts, host, pins and the devices' models and others are set by the caller; the rest is filled in. */
void plan_make(struct plan *plan);

/* sleepers.c: fills in plan->sleepers, of a plan that is made; memory is not 0. */
void plan_count_sleepers(struct plan *plan);

/* sleepers.c: those of a device that may be suspended while they are idle, and the others. */
struct plan_rare {
        size_t n;
        bytes largest, sum;
        bytes awake; /* of the others */
};
struct plan_rare plan_rare_on(const struct plan *plan, const struct plan_device *device);

/* Who of them would wake too late, after how many seconds; NULL: nobody. */
const struct plan_service *plan_wakes_late(const struct plan *plan, const struct plan_device *device, double *ret);

/* The host memory that all sleepers in `suspend` on a server may need, but for those of device `but`
 * (n_devices: of none). */
bytes plan_asleep(const struct plan *plan, unsigned int server, size_t but);

bool plan_is_sleeper(const struct plan_service *service); /* may be suspended while it is idle */

unsigned int plan_parts(const struct plan_service *service); /* devices of a replica */

/* fit.c: whether the seats (service and replica set) may sit on the device in the mode; fills in the rest of
 * the device. False: `reason` says why not. */
bool plan_fit(const struct plan *plan, struct plan_device *device, enum plan_mode mode);
