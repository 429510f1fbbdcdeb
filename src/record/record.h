/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a run: which driver calls a tenant made and what became of each, as numbers. Nothing that a program
 * wrote, no address and no handle is in it, so that a user can send it. docs/run.md has the format:
 *
 *      sublet record 1
 *      release 580.159.04
 *      capabilities compute,utility
 *      call 0 CONTROL 0x20801346 76 0x56 0 lacks profile
 *      count 0 12
 *      others 0
 *      end
 *
 * Invariants:
 *      R1  a call that is as one before it in all that is written is only counted: the file is bounded;
 *      R2  what is new is written at once, so a run that is killed leaves all but the counts;
 *      R3  a reader takes nothing that the writer does not write.
 */
#pragma once

#include "gate/gate.h"

struct err;

enum {
        RECORD_ROWS_MAX = 4096,            /* different calls; the others are counted together */
        RECORD_LINE_MAX = 128,             /* bytes of a line, its end included */
        RECORD_RELEASE_MAX = 24,           /* bytes of a release, its end included */
        RECORD_TEXT_MAX = 2 * 1024 * 1024, /* bytes of a file: more than all lines of the writer */
};

struct record_row {
        struct gate_call call;
        uint64_t n; /* how often; 1 where the record has no count, because its run was killed */
};

struct record {
        struct record_row *rows; /* RECORD_ROWS_MAX of them; owned */
        size_t n_rows;
        uint64_t n_others;
        char release[RECORD_RELEASE_MAX];
        unsigned int capabilities;
        bool is_whole; /* it has its end */
};

void record_done(struct record *record);

/* ---- writing ---------------------------------------------------------------------------------- */

struct record_writer;

/* Begins a record in a file that is open and empty; takes fd over in any case. 0; -errno. */
int record_writer_new(int fd, struct rm_version release, unsigned int capabilities, struct record_writer **ret);

/* As gate_options.record wants it; context: the writer. */
void record_put(void *context, const struct gate_call *call);

/* Writes the counts, closes the file. NULL is fine. 0; -errno: something could not be written. */
int record_writer_end(struct record_writer *writer);

/* ---- reading ---------------------------------------------------------------------------------- */

/* Parses the text of a record; *ret is the caller's to end, also on failure. 0; -EINVAL, and err names the line;
 * -ENOMEM. */
int record_parse(const char *text, size_t size, struct record *ret, struct err *err);

/* "made", "lacks"; the words of the format. */
const char *record_outcome_name(enum gate_outcome outcome);

/* Prints which of a file's calls were not made, or were refused by the driver itself, and how to report them. A
 * verb's exit code. */
int record_explain(const char *path, bool is_json);

/* ---- what a number is -------------------------------------------------------------------------- */

enum {
        RECORD_MEANING_MAX = 96,
};

/* "a control of a subdevice: frame buffer": of which interface and part of the driver a number is. Returns buffer. */
const char *record_meaning(enum rm_kind kind, uint32_t number, char buffer[static RECORD_MEANING_MAX]);

/* "control", "class", "request". */
const char *record_what(enum rm_kind kind);

/* The driver's name of it, or "". */
const char *record_name(enum rm_kind kind, uint32_t number);
