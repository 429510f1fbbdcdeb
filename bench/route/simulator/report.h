/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of the policies: every formula on every load, what better and worse knowledge is worth,
 * shares that change, capacity that binds; and the claims of docs/router-policy.md, checked.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct report_options {
        const char *traces;   /* directory of mooncake-conversation.jsonl and mooncake-synthetic.jsonl */
        unsigned int n_seeds; /* each figure is a mean over so many runs */
        const char *only;     /* one section: formulas, knowledge, changes, capacity, sleep; NULL: all */
};

/* Prints to stdout. 0: all claims hold; 1: one does not; negative: could not run. */
int report_run(const struct report_options *options, struct err *err);
