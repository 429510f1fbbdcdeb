/*
 * What `sublet top` knows: the devices, a row for each tenant and device, and of each the last minute, second by
 * second. Pure: answers of the daemon and the time go in.
 */
#pragma once

#include "base/text.h"
#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>

enum {
        CROWD_MINUTE = 60,
        CROWD_NAME = 64,
};

struct crowd_device {
        unsigned int index;
        char name[CROWD_NAME], policy[16], mode[16], state[16];
        bytes memory, leased, held;
        double busy; /* permille */
};

struct crowd_row {
        char tenant[CROWD_NAME], class[16], command[128];
        char sms[16]; /* its part of the multiprocessors: "25%", "32"; empty: all */
        unsigned int device, uid, n_processes;
        double granted, promised, share, cap; /* permille; cap 1000: none */
        bytes held, quota, peak;
        uint64_t n_refused;
        nsec used, since;
        bool is_waiting;

        double minute[CROWD_MINUTE]; /* granted; the newest last; negative: not seen then */
        int64_t second;              /* which second the newest is of */
        unsigned int n_sums;         /* how many answers of that second it is the mean of */
};

enum crowd_order {
        CROWD_BY_GPU,
        CROWD_BY_NAME,
        CROWD_BY_MEMORY,
        CROWD_BY_REFUSED,
        CROWD_N_ORDERS,
};

struct crowd {
        struct crowd_device *devices;
        struct crowd_row *rows;
        size_t n_devices, n_rows, n_tenants;
};

/* Takes the daemon's answers; who is not in them any more is gone. now: clock_now. 0; -ENOMEM (as it was). */
int crowd_put(struct crowd *crowd, const json_t *devices, const json_t *tenants, nsec now);
void crowd_sort(struct crowd *crowd, enum crowd_order order, bool is_reversed);
const char *crowd_order_name(enum crowd_order order);
void crowd_done(struct crowd *crowd);
