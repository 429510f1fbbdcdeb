/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace's programs held at each moment, worked out a second time, in the plainest way: lists, and
 * offsets written down here. It shares nothing with rm, gate or lease, so that a wrong row there shows.
 * Release 580 only.
 */
#pragma once

#include "trace.h"

struct naive;

enum naive_node {
        NAIVE_CTL, /* nvidiactl or nvidiaN */
        NAIVE_UVM,
        NAIVE_ELSE,
};

struct naive *naive_new(void);
void naive_free(struct naive *naive);

/* An event of `process` on the open file `file` (a number of the caller's); file_at tells the file
 * behind another descriptor number of the process. */
typedef uint64_t (*naive_file_at)(void *context, int fd);
void naive_see(struct naive *naive, unsigned int process, const struct trace_event *event, uint64_t file,
               enum naive_node node, naive_file_at file_at, void *context);

/* The last descriptor of an open file is gone; a process is gone. */
void naive_close(struct naive *naive, uint64_t file);
void naive_end(struct naive *naive, unsigned int process);

uint64_t naive_held(const struct naive *naive);
uint64_t naive_peak(const struct naive *naive);
