/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of `sublet doctor`: a line per question, with a status word, and the next step where something is in the
 * way.
 *
 * Pure: values that were read come in, a judgement goes out. doctor.c, driver.c and kernel.c read the machine.
 */
#pragma once

#include "rm/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum finding_status {
        FINDING_OK,
        FINDING_LIMITED, /* tenants can run; the text names the limit */
        FINDING_UNKNOWN, /* cannot be determined from here */
        FINDING_MISSING, /* no tenant can run without it */
};

enum {
        FINDINGS_MAX = 128, /* three for each of 32 devices among them; further ones are dropped */
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

/* Adds a finding; name is kept, not copied. findings_next sets the next step of the last one; findings_gap does
 * both. */
void findings_put(struct findings *findings, const char *name, enum finding_status status, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
void findings_next(struct findings *findings, const char *format, ...) __attribute__((format(printf, 2, 3)));
void findings_gap(struct findings *findings, const char *name, enum finding_status status, const char *next,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Nothing is missing. */
bool findings_can_run(const struct findings *findings);

/* The releases whose ABI is known: "525.53 to 525.147.05, ..."; cut to size. */
void findings_releases(char *ret, size_t size);

/* A release that is not known: what was read of its branch, or that nothing was. */
void findings_judge_release(struct findings *findings, const char *release);

/* yama: its ptrace_scope; -1: there is no Yama. A supervisor must read the tenant's memory. */
void findings_judge_ptrace(struct findings *findings, int yama, bool is_root, bool has_sys_ptrace);

/* error: of installing a listener in a child; 0 or an errno. */
void findings_judge_listener(struct findings *findings, int error);

/* error: of a call tried on a child, as the gate makes it on a tenant; 0 or an errno. */
void findings_judge_call(struct findings *findings, const char *name, const char *what, int error);

/* error: of setting SYNC_WAKE_UP; 0 or an errno. kernel: the release, for display. */
void findings_judge_wake_up(struct findings *findings, int error, const char *kernel);

/* The first characters of two parameters of nvidia_uvm; 0: not readable. */
void findings_judge_uvm(struct findings *findings, char disable_hmm, char builtin_tests);

struct gpu_figures;

/* What device `index` tells of its health; NULL: it could not be asked. */
void findings_judge_health(struct findings *findings, unsigned int index, const struct gpu_figures *figures);

/* nodes: those that a tenant could open and should not have, separated by blanks; "": none. */
void findings_judge_nodes(struct findings *findings, const char *nodes);

void findings_text(FILE *to, const struct findings *findings);

/* One line. 0; -ENOMEM. */
int findings_json(FILE *to, const struct findings *findings);
