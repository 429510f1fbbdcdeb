/*
 * kubectl, run as a program: every way of logging in that it knows is known to us. Several may run at once.
 *
 * Threads: none.
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
        char **options; /* what the user gave: --context, --kubeconfig, ...; borrowed */
        int n_options;
};

struct kubectl_call {
        pid_t process;
        int fd; /* what it says */
};

/* `kubectl HEAD... OPTIONS... [-- TAIL...]`; both end with NULL, tail may be NULL. is_quiet: its errors are not shown. 0; -errno. */
int kubectl_begin(const struct kubectl *kubectl, const char *const *head, const char *const *tail, bool is_quiet,
                  struct kubectl_call *ret);

/* Waits for what it says. 0, and *ret is the caller's; -EIO: it failed, or what it said is not JSON. */
int kubectl_end(struct kubectl_call *call, json_t **ret);
