/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kubectl, so that every way of logging in that it knows works. Several calls may run at once.
 *
 * Threads: one.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct err;

enum {
        KUBECTL_ARGS = 48,
};

struct kubectl {
        char **options; /* the user's: --context, --kubeconfig, ...; borrowed */
        int n_options;
};

struct kubectl_call {
        pid_t process;
        int fd; /* its standard output */
};

/* `kubectl HEAD... OPTIONS... [-- TAIL...]`; both end with NULL, tail may be NULL. is_quiet: its errors are not shown.
 * 0; -E2BIG: more than KUBECTL_ARGS; -errno. */
int kubectl_begin(const struct kubectl *kubectl, const char *const *head, const char *const *tail, bool is_quiet,
                  struct kubectl_call *ret);

/* Waits for its output. 0, and *ret is the caller's; -EIO: it failed, or its output is not JSON. */
int kubectl_end(struct kubectl_call *call, json_t **ret);
