/*
 * The processes of one measurement: loads, each alone or as a tenant of `sublet run`, that begin at one moment; and
 * the daemon that they are tenants of. All are our children, and die with us.
 *
 *      crew_begin(&crew); crew_add(&crew, how, work); ... crew_gather(&crew, &err); field_real(crew.hands[0].said, "n")
 */
#pragma once

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct err;

enum {
        CREW_MAX = 4,
        CREW_WORDS = 48, /* of a command */
        CREW_PATH = 128,
};

struct crew_hand {
        pid_t pid; /* 0: has ended */
        char name[16];
        bool is_tenant;
        json_t *said; /* owned */
};

struct crew {
        char dir[64];    /* ours, and empty at the start */
        char policy[16]; /* of the daemon that runs; "": none does */
        pid_t daemon;
        unsigned int rounds; /* of arithmetic in a millisecond; 0: not calibrated */
        nsec span;           /* how long a load is measured */
        struct crew_hand hands[CREW_MAX];
        size_t n;
};

int crew_open(struct crew *crew, nsec span, struct err *err);
void crew_close(struct crew *crew); /* also ends who is left */

/* A daemon of that policy ("auto", "slices"), if it does not run already; "": none. */
int crew_daemon(struct crew *crew, const char *policy, struct err *err);

/* Forgets the last measurement; the processes have ended. */
void crew_begin(struct crew *crew);

/*
 * One more load: the options of `sublet run` (NULL: it is nobody's tenant) and those of `sublet burn`, words with blanks between. 0; -errno.
 */
int crew_add(struct crew *crew, const char *run, const char *burn, struct err *err);

/* Waits until all are ready; lets them go; waits until they have ended and takes what they said. */
int crew_ready(struct crew *crew, struct err *err);
int crew_gather(struct crew *crew, struct err *err);

/* A command of ours alone: what it said on stdout, as JSON. */
int crew_ask(struct crew *crew, const char *words, json_t **ret, struct err *err);

/* A figure that hand `i` said; 0 if it did not. */
double crew_said(const struct crew *crew, size_t i, const char *name);
