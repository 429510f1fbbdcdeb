/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of one measurement: loads that begin at one moment, each natively or as a tenant of `sublet run`, and
 * the daemon of those tenants. All are children of this process and die with it.
 *
 *      team_begin(&team); team_add(&team, how, work); ... team_gather(&team, &err);
 *      field_real(team.members[0].said, "n")
 */
#pragma once

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct err;

enum {
        TEAM_MAX = 4,
        TEAM_WORDS = 48, /* of a command */
        TEAM_PATH = 128,
};

struct team_member {
        pid_t pid; /* 0: has ended */
        char name[16];
        bool is_tenant;
        json_t *said; /* owned */
};

struct team {
        char dir[64];    /* ours, and empty at the start */
        char policy[48]; /* of the daemon that runs, and its other options; "": none does */
        pid_t daemon;
        unsigned int rounds; /* of arithmetic in a millisecond; 0: not calibrated */
        nsec span;           /* how long a load is measured */
        struct team_member members[TEAM_MAX];
        size_t n;
};

int team_open(struct team *team, nsec span, struct err *err);
void team_close(struct team *team); /* also ends processes that are left */

/* A daemon of that policy ("auto", "slices", "auto --swap 8G"), if it does not run already; "": none. */
int team_daemon(struct team *team, const char *policy, struct err *err);

/* Forgets the last measurement; the processes have ended. */
void team_begin(struct team *team);

/*
 * Adds a load: the options of `sublet run` (NULL: it is no tenant) and those of `sublet burn`, separated by blanks.
 * 0; -errno.
 */
int team_add(struct team *team, const char *run, const char *burn, struct err *err);

/* Waits until all are ready and starts them; waits until they have ended, and reads what they print. */
int team_ready(struct team *team, struct err *err);
int team_gather(struct team *team, struct err *err);

/* Runs a command of this program alone; *ret is what it printed on stdout, as JSON. */
int team_ask(struct team *team, const char *words, json_t **ret, struct err *err);

/* A figure that member `i` said; 0 if it did not. */
double team_figure(const struct team *team, size_t i, const char *name);
