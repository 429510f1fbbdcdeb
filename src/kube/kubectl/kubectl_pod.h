/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `kubectl sublet explain POD` and `kubectl sublet set POD KEY=VALUE...`.
 *
 * Threads: one.
 */
#pragma once

#include "base/text.h"
#include "kube/kubectl/kubectl.h"

struct cluster;
struct err;

/* kubectl's options, and the words that are ours: KEY=VALUE, each of a key that pods have (resize.h). */
struct kubectl_words {
        struct kubectl kubectl;
        const char *pod; /* NULL: none was given */
        const char *words[8];
        size_t n_words;
};

/* Fills a copy of the cluster. 0; -errno with err. */
int kubectl_read_cluster(const struct kubectl *kubectl, struct cluster *cluster, struct err *err);

/* argv: what follows the verb. Options of kubectl's are moved to its front, which `ret` borrows. */
void kubectl_words(int argc, char **argv, bool has_settings, struct kubectl_words *ret);

/* Exit codes. */
int kubectl_explain(int argc, char **argv, bytes unit);
int kubectl_set(int argc, char **argv, bytes unit);
