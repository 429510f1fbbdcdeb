/*
 * What `sublet doctor` says: a line per question, a status word, and the next step where something
 * stands in the way.
 *
 * Pure: what was read comes in, a judgement goes out. Reading the machine is doctor.c's.
 */
#pragma once

#include "rm/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum finding_status {
        FINDING_OK,
        FINDING_LIMITED, /* tenants can be run; the text says with what limit */
        FINDING_UNKNOWN, /* cannot be told from here */
        FINDING_MISSING, /* no tenant can be run without it */
};

enum {
        FINDINGS_MAX = 96, /* two for each of 32 cards among them; what does not fit is left out */
};

struct finding {
        const char *name; /* static */
        enum finding_status status;
        char text[400];
        char next[600]; /* the next step; empty: none */
};

struct findings {
        struct finding items[FINDINGS_MAX];
        size_t n;
};

/* name is kept, not copied. The last finding may be given a next step. */
void findings_put(struct findings *findings, const char *name, enum finding_status status, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
void findings_next(struct findings *findings, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Nothing is missing. */
bool findings_can_run(const struct findings *findings);

/* "525.53 to 525.147.05, ...": the releases whose ABI is known; cut if the room is short. */
void findings_releases(char *ret, size_t size);

/* Yama's ptrace_scope, or -1: there is no Yama. Supervision is reading the tenant's memory. */
void findings_judge_ptrace(struct findings *findings, int yama, bool is_root, bool has_sys_ptrace);

/* The listener of a trial child: 0 or the errno of installing it. */
void findings_judge_listener(struct findings *findings, int error);

/* What was tried on a child, as the gate does it on a tenant: 0, or an errno. */
void findings_judge_call(struct findings *findings, const char *name, const char *what, int error);

/* SYNC_WAKE_UP: 0, or the errno of asking for it. kernel: the release, for people. */
void findings_judge_wake_up(struct findings *findings, int error, const char *kernel);

/* Values of parameters of nvidia_uvm, first character; 0: not readable. */
void findings_judge_uvm(struct findings *findings, char disable_hmm, char builtin_tests);

/* Nodes that a tenant could open and should not have; names with blanks between, "" for none. */
void findings_judge_nodes(struct findings *findings, const char *nodes);

void findings_text(FILE *to, const struct findings *findings);

/* One line. 0; -ENOMEM. */
int findings_json(FILE *to, const struct findings *findings);
