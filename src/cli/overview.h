/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sublet top` shows: the devices, a row for each tenant and device, and for each row the last minute, second by
 * second. Pure: the daemon's answers and the time are arguments.
 */
#pragma once

#include "base/text.h"
#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>

enum {
        OVERVIEW_MINUTE = 60,
        OVERVIEW_NAME = 64,
        OVERVIEW_PROCESSES = 16,
};

struct overview_device {
        unsigned int index;
        char name[OVERVIEW_NAME], policy[16], mode[16], state[16];
        bytes memory, leased, held;
        double busy;                                   /* permille */
        double temperature, watts, watts_limit, clock; /* degrees Celsius, watts, hertz; 0: not known */
        unsigned int n_others;                         /* tenants that the asker may not see */
        bytes others;                                  /* what they hold */
        bytes swap, swap_used;                         /* of the host, for suspended tenants; swap 0: no limit */
};

struct overview_process {
        unsigned int id;
        char command[24];
        bytes held;
};

struct overview_row {
        char tenant[OVERVIEW_NAME], class[16], command[128];
        char job[64], group[64]; /* empty: none */
        char sms[16];            /* its part of the multiprocessors: "25%", "32"; empty: all */
        unsigned int device, uid, n_processes;
        double granted, promised, share, cap; /* permille; cap 1000: none */
        bytes held, quota, peak;
        uint64_t n_refused;
        nsec used, since;
        bool is_waiting;
        char asleep[16];      /* "suspended", "resuming"; of one with --swap "out", "out, waits"; empty: it is there */
        char waits_for[96];   /* for what one that is out waits; empty: for nothing */
        bytes swapped;        /* what of it is in host memory instead */
        char engines[96];     /* besides graphics and compute, with work: "copy 12%" */
        bytes borrowed, lent; /* of the job's other tenants; to them */
        struct overview_process processes[OVERVIEW_PROCESSES]; /* the first of them */
        unsigned int n_shown;

        double minute[OVERVIEW_MINUTE]; /* granted; the newest last; negative: not seen then */
        int64_t second;                 /* which second the newest is of */
        unsigned int n_sums;            /* how many answers of that second it is the mean of */
};

enum overview_order {
        OVERVIEW_BY_GPU,
        OVERVIEW_BY_NAME,
        OVERVIEW_BY_MEMORY,
        OVERVIEW_BY_REFUSED,
        OVERVIEW_N_ORDERS,
};

struct overview {
        struct overview_device *devices;
        struct overview_row *rows;
        size_t n_devices, n_rows, n_tenants;
        size_t n_hidden;            /* rows behind those: the filter hides them, and they are remembered */
        char filter[OVERVIEW_NAME]; /* only rows with it in name, command, job or group; "": all */
};

/* Takes the daemon's answers, and removes tenants that they lack. A tenant that is new here begins with the minute that
 * the daemon remembers, if it was asked for that. now: clock_now. 0; -ENOMEM (nothing changed). */
int overview_update(struct overview *overview, const json_t *devices, const json_t *tenants, nsec now);
/* Shows the rows that match overview->filter, and hides the others. To be called before the rows are sorted. */
void overview_filter(struct overview *overview);
void overview_sort(struct overview *overview, enum overview_order order, bool is_reversed);
const char *overview_order_name(enum overview_order order);
void overview_done(struct overview *overview);
