/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet run` and `sublet lease`: what their files share. run.c runs a tenant without a daemon, with_daemon.c one
 * with. */
#pragma once

#include "gate/gate.h"
#include "gpu/backend.h"
#include "preload/lease_descriptor.h"
#include "wire/grant.h"
#include "wire/messages.h"
#include "wire/own_file.h"

#include <linux/filter.h>
#include <stdatomic.h>

struct err;
struct flag;

enum {
        EXIT_USAGE = 2,
        EXIT_FAILED = 125, /* this and the next two as `env` and `docker run` have them */
        EXIT_CANNOT = 126,
        EXIT_NOT_FOUND = 127,
};

struct run {
        struct grant grant;
        const char *tenant; /* --name, or the command's last path part */
        bool is_named;
        const char *report_path;
        const char *record_path; /* --record; NULL: none */
        int record;              /* its file, open; 0: none */
        struct record_writer *writer;
        bool is_quiet, is_json, is_verbose, ipc_host;
        bool is_detached;       /* --detach */
        int started;            /* then, in the process that goes on: where its start is told; 0: nowhere */
        bool is_report_lost;    /* it could not be written to report_path */
        uint64_t audit_ms;      /* 0: the gate's default */
        const char *own_memory; /* file of wire/own_file.h; NULL: the usual one */
        char **argv;            /* the command */

        /* for the daemon */
        const char *dir;          /* --dir, SUBLET_DIR or the default */
        bool is_dir_named;        /* not the default: a daemon must be there */
        nsec wait;                /* for room, at most; 0: not at all */
        bool is_alone;            /* --no-daemon */
        bool is_preload;          /* --preload: libsublet.so inside instead of supervision */
        const char *directory;    /* `sublet lease`: the directory that is to be made; NULL: none */
        const char *attach;       /* --attach; NULL: auto */
        const char *job;          /* NULL: none */
        const char *group;        /* NULL: none */
        bool restarts;            /* after a fault of the group */
        char labels[LABELS_TEXT]; /* wire/labels.h */
        permille share;           /* 0: not given */
        permille cap;             /* 0: not given */
        const char *class, *mode;
        nsec goal;        /* of a step's p99; 0: none */
        nsec sleep_after; /* 0: never */
        bool swap;
        bytes host_swap;      /* 0: not given */
        struct sms sms;       /* both 0: not given */
        const char *sms_text; /* as it was given, or NULL */

        struct gpu_backend backend;
        struct lease lease;
        unsigned int sms_given, sms_of; /* after the run; 0: all multiprocessors */
        struct gate *gate;
        pid_t child;
        bool is_told_to_end; /* by a signal that is passed on */
        atomic_bool is_printed[EVENT_N];
};

/* Prints an event: an important one once, with --verbose all of them. n_unsent: further ones that the shim did not
 * send. */
void run_print_event(struct run *run, enum event_kind event, pid_t process, const char *detail, uint64_t n_unsent);

/* Prints a report to --report or stderr, with exit code and elapsed time. */
void run_print_report(struct run *run, json_t *report, int code, nsec elapsed);

/* The file of --record, if there is one; record.c. It can be written now, and is empty. 0; -EROFS, said. */
int run_record_open(struct run *run, struct err *err);

/* Begins run->writer; for a gate of this process. 0; -errno. */
int run_record_start(struct run *run, struct err *err);

/* Whether who wrote the record came to its end; says so if not. True without one. */
bool run_record_is_whole(const struct run *run);

/*
 * --detach; detach.c. run_detach, before anything is asked for: 1 in the process that was called, when the tenant has
 * started (its name is printed) or will not, with the exit code in *ret_code; 0 in the one that goes on.
 * run_detach_output, just before the command: it writes to no terminal and no pipe then. run_detach_started waits
 * for the end of executing (struct spawned; -1: none); of a command that cannot be executed nothing is told. Without
 * --detach they do nothing. 0; -errno, said.
 */
int run_detach(struct run *run, int *ret_code, struct err *err);
int run_detach_output(const struct run *run, struct err *err);
void run_detach_started(struct run *run, int executing);

/* Whether a daemon is to run this tenant. -EINVAL; -ENOTCONN: an option needs one. */
int run_has_daemon(const struct run *run, bool *ret, struct err *err);

/* The exit code, or -errno. */
int run_with_daemon(struct run *run, const struct sock_fprog *filter, struct err *err);

/* The connection to the tenant's shim, or to the daemon as long as there is no shim. */
struct run_talk {
        struct run *run;
        int socket; /* -1: not connected */
        json_t *report;
        bool has_failed, has_faulted; /* has_faulted: by its MPS server */
        bool is_away;                 /* the tenant is suspended, or on its way */

        int descriptor, segment; /* of --preload; otherwise -1 */
        uint64_t tenancy;
        bool is_looking; /* for the next daemon, until it has confirmed our return */
        nsec tried_at;   /* to connect to it */
};

/* Asks for a lease; with --preload, gets the lease descriptor and the usage segment, too. Opens talk->socket. 0;
 * -errno. */
int run_ask(struct run_talk *talk, struct err *err);
bool run_has_shim(const struct run_talk *talk); /* it started under a gate, or has attached itself to one */
int run_wait_for_command(struct run_talk *talk, int signals); /* returns its exit code */
void run_wait_for_report(struct run_talk *talk);
void run_talk_done(struct run_talk *talk);

/* restart.c. Starts the command again if it is to be, and does not return then; else `code`. */
int run_again(const struct run *run, bool has_faulted, nsec lasted, int code);

/* Blocks signals in this thread and later ones, and returns a descriptor to read them from; or -errno. */
int run_watch_signals(void);

/* Handles one signal. True: the command has ended, with *ret_code as a shell has it. */
bool run_take_signal(struct run *run, int signals, int *ret_code);

/* Options of both `sublet run` and `sublet lease` that mean the same: rows for flags_read. */
#define RUN_FLAGS(run)                                                                                                 \
        { "mem",                                                                                                       \
          0,                                                                                                           \
          flag_text,                                                                                                   \
          &(run)->grant.memory,                                                                                        \
          "SIZE[,DEVICE=SIZE...]",                                                                                     \
          "quota of GPU memory: 8G, 512M, 25% (default: the whole device)",                                            \
          NULL },                                                                                                      \
                { "memory", 0, flag_text, &(run)->grant.memory, NULL, NULL, NULL },                                    \
                { "gpu",                                                                                               \
                  0,                                                                                                   \
                  flag_text,                                                                                           \
                  &(run)->grant.gpus,                                                                                  \
                  "DEVICE[,DEVICE...]",                                                                                \
                  "devices by number, UUID or PCI address, as in nvidia-smi (default: all)",                           \
                  NULL },                                                                                              \
                { "gpus", 0, flag_text, &(run)->grant.gpus, NULL, NULL, NULL },                                        \
                { "own-memory", 0,                                                                                     \
                  flag_text,    &(run)->own_memory,                                                                    \
                  "FILE",       "what 'sublet doctor' measured (default: " OWN_FILE "); a daemon has its own",         \
                  NULL },                                                                                              \
                { "managed",                                                                                           \
                  0,                                                                                                   \
                  flag_text,                                                                                           \
                  &(run)->grant.managed,                                                                               \
                  "=charge|deny|allow",                                                                                \
                  "managed memory: charged by its length (default), refused, or free",                                 \
                  NULL },                                                                                              \
                { "capabilities",                                                                                      \
                  0,                                                                                                   \
                  flag_text,                                                                                           \
                  &(run)->grant.capabilities,                                                                          \
                  "LIST",                                                                                              \
                  "parts of the driver: compute,utility (default), video, graphics, profile; or all",                  \
                  NULL },                                                                                              \
                { "host-mem", 0,                                                                                       \
                  flag_text,  &(run)->grant.host,                                                                      \
                  "SIZE",     "limit of host memory that the driver pins (default: no limit)",                         \
                  NULL },                                                                                              \
        {                                                                                                              \
                "dir", 0, flag_text, &(run)->dir, "DIR",                                                               \
                        "directory of the daemon's sockets (default: $SUBLET_DIR or /run/sublet)", NULL                \
        }

/* Reads --sleep-after; flag->to is an nsec. */
int run_read_sleep(const struct flag *flag, const char *value, struct err *err);

/* Reads --sms; flag->to is the run. */
int run_read_sms(const struct flag *flag, const char *value, struct err *err);

/* Defaults: the tenant's name, from the last part of `path` (borrowed), and the daemon's directory. */
void run_fill_in(struct run *run, const char *path);

/* Whether --sms can work on this machine, as far as can be seen from outside the program. 0; -ENOTSUP. */
int run_check_sms(const struct run *run, struct err *err);

/* Runs the command with libsublet.so inside, without supervision. The exit code, or -errno. */
int run_preloaded(struct run *run, bool has_daemon, struct err *err);

/* Devices and quotas of a lease without a daemon. 0; -errno. */
int run_prepare_lease(struct run *run, struct err *err);
void run_print_books(struct run *run, int code, nsec elapsed);
