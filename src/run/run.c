/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet run`: one tenant, one gate. Here without a daemon; with_daemon.c with one.
 *
 * This process forks the command under the filter and then supervises it: it performs the tenant's driver calls, passes
 * signals on, waits for the command, ends what the command left behind, and prints what was used. The tenant lasts as
 * long as its command, as with `docker run`.
 */
#include "run/verbs.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/when.h"
#include "gate/policy/filter.h"
#include "gate/gate.h"
#include "gpu/backend.h"
#include "record/record.h"
#include "shim/report.h"
#include "wire/machine.h"
#include "run/run.h"
#include "shim/settle.h"
#include "run/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
        AUDIT_MS_MAX = 3600000,
        WAIT_LONGEST = 86400 * 366,
};

static const char usage[] =
        "usage: sublet run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
        "Runs COMMAND as a tenant: it sees a GPU of the size that it rents and cannot use more.\n"
        "\n"
        "\f\n"
        "The exit code is the command's; 128 + N if signal N ended it; 2 for bad usage; 126 or 127 if the\n"
        "command could not be started; 125 if sublet itself failed.\n";

static int read_percent(const struct flag *flag, const char *value, struct err *err)
{
        unsigned int parsed;

        if (permille_parse(value, &parsed) < 0)
                return flag_refuse(flag, value, "percent of the device's time, 0.1 to 100, such as 30 or 12.5%", err);
        *(permille *)flag->to = parsed;
        return 0;
}

static int read_label(const struct flag *flag, const char *value, struct err *err)
{
        switch (labels_add(flag->to, value)) {
        case 0:
                return 0;
        case -EEXIST:
                return flag_refuse(flag, value, "that name has a value already", err);
        case -ENOSPC:
                return flag_refuse(flag, value, "a tenant has at most 8 labels, of 510 bytes in all", err);
        default:
                return flag_refuse(
                        flag, value,
                        "NAME=VALUE such as team=video, each 1 to 63 letters, digits, '.', '_', '/' and '-', "
                        "the first a letter or digit",
                        err);
        }
}

static int read_wait(const struct flag *flag, const char *value, struct err *err)
{
        if (value)
                return flag_span(flag, value, err);
        *(nsec *)flag->to = WAIT_LONGEST * NSEC_PER_SEC;
        return 0;
}

static int read_latency(const struct flag *flag, const char *value, struct err *err)
{
        nsec *goal = flag->to;

        if (duration_parse(value, goal) < 0 || *goal < NSEC_PER_MSEC || *goal > TURNS_GOAL_MOST)
                return flag_refuse(flag, value, "a time from 1ms to 10s, such as 10ms", err);
        return 0;
}

static int read_audit(const struct flag *flag, const char *value, struct err *err)
{
        uint64_t *ms = flag->to;

        if (number_parse(value, ms) < 0 || *ms < 1 || *ms > AUDIT_MS_MAX)
                return flag_refuse(flag, value, "milliseconds, 1 to 3600000", err);
        return 0;
}

/* Only the program itself, or MPS, can limit a tenant to some multiprocessors: a supervisor cannot. */
static int check_sms(struct run *run, struct err *err)
{
        bool is_spatial = run->group || (run->mode && !strcmp(run->mode, "spatial"));

        if (!run->sms.permille && !run->sms.count)
                return 0;
        if (!run->is_preload && !is_spatial)
                return err_say(
                        err, -EINVAL,
                        "--sms is enforced inside the program or by MPS: add --preload, --mode spatial or --group");
        if (!is_spatial)
                return 0;
        if (run->sms.count)
                return err_say(err, -EINVAL, "MPS divides by percent: --sms 25%%, not --sms %u", run->sms.count);
        if (!run->cap || run->sms.permille < run->cap)
                run->cap = run->sms.permille;
        run->sms_text = NULL; /* the cap expresses it */
        return 0;
}

/* Before anything of the machine is looked at: bad use is bad use wherever it is. */
static int check_words(struct run *run, struct err *err)
{
        int r = grant_check(&run->grant, err);

        if (run->record_path && run->is_preload)
                return err_say(err, -EINVAL, "--record needs the supervisor: leave --preload out");
        if (run->attach && !run->is_preload)
                return err_say(err, -EINVAL, "--attach needs --preload: without it the command is under a gate anyway");
        return r < 0 ? r : check_sms(run, err);
}

/* What other programs that run things have, and why it is not here. */
static int refuse_terminal(const struct flag *flag, const char *value, struct err *err)
{
        (void)value;
        return err_say(err, -EINVAL, "the command has this terminal already: leave -%c out", flag->letter);
}

/* 0; 1: help was printed; -EINVAL. */
static int run_parse(struct run *run, int argc, char **argv, struct err *err)
{
        const char *ipc = "private";
        const struct flag flags[] = {
                RUN_FLAGS(run),
                { "ipc", 0, flag_word, &ipc, "=private|host",
                  "CUDA IPC with other tenants: refused (default), or charged to both", NULL },
                { "audit", 0, read_audit, &run->audit_ms, "MS", "ask the driver so often (default: 1000)", NULL },
                { "share", 0, read_percent, &run->share, "PERCENT", "GPU time guaranteed whenever it is wanted", NULL },
                { "cap", 0, read_percent, &run->cap, "PERCENT", "GPU time that it never exceeds", NULL },
                { "class", 0, flag_word, &run->class, "=latency|normal|batch",
                  "latency: served at once within its share; batch: yields to others", NULL },
                { "latency", 0, read_latency, &run->goal, "TIME",
                  "p99 of a step that arrives within the share: 10ms; refused if it cannot be kept", NULL },
                { "sleep-after", 0, run_read_sleep, &run->sleep_after, "TIME", "suspend it once idle: 30s", NULL },
                { "swap", 0, flag_is, &run->swap, NULL, "share the device in turns with others of --swap", NULL },
                { "host-swap", 0, flag_bytes, &run->host_swap, "SIZE", "host memory for it while suspended", NULL },
                { "detach", 'd', flag_is, &run->is_detached, NULL,
                  "come back when it has started, print its name; output goes to NAME.log", NULL },
                { "interactive", 'i', refuse_terminal, run, NULL, NULL, NULL },
                { "tty", 't', refuse_terminal, run, NULL, NULL, NULL },
                { "job", 0, flag_text, &run->job, "NAME", "come on and go off together with others of yours in it",
                  NULL },
                { "group", 0, flag_text, &run->group, "NAME", "run side by side with others of yours in it", NULL },
                { "restart", 0, flag_is, &run->restarts, NULL, "start it again if its group's fault ended it", NULL },
                { "label", 'l', read_label, run->labels, "NAME=VALUE",
                  "for accounts, such as team=video; several may be given: 'sublet usage --by label:team'", NULL },
                { "mode", 0, flag_text, &run->mode, "=time|spatial|mig|auto", /* the daemon knows the modes */
                  "take turns (default), share by MPS, use a MIG instance, or what suits one of a --group", NULL },
                { "sms", 0, run_read_sms, run, "PERCENT%|COUNT",
                  "multiprocessors to compute on (with --preload, --mode spatial or --group)", NULL },
                { "wait", 0, read_wait, &run->wait, "[=TIME]",
                  "wait until there is room for the lease: 10m, without a time for as long as it takes", NULL },
                { "no-daemon", 0, flag_is, &run->is_alone, NULL, "only the quota, even if a daemon is running", NULL },
                { "preload", 0, flag_is, &run->is_preload, NULL,
                  "enforce the quota inside the program by libsublet.so, without supervision", NULL },
                { "attach", 0, flag_word, &run->attach, "=auto|never|required",
                  "with --preload: the library hands the command over to the daemon's gate", NULL },
                { "name", 0, flag_text, &run->tenant, "NAME", "the tenant's name (default: the command's)", NULL },
                { "json", 0, flag_is, &run->is_json, NULL, "print the summary as one line of JSON", NULL },
                { "report", 0, flag_text, &run->report_path, "FILE", "write the summary to FILE instead of stderr",
                  NULL },
                { "record", 0, flag_text, &run->record_path, "FILE",
                  "write the run's driver calls to FILE as numbers: 'sublet explain --record FILE'", NULL },
                { "quiet", 'q', flag_is, &run->is_quiet, NULL, "print no summary", NULL },
                { "verbose", 'v', flag_is, &run->is_verbose, NULL, "print every event as it happens", NULL },
        };
        int command = flags_read(argc, argv, flags, ARRAY_SIZE(flags), usage, true, err);

        if (command <= 0)
                return command < 0 ? command : 1;
        if (command >= argc)
                return err_say(err, -EINVAL, "no command to run ('sublet run --help')");
        run->ipc_host = !strcmp(ipc, "host");
        run->argv = argv + command;
        run_fill_in(run, run->argv[0]);
        return check_words(run, err);
}

void run_print_event(struct run *run, enum event_kind event, pid_t process, const char *detail, uint64_t n_unsent)
{
        bool is_quiet = run->is_quiet || !strcmp(gate_event_level(event), "INFO") ||
                        atomic_exchange(&run->is_printed[event], true);

        if (!run->is_verbose && is_quiet)
                return;
        if (run->is_verbose && n_unsent)
                (void)fprintf(stderr, "sublet: %s: %s: %llu more\n", run->lease.tenant, gate_event_name(event),
                              (unsigned long long)n_unsent);
        (void)fprintf(stderr, "sublet: %s: %s: process %d: %s: %s\n", run->lease.tenant, gate_event_name(event),
                      process, gate_event_line(event), detail);
}

static void on_gate_event(void *context, enum event_kind event, pid_t process, const char *detail)
{
        run_print_event(context, event, process, detail, 0);
}

/* Yama may forbid reading our own child; at level 1 a parent always may. */
static int check_ptrace(struct err *err)
{
        _cleanup_(closep) int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
        char level = '0';

        if (fd < 0 || read(fd, &level, 1) != 1 || level < '2' || (level == '2' && geteuid() == 0))
                return 0;
        return err_say(err, -EPERM,
                       "this machine forbids ptrace (kernel.yama.ptrace_scope is %c), so a tenant cannot be "
                       "supervised; set it to 1, or run sublet as root if it is 2",
                       level);
}

/* Where supervision is impossible, the command is not handed over, unless that is required. */
static int choose_attach(struct run *run, struct err *err)
{
        int r;

        if (run->attach && !strcmp(run->attach, "never"))
                return 0;
        if ((r = filter_check(err)) == 0 && (r = check_ptrace(err)) == 0)
                return 0;
        if (run->attach && !strcmp(run->attach, "required"))
                return r;
        run->attach = "never";
        return 0;
}

int run_prepare_lease(struct run *run, struct err *err)
{
        int r = machine_probe(&run->backend, &run->lease, err);
        struct err wrong = { 0 };

        if (r == 0 && own_file_apply(run->own_memory, run->backend.release, &run->lease, &wrong) < 0)
                (void)fprintf(stderr, "sublet: %s; the largest known figures are charged\n", wrong.text);
        return r < 0 ? r : grant_apply(&run->grant, &run->lease, err);
}

/* A command of hours must not end without the summary that was asked for. -EROFS: it cannot be written. */
static int check_report(const struct run *run, struct err *err)
{
        FILE *file = run->report_path ? fopen(run->report_path, "ae") : NULL;

        if (!run->report_path)
                return 0;
        if (!file)
                return err_say(err, -EROFS, "--report %s: %s", run->report_path, strerror(errno));
        (void)fclose(file);
        return 0;
}

static int run_prepare(struct run *run, struct sock_fprog *filter, bool *ret_has_daemon, struct err *err)
{
        int r;

        if (run->is_preload) {
                r = run_has_daemon(run, ret_has_daemon, err);
                if (r == 0 && *ret_has_daemon)
                        return choose_attach(run, err);
                if (r == 0)
                        r = gpu_backend_find(&run->backend, err);
                return r < 0 ? r : run_prepare_lease(run, err);
        }
        if ((r = filter_check(err)) < 0 || (r = check_ptrace(err)) < 0 ||
            (r = run_has_daemon(run, ret_has_daemon, err)) < 0 || (r = gpu_backend_find(&run->backend, err)) < 0)
                return r;
        if (!*ret_has_daemon && (r = run_prepare_lease(run, err)) < 0)
                return r;
        r = filter_build(filter);
        return r < 0 ? err_set(err, r, "writing the filter") : 0;
}

static int wait_for_command(struct run *run, int signals)
{
        int code = 0;

        while (!run_take_signal(run, signals, &code))
                ;
        return code;
}

void run_print_report(struct run *run, json_t *report, int code, nsec elapsed)
{
        FILE *to = stderr;
        int r;

        if (!report || (run->is_quiet && !run->report_path))
                return;
        (void)json_object_del(report, "v"); /* belongs to the message */
        (void)json_object_del(report, "type");
        (void)json_object_set_new(report, "exit_code", json_integer(code));
        (void)json_object_set_new(report, "elapsed_seconds", json_real((double)elapsed / 1e9));
        if (run->report_path)
                to = fopen(run->report_path, "we");
        if (!to) {
                (void)fprintf(stderr, "sublet: %s: %s; the summary is here:\n", run->report_path, strerror(errno));
                run->is_report_lost = true;
                to = stderr; /* it may be the result of hours */
        }
        r = report_print(to, report, run->is_json);
        if (to == stderr || (fclose(to) == 0 && r == 0))
                return;
        (void)fprintf(stderr, "sublet: %s: %s; the summary is here:\n", run->report_path, strerror(errno));
        run->is_report_lost = true;
        (void)report_print(stderr, report, run->is_json);
}

void run_print_books(struct run *run, int code, nsec elapsed)
{
        struct report what = { .tenant = run->lease.tenant, .lease = &run->lease };
        json_t *report;

        if (run->gate)
                gate_stats(run->gate, &what.stats);
        report = report_new(&what);
        if (run->sms_of)
                (void)json_object_set_new(report, "multiprocessors",
                                          json_pack("{s:i, s:i}", "given", run->sms_given, "of", run->sms_of));
        run_print_report(run, report, code, elapsed);
        json_decref(report);
}

/* Takes the listener. */
static int run_start_gate(struct run *run, int listener, struct err *err)
{
        struct gate_options gate = { .lease = &run->lease,
                                     .layout = run->backend.layout,
                                     .driver = machine_driver(&run->backend),
                                     .ipc_host = run->ipc_host,
                                     .audit_period = (nsec)run->audit_ms * NSEC_PER_MSEC,
                                     .event = on_gate_event,
                                     .event_context = run,
                                     .record = run->writer ? record_put : NULL,
                                     .record_context = run->writer };
        int r = gate_new(&gate, listener, &run->gate);

        if (r < 0)
                (void)close(listener);
        else
                r = gate_start(run->gate);
        if (r == 0)
                return 0;
        spawn_end_all();
        return err_set(err, r, "starting the gate");
}

static int run_supervised(struct run *run, const struct sock_fprog *filter, struct err *err)
{
        _cleanup_(closep) int signals = run_watch_signals();
        _cleanup_(closep) int executing = -1;
        struct spawned spawned;
        nsec start = clock_now();
        int code, r;

        if (signals < 0)
                return err_set(err, signals, "blocking signals");
        r = run_detach_output(run, err);
        if (r == 0)
                r = spawn_tenant(run->argv, filter, 0, &spawned, &code, err);
        if (r == SPAWN_E_ENDED) {
                run_print_books(run, code, clock_now() - start);
                return code;
        }
        if (r < 0)
                return r;
        run->child = spawned.child;
        executing = spawned.executing;
        descriptors_raise();                      /* the tenant is started, and has its own limit */
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* the tenant, of the same user, must not trace or read us */
        if ((r = run_record_start(run, err)) < 0 || (r = run_start_gate(run, spawned.listener, err)) < 0)
                return r;
        run_detach_started(run, executing);
        code = wait_for_command(run, signals);
        spawn_end_all();
        settle(run->gate, &run->lease);
        run_print_books(run, code, clock_now() - start);
        run->gate = gate_free(run->gate);
        if (run->gate)
                gate_record_end(run->gate);
        (void)record_writer_end(run->writer); /* what could not be written is not there: run_record_is_whole */
        run->writer = NULL;
        return code;
}

static void filter_done(struct sock_fprog *filter)
{
        free(filter->filter);
}

int run_main(int argc, char **argv)
{
        static struct run run; /* large */
        _cleanup_(filter_done) struct sock_fprog filter = { 0 };
        struct err err = { 0 };
        bool has_daemon = false;
        int code, r;

        r = run_parse(&run, argc, argv, &err);
        if (r == 1)
                return 0;
        if (r == 0)
                r = check_report(&run, &err);
        if (r == 0)
                r = run_record_open(&run, &err);
        if (r == 0)
                r = run_prepare(&run, &filter, &has_daemon, &err);
        if (r == 0)
                r = run_detach(&run, &code, &err);
        if (r == 1)
                return code;
        if (r < 0) {
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return r == -ENOTCONN || r == -EROFS ? EXIT_FAILED : EXIT_USAGE;
        }
        if (!has_daemon && !run.is_alone && !run.is_quiet && !run.is_json && !run.report_path)
                (void)fprintf(stderr,
                              "sublet: no daemon is in %s: only the quota of memory holds, no share of time "
                              "(--no-daemon says that this is meant)\n",
                              run.dir);
        r = run.is_preload ? run_preloaded(&run, has_daemon, &err) :
            has_daemon     ? run_with_daemon(&run, &filter, &err) :
                             run_supervised(&run, &filter, &err);
        if (r < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        else if (r != EXIT_CANNOT && r != EXIT_NOT_FOUND && !run_record_is_whole(&run) && r == 0)
                return EXIT_FAILED;
        if (r == 0 && run.is_report_lost)
                return EXIT_FAILED;
        return r == -EINVAL ? EXIT_USAGE : r < 0 ? EXIT_FAILED : r;
}
