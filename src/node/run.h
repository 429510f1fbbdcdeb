/* `sublet run`: what its files share. run.c: the order, and a tenant without a daemon; run_daemon.c: one with. */
#pragma once

#include "gate/gate.h"
#include "gpu/backend.h"
#include "node/grant.h"
#include "node/messages.h"

#include <linux/filter.h>
#include <stdatomic.h>

struct err;

struct run {
        struct grant grant;
        const char *tenant; /* --name, or the command's last path part */
        bool is_named;
        const char *report_path;
        bool is_quiet, is_json, is_verbose, ipc_host;
        uint64_t audit_ms; /* 0: the gate's own period */
        char **argv;       /* the command */

        /* Of the daemon. */
        const char *dir; /* --dir, SUBLET_DIR or the default */
        bool is_alone;   /* --no-daemon */
        bool is_preload; /* --preload: not under supervision, with libsublet.so inside */
        permille share;  /* 0: not given */
        permille cap;    /* 0: not given */
        const char *class, *mode;

        struct gpu_backend backend;
        struct gate_driver driver;
        struct lease lease;
        struct gate *gate;
        pid_t child;
        atomic_bool is_told[GATE_N_EVENTS];
};

/* An event, for people: what matters is said once, all of it with --verbose. untold: as many more of it. */
void run_print_event(struct run *run, enum gate_event event, pid_t process, const char *detail, uint64_t untold);

/* Into --report or onto stderr, as asked for; with exit code and time. */
void run_print_report(struct run *run, json_t *report, int code, nsec elapsed);

/* run_daemon.c: whether this tenant is the daemon's, then: runs it there. 0 or more: the exit code; -errno. */
int run_has_daemon(const struct run *run, bool *ret, struct err *err);
int run_with_daemon(struct run *run, const struct sock_fprog *filter, struct err *err);

/* run_wait.c: signals are blocked in every thread from here on and read from a descriptor; or -errno. */
int run_watch_signals(void);

/* One that has come. True: the command has ended, *ret_code is what a shell calls it. */
bool run_take_signal(int signals, pid_t child, int *ret_code);

/* run_preload.c: the command with libsublet.so in it; nobody supervises it. 0 or more: the exit code; -errno. */
int run_preloaded(struct run *run, struct err *err);

/* Its cards and its quotas without a daemon. 0; -errno. */
int run_prepare_lease(struct run *run, struct err *err);
void run_print_books(struct run *run, int code, nsec elapsed);
