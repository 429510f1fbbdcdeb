/* `sublet run`: what its files share. run.c: the order, and a tenant without a daemon; run_daemon.c: one with. */
#pragma once

#include "gate/gate.h"
#include "gpu/backend.h"
#include "preload/lease_descriptor.h"
#include "wire/grant.h"
#include "wire/messages.h"

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
        const char *dir;       /* --dir, SUBLET_DIR or the default */
        bool is_alone;         /* --no-daemon */
        bool is_preload;       /* --preload: not under supervision, with libsublet.so inside */
        const char *directory; /* `sublet lease`: the directory that is to be made; NULL: none */
        const char *attach;    /* --attach, or NULL: where it can be done */
        permille share;        /* 0: not given */
        permille cap;          /* 0: not given */
        const char *class, *mode;
        struct sms sms;       /* both 0: not given */
        const char *sms_text; /* as it was given, or NULL */

        struct gpu_backend backend;
        struct gate_driver driver;
        struct lease lease;
        unsigned int sms_given, sms_of; /* after the run; 0: no partition was made */
        struct gate *gate;
        pid_t child;
        atomic_bool is_printed[EVENT_N];
};

/* An event, for people: what matters is said once, all of it with --verbose. untold: as many more of it. */
void run_print_event(struct run *run, enum event_kind event, pid_t process, const char *detail, uint64_t n_unsent);

/* Into --report or onto stderr, as asked for; with exit code and time. */
void run_print_report(struct run *run, json_t *report, int code, nsec elapsed);

/* run_daemon.c: whether this tenant is the daemon's, then: runs it there. 0 or more: the exit code; -errno. */
int run_has_daemon(const struct run *run, bool *ret, struct err *err);
int run_with_daemon(struct run *run, const struct sock_fprog *filter, struct err *err);

/* A tenant's conversation with its shim, or with the daemon itself as long as it has none. */
struct run_talk {
        struct run *run;
        int socket; /* -1: nobody is there */
        json_t *report;
        bool has_failed;

        int descriptor, segment; /* of --preload; else -1 */
        uint64_t tenancy;
        bool is_looking; /* for the next daemon, until it has said that we are back */
        nsec tried_at;   /* to reach it */
};

/* Asks for a lease; with --preload lease descriptor and usage segment come with it. Opens talk->socket. 0; -errno. */
int run_ask(struct run_talk *talk, struct err *err);
bool run_has_shim(const struct run_talk *talk);               /* it began under a gate, or has attached itself */
int run_wait_for_command(struct run_talk *talk, int signals); /* its exit code */
void run_wait_for_report(struct run_talk *talk);
void run_talk_done(struct run_talk *talk);

/* run_wait.c: signals are blocked in every thread from here on and read from a descriptor; or -errno. */
int run_watch_signals(void);

/* One that has come. True: the command has ended, *ret_code is what a shell calls it. */
bool run_take_signal(int signals, pid_t child, int *ret_code);

/* run_options.c: what `sublet run` and `sublet lease` both take; a verb's own options are numbered from RUN_OPTION_NEXT. */
enum {
        RUN_OPTION_ATTACH = 256,
        RUN_OPTION_DIR,
        RUN_OPTION_GPU,
        RUN_OPTION_HOST,
        RUN_OPTION_MANAGED,
        RUN_OPTION_MEM,
        RUN_OPTION_NAME,
        RUN_OPTION_NO_DAEMON,
        RUN_OPTION_SMS,
        RUN_OPTION_NEXT,
};

/* Rows of a table for getopt_long. */
#define RUN_OPTIONS                                                                                                    \
        { "attach", required_argument, NULL, RUN_OPTION_ATTACH }, { "dir", required_argument, NULL, RUN_OPTION_DIR },  \
                { "gpu", required_argument, NULL, RUN_OPTION_GPU },                                                    \
                { "gpus", required_argument, NULL, RUN_OPTION_GPU },                                                   \
                { "host-mem", required_argument, NULL, RUN_OPTION_HOST },                                              \
                { "managed", required_argument, NULL, RUN_OPTION_MANAGED },                                            \
                { "mem", required_argument, NULL, RUN_OPTION_MEM },                                                    \
                { "memory", required_argument, NULL, RUN_OPTION_MEM },                                                 \
                { "name", required_argument, NULL, RUN_OPTION_NAME },                                                  \
                { "no-daemon", no_argument, NULL, RUN_OPTION_NO_DAEMON },                                              \
        {                                                                                                              \
                "sms", required_argument, NULL, RUN_OPTION_SMS                                                         \
        }

/* 0: taken, or -EINVAL. Of an option that is none of them: says that it is unknown, or that its value is missing. */
int run_take_option(struct run *run, int option, char **argv, const char *verb, struct err *err);

/* What was not said: the tenant's name, and where the daemon is. path: what names a tenant that has no name; borrowed. */
void run_fill_in(struct run *run, const char *path);

/* run_preload.c: whether this machine can; what only the library can know it says itself. 0; -ENOTSUP. */
int run_check_sms(const struct run *run, struct err *err);

/* run_preload.c: the command with libsublet.so in it; nobody supervises it. 0 or more: the exit code; -errno. */
int run_preloaded(struct run *run, bool has_daemon, struct err *err);

/* Its cards and its quotas without a daemon. 0; -errno. */
int run_prepare_lease(struct run *run, struct err *err);
void run_print_books(struct run *run, int code, nsec elapsed);
