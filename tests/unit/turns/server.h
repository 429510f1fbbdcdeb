/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server on a virtual clock: devices, each with a scheduling thread of its own as in src/sched, and tenants on one or
 * several devices. The ranks of a job compute on their devices and then meet in a collective: each spins on its device
 * until all are there, and it goes on only while all of them are on their devices. Time goes in ticks of 0.1 ms; the
 * costs are those of model.h.
 *
 *      server_init(&server, 2, &(struct turns_settings){ 0 });
 *      a = server_add(&server, (struct server_tenant){ .devices = 3, .share = 700, .work = 2 * MSEC, .meet = MSEC });
 *      server_run(&server, 3 * SEC);
 */
#pragma once

#include "turns/gangs.h"

#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC
#define SEC NSEC_PER_SEC
#define TICK (100 * USEC)

enum {
        SERVER_DEVICES = 16,
        SERVER_TENANTS = 160,
        SERVER_MSECS = 6000,
};

/* A tenant has a rank on each of its devices. The tenants of a job have the same `job`, and their ranks meet. */
struct server_tenant {
        uint32_t devices; /* bits */
        uint64_t job;     /* 0: itself */
        permille share, cap;
        enum turns_class class;
        uint32_t uses; /* bits: devices on which it works at all; 0: all of them */
        nsec work,
                meet; /* of a step: each rank's own, and the collective's; meet 0: ranks do not wait for each other */
        nsec gap;     /* on the host, after each step, without a sign of work */
        nsec skew;    /* rank k works so much longer each, so the first waits for the last */
        nsec begins_at, quiet_from, quiet_until;
        bool is_idle;
        uint32_t lies; /* bits: devices on which its rings say that work waits, whatever it does */

        /* results */
        uint64_t n_steps;
};

struct server_rank {
        int tenant;
        unsigned int device;
        bool is_there, is_enabled, must_enable, must_disable;
        nsec slice;

        /* the step */
        nsec left;             /* of its own work */
        bool is_there_for_all; /* in the collective */
        bool is_running;       /* on the device and past the ramp, in this tick */

        nsec used, started_at;
        uint64_t n_starts;
        uint16_t had[SERVER_MSECS];    /* us on the device */
        uint16_t wanted[SERVER_MSECS]; /* us with work */
};

struct server_job {
        uint64_t id;
        nsec meet_left, resumes_at;
        nsec half_since, half_most; /* enabled on some of its devices only: since when, and the longest */
        int first;                  /* tenant */
        int ranks[2 * SERVER_DEVICES], n_ranks;
};

struct server_device {
        struct turns *turns;
        int ranks[SERVER_TENANTS], n; /* index of rank */
        int current, incoming;        /* rank, or -1 */
        nsec slice_end, ramp_until, on_at;
        nsec wake_at, on_done, off_done, busy_until;
        nsec wasted; /* nobody with work was on it, while a tenant that has this device only had work */
};

struct server {
        unsigned int n_devices;
        nsec now;
        struct gangs *gangs;
        struct server_device devices[SERVER_DEVICES];
        struct server_tenant tenants[SERVER_TENANTS];
        int n_tenants, n_ranks, n_jobs;
        struct server_rank ranks[4 * SERVER_TENANTS];
        struct server_job jobs[SERVER_TENANTS];
        uint64_t random;
        bool is_rough; /* calls take longer now and then */
        uint64_t n_passes, n_switches;
};

void server_init(struct server *server, unsigned int n_devices, const struct turns_settings *settings);
int server_add(struct server *server, struct server_tenant tenant);
void server_run(struct server *server, nsec until);
void server_done(struct server *server);

uint32_t server_below(struct server *server, uint32_t bound); /* random */

/* us on the device; from, length in milliseconds. */
nsec server_had(const struct server *server, int tenant, unsigned int device, int from, int length);
nsec server_half(const struct server *server, int tenant); /* its job was half on for so long, at most */
