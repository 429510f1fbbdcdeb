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
#include "base/err.h"
#include "base/when.h"
#include "gate/policy/filter.h"
#include "gate/gate.h"
#include "gpu/backend.h"
#include "shim/report.h"
#include "wire/machine.h"
#include "run/run.h"
#include "shim/settle.h"
#include "run/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
        AUDIT_MS_MAX = 3600000,
        OPTION_AUDIT = RUN_OPTION_NEXT,
        OPTION_CAP,
        OPTION_CLASS,
        OPTION_IPC,
        OPTION_JSON,
        OPTION_MODE,
        OPTION_PRELOAD,
        OPTION_REPORT,
        OPTION_SHARE,
};

static const struct option options[] = {
        RUN_OPTIONS,
        { "audit", required_argument, NULL, OPTION_AUDIT },
        { "cap", required_argument, NULL, OPTION_CAP },
        { "class", required_argument, NULL, OPTION_CLASS },
        { "ipc", required_argument, NULL, OPTION_IPC },
        { "json", no_argument, NULL, OPTION_JSON },
        { "mode", required_argument, NULL, OPTION_MODE },
        { "preload", no_argument, NULL, OPTION_PRELOAD },
        { "quiet", no_argument, NULL, 'q' },
        { "report", required_argument, NULL, OPTION_REPORT },
        { "share", required_argument, NULL, OPTION_SHARE },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
};

static const char usage[] =
        "usage: sublet run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
        "Runs COMMAND as a tenant: it sees a GPU of the size that it rents and cannot use more.\n"
        "\n"
        "  --mem SIZE[,DEVICE=SIZE...]  quota of GPU memory: 8G, 512M, 25% (default: the whole device)\n"
        "  --gpu DEVICE[,DEVICE...]     devices, numbered as in nvidia-smi (default: all)\n"
        "  --managed=charge|deny|allow  managed memory: charged by its length (default), refused, or free\n"
        "  --host-mem SIZE              limit of host memory that the driver pins (default: no limit)\n"
        "  --ipc=private|host           CUDA IPC with other tenants: refused (default), or charged to both\n"
        "  --audit MS                   compare with the driver's own figure every MS ms (default: 1000)\n"
        "  --share PERCENT              GPU time guaranteed whenever the tenant wants it (needs 'sublet daemon')\n"
        "  --cap PERCENT                GPU time that the tenant never exceeds\n"
        "  --class=latency|normal|batch latency: served at once within its share; batch: yields to others\n"
        "  --mode=time|spatial|mig      take turns (default), share the device by MPS, or use a MIG instance\n"
        "  --sms PERCENT%|COUNT         multiprocessors to compute on (with --preload, or --mode spatial)\n"
        "  --no-daemon                  enforce only the quota, even if a daemon is running\n"
        "  --preload                    enforce the quota inside the program by libsublet.so, without supervision\n"
        "  --attach=auto|never|required with --preload: the library hands the command over to the daemon's gate\n"
        "  --dir DIR                    directory of the daemon's sockets (default: $SUBLET_DIR or /run/sublet)\n"
        "  --name NAME                  the tenant's name (default: the command's)\n"
        "  --json                       print the summary as one line of JSON\n"
        "  --report FILE                write the summary to FILE instead of stderr\n"
        "  -q, --quiet                  print no summary\n"
        "  -v, --verbose                print every event as it happens\n"
        "  -h, --help                   print this text\n"
        "\n"
        "The exit code is the command's; 128 + N if signal N ended it; 2 for bad usage; 126 or 127 if the\n"
        "command could not be started; 125 if sublet itself failed.\n";

static int parse_ipc(struct run *run, const char *value, struct err *err)
{
        if (strcmp(value, "private") && strcmp(value, "host"))
                return err_say(err, -EINVAL, "--ipc=%s: private or host", value);
        run->ipc_host = !strcmp(value, "host");
        return 0;
}

static int parse_percent(permille *to, const char *option, const char *value, struct err *err)
{
        unsigned int parsed;
        int r = permille_parse(value, &parsed);

        if (r < 0)
                return err_say(err, -EINVAL, "%s %s: percent of the device's time, such as 30 or 12.5%%", option,
                               value);
        *to = parsed;
        return 0;
}

/* Only the program itself, or MPS, can limit a tenant to some multiprocessors: a supervisor cannot. */
static int check_sms(struct run *run, struct err *err)
{
        bool is_spatial = run->mode && !strcmp(run->mode, "spatial");

        if (!run->sms.permille && !run->sms.count)
                return 0;
        if (!run->is_preload && !is_spatial)
                return err_say(err, -EINVAL,
                               "--sms is enforced inside the program or by MPS: add --preload or --mode spatial");
        if (!is_spatial)
                return 0;
        if (run->sms.count)
                return err_say(err, -EINVAL, "--mode spatial divides by percent: --sms 25%%, not --sms %u",
                               run->sms.count);
        if (!run->cap || run->sms.permille < run->cap)
                run->cap = run->sms.permille;
        run->sms_text = NULL; /* the cap expresses it */
        return 0;
}

static int parse_class(struct run *run, const char *value, struct err *err)
{
        enum turns_class ignored;

        if (turns_class_parse(value, &ignored) < 0)
                return err_say(err, -EINVAL, "--class=%s: latency, normal or batch", value);
        run->class = value;
        return 0;
}

static int parse_audit(struct run *run, const char *value, struct err *err)
{
        if (number_parse(value, &run->audit_ms) < 0 || run->audit_ms < 1 || run->audit_ms > AUDIT_MS_MAX)
                return err_say(err, -EINVAL, "--audit %s: milliseconds, 1 to %d", value, AUDIT_MS_MAX);
        return 0;
}

/* One option of getopt_long. 0; -EINVAL. */
static int run_option(struct run *run, int option, char **argv, struct err *err)
{
        switch (option) {
        case OPTION_AUDIT:
                return parse_audit(run, optarg, err);
        case OPTION_CAP:
                return parse_percent(&run->cap, "--cap", optarg, err);
        case OPTION_CLASS:
                return parse_class(run, optarg, err);
        case OPTION_IPC:
                return parse_ipc(run, optarg, err);
        case OPTION_JSON:
                run->is_json = true;
                return 0;
        case OPTION_MODE:
                run->mode = optarg; /* the daemon knows the modes */
                return 0;
        case OPTION_PRELOAD:
                run->is_preload = true;
                return 0;
        case OPTION_REPORT:
                run->report_path = optarg;
                return 0;
        case OPTION_SHARE:
                return parse_percent(&run->share, "--share", optarg, err);
        case 'q':
                run->is_quiet = true;
                return 0;
        case 'v':
                run->is_verbose = true;
                return 0;
        default:
                return run_take_option(run, option, argv, "run", err);
        }
}

/* 0; 1: --help; -EINVAL. */
static int run_parse(struct run *run, int argc, char **argv, struct err *err)
{
        int option;

        opterr = 0;
        optind = 1;
        while ((option = getopt_long(argc, argv, "+:qvh", options, NULL)) != -1) {
                if (option == 'h')
                        return 1;
                if (run_option(run, option, argv, err) < 0)
                        return -EINVAL;
        }
        if (optind >= argc)
                return err_say(err, -EINVAL, "no command to run ('sublet run --help')");
        if (run->attach && !run->is_preload)
                return err_say(err, -EINVAL, "--attach needs --preload: without it the command is under a gate anyway");
        run->argv = argv + optind;
        run_fill_in(run, run->argv[0]);
        return check_sms(run, err);
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

        return r < 0 ? r : grant_apply(&run->grant, &run->lease, err);
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
        r = filter_build(&run->backend.layout, filter);
        return r < 0 ? err_set(err, r, "writing the filter") : 0;
}

static int wait_for_command(struct run *run, int signals)
{
        int code = 0;

        while (!run_take_signal(signals, run->child, &code))
                ;
        return code;
}

void run_print_report(struct run *run, json_t *report, int code, nsec elapsed)
{
        FILE *to = stderr;

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
                to = stderr; /* it may be the result of hours */
        }
        (void)report_print(to, report, run->is_json);
        if (to != stderr)
                (void)fclose(to);
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
                                     .event_context = run };
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
        nsec start = clock_now();
        int listener, code, r;

        if (signals < 0)
                return err_set(err, signals, "blocking signals");
        r = spawn_tenant(run->argv, filter, 0, &run->child, &listener, &code, err);
        if (r == SPAWN_E_ENDED) {
                run_print_books(run, code, clock_now() - start);
                return code;
        }
        if (r < 0)
                return r;
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* the tenant, of the same user, must not trace or read us */
        r = run_start_gate(run, listener, err);
        if (r < 0)
                return r;
        code = wait_for_command(run, signals);
        spawn_end_all();
        settle(run->gate, &run->lease);
        run_print_books(run, code, clock_now() - start);
        run->gate = gate_free(run->gate);
        return code;
}

int run_main(int argc, char **argv)
{
        static struct run run; /* large */
        struct sock_fprog filter = { 0 };
        struct err err = { 0 };
        bool has_daemon = false;
        int r;

        r = run_parse(&run, argc, argv, &err);
        if (r == 1) {
                (void)fputs(usage, stdout);
                return 0;
        }
        if (r == 0)
                r = run_prepare(&run, &filter, &has_daemon, &err);
        if (r < 0) {
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return EXIT_USAGE;
        }
        r = run.is_preload ? run_preloaded(&run, has_daemon, &err) :
            has_daemon     ? run_with_daemon(&run, &filter, &err) :
                             run_supervised(&run, &filter, &err);
        free(filter.filter);
        if (r < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        return r == -EINVAL ? EXIT_USAGE : r < 0 ? EXIT_FAILED : r;
}
