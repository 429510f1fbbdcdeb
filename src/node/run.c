/*
 * `sublet run`: one tenant, one gate, no daemon.
 *
 * This process forks the command under the filter and then is its supervisor: it performs the
 * tenant's driver calls, passes signals on, waits for the command, ends what the command left
 * behind, and says what was used. The tenant lasts as long as its command, as with `docker run`.
 */
#include "node/verbs.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "gate/filter.h"
#include "gate/gate.h"
#include "gate/probe.h"
#include "gpu/backend.h"
#include "node/grant.h"
#include "node/report.h"
#include "node/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

struct run {
        struct grant grant;
        const char *tenant; /* --name, or the command's last path part */
        const char *report_path;
        bool is_quiet, is_json, is_verbose, ipc_host;
        uint64_t audit_ms; /* 0: the gate's own period */
        char **argv;       /* the command */

        struct gpu_backend backend;
        struct gate_driver driver;
        struct lease lease;
        struct gate *gate;
        pid_t child;
        atomic_bool is_told[GATE_N_EVENTS];
};

enum {
        EXIT_USAGE = 2,
        OPTION_AUDIT = 256,
        OPTION_GPU,
        OPTION_HOST,
        OPTION_IPC,
        OPTION_JSON,
        OPTION_MANAGED,
        OPTION_MEM,
        OPTION_NAME,
        OPTION_REPORT,
};

static const struct option options[] = {
        { "audit", required_argument, NULL, OPTION_AUDIT },
        { "gpu", required_argument, NULL, OPTION_GPU },
        { "gpus", required_argument, NULL, OPTION_GPU },
        { "host-mem", required_argument, NULL, OPTION_HOST },
        { "ipc", required_argument, NULL, OPTION_IPC },
        { "json", no_argument, NULL, OPTION_JSON },
        { "managed", required_argument, NULL, OPTION_MANAGED },
        { "mem", required_argument, NULL, OPTION_MEM },
        { "memory", required_argument, NULL, OPTION_MEM },
        { "name", required_argument, NULL, OPTION_NAME },
        { "quiet", no_argument, NULL, 'q' },
        { "report", required_argument, NULL, OPTION_REPORT },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
};

static const char usage[] =
        "usage: sublet run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
        "Runs COMMAND as a tenant: it sees a GPU of the size it rented and cannot take more.\n"
        "\n"
        "  --mem SIZE[,DEVICE=SIZE...]  quota of GPU memory: 8G, 512M, 25% (default: the whole card)\n"
        "  --gpu DEVICE[,DEVICE...]     devices, numbered as nvidia-smi does (default: all)\n"
        "  --managed=charge|deny|allow  managed memory: charged at its length (default), refused, or free\n"
        "  --host-mem SIZE              limit of host memory that the driver pins (default: all there is)\n"
        "  --ipc=private|host           CUDA IPC with other tenants: refused (default), or charged to both\n"
        "  --audit MS                   compare with the driver's own figure every MS ms (default: 1000)\n"
        "  --name NAME                  the tenant's name (default: the command's)\n"
        "  --json                       the summary as one line of JSON\n"
        "  --report FILE                the summary into FILE instead of stderr\n"
        "  -q, --quiet                  no summary\n"
        "  -v, --verbose                every event as it happens\n"
        "  -h, --help                   this text\n"
        "\n"
        "The exit code is the command's; 128 + N if signal N ended it; 2 for bad use; 126 or 127 if the\n"
        "command could not be started; 125 if sublet itself failed.\n";

static int parse_ipc(struct run *run, const char *value, struct err *err)
{
        if (strcmp(value, "private") && strcmp(value, "host"))
                return err_say(err, -EINVAL, "--ipc=%s: private or host", value);
        run->ipc_host = !strcmp(value, "host");
        return 0;
}

static const char *last_part(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

/* 0; 1: help was asked for; -EINVAL. */
static int parse(struct run *run, int argc, char **argv, struct err *err)
{
        int option;

        opterr = 0;
        optind = 1;
        while ((option = getopt_long(argc, argv, "+:qvh", options, NULL)) != -1) {
                switch (option) {
                case OPTION_AUDIT:
                        if (number_parse(optarg, &run->audit_ms) < 0 || run->audit_ms < 1 || run->audit_ms > 3600000)
                                return err_say(err, -EINVAL, "--audit %s: milliseconds, 1 to 3600000", optarg);
                        break;
                case OPTION_GPU:
                        run->grant.gpus = optarg;
                        break;
                case OPTION_HOST:
                        run->grant.host = optarg;
                        break;
                case OPTION_IPC:
                        if (parse_ipc(run, optarg, err) < 0)
                                return -EINVAL;
                        break;
                case OPTION_JSON:
                        run->is_json = true;
                        break;
                case OPTION_MANAGED:
                        run->grant.managed = optarg;
                        break;
                case OPTION_MEM:
                        run->grant.memory = optarg;
                        break;
                case OPTION_NAME:
                        run->tenant = optarg;
                        break;
                case OPTION_REPORT:
                        run->report_path = optarg;
                        break;
                case 'q':
                        run->is_quiet = true;
                        break;
                case 'v':
                        run->is_verbose = true;
                        break;
                case 'h':
                        return 1;
                case ':':
                        return err_say(err, -EINVAL, "%s needs a value", argv[optind - 1]);
                default:
                        return err_say(err, -EINVAL, "unknown option %s ('sublet run --help')", argv[optind - 1]);
                }
        }
        if (optind >= argc)
                return err_say(err, -EINVAL, "no command to run ('sublet run --help')");
        run->argv = argv + optind;
        if (!run->tenant)
                run->tenant = last_part(run->argv[0]);
        (void)snprintf(run->lease.tenant, sizeof(run->lease.tenant), "%s", run->tenant);
        return 0;
}

/* What matters is said when it happens, once; the rest is counted in the summary. */
static void on_event(void *context, enum gate_event event, pid_t process, const char *detail)
{
        static const struct {
                const char *level, *line;
        } texts[] = {
#define EVENT(name, level, line, meaning) { #level, line },
#include "sublet/events.def"
#undef EVENT
        };
        struct run *run = context;
        bool is_quiet =
                run->is_quiet || !strcmp(texts[event].level, "INFO") || atomic_exchange(&run->is_told[event], true);

        if (run->is_verbose || (!is_quiet && strcmp(texts[event].level, "INFO")))
                (void)fprintf(stderr, "sublet: %s: %s: process %d: %s: %s\n", run->lease.tenant, gate_event_name(event),
                              process, texts[event].line, detail);
}

static struct gate_driver gate_driver_of(const struct gpu_backend *backend)
{
        return (struct gate_driver){ backend->context, backend->node, backend->ioctl, backend->open, backend->map };
}

/* The cards, through a client of our own that is closed again: a gate has its own. */
static int find_cards(struct run *run, struct err *err)
{
        struct probe probe;
        int r;

        run->driver = gate_driver_of(&run->backend);
        r = probe_init(&probe, &run->driver, &run->backend.layout);
        if (r < 0)
                return err_set(err, r, "asking the driver for its cards");
        r = probe_devices(&probe, &run->lease);
        probe_done(&probe);
        return r < 0 ? err_set(err, r, "asking the driver for its cards") : 0;
}

/* Yama may keep us from reading our own child; its parent may always at level 1. */
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

static int prepare(struct run *run, struct sock_fprog *filter, struct err *err)
{
        int r;

        if ((r = filter_check(err)) < 0 || (r = check_ptrace(err)) < 0 ||
            (r = gpu_backend_find(&run->backend, err)) < 0 || (r = find_cards(run, err)) < 0 ||
            (r = grant_apply(&run->grant, &run->lease, err)) < 0)
                return r;
        r = filter_build(&run->backend.layout, filter);
        return r < 0 ? err_set(err, r, "writing the filter") : 0;
}

/* Blocked in every thread and read from a descriptor; SIGPIPE of a broken stderr must not end us. */
static int watch_signals(void)
{
        sigset_t set;

        (void)sigfillset(&set);
        (void)sigdelset(&set, SIGSEGV);
        (void)sigdelset(&set, SIGBUS);
        (void)sigdelset(&set, SIGFPE);
        (void)sigdelset(&set, SIGILL);
        (void)sigdelset(&set, SIGABRT);
        (void)sigdelset(&set, SIGURG);
        if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
                return -errno;
        return signalfd(-1, &set, SFD_CLOEXEC);
}

/* The terminal signals the whole foreground group, the command included; others signal only us. */
static void pass_on(const struct run *run, const struct signalfd_siginfo *info)
{
        if (info->ssi_code == SI_KERNEL || info->ssi_signo == SIGPIPE || info->ssi_signo == SIGCONT ||
            info->ssi_signo == SIGWINCH)
                return;
        (void)kill(run->child, (int)info->ssi_signo);
}

/* True when the command has ended; *ret_code is what we exit with. */
static bool reap(const struct run *run, int *ret_code)
{
        bool has_ended = false;
        int status;
        pid_t ended;

        while ((ended = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
                if (ended != run->child)
                        continue;
                if (WIFSTOPPED(status)) {
                        (void)raise(SIGSTOP); /* so that the shell gets its prompt back */
                        continue;
                }
                has_ended = true;
                *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        return has_ended;
}

static int wait_for_command(struct run *run, int signals)
{
        struct signalfd_siginfo info;
        int code = 0;

        for (;;) {
                ssize_t n = read(signals, &info, sizeof(info));

                if (n != sizeof(info))
                        continue;
                if (info.ssi_signo != SIGCHLD)
                        pass_on(run, &info);
                else if (reap(run, &code))
                        return code;
        }
}

static bool holds_memory(const struct run *run)
{
        for (unsigned int i = 0; i < run->lease.n_devices; i++)
                if (run->lease.devices[i].quota.used)
                        return true;
        return run->lease.host.used != 0;
}

/* The books of a tenant that has ended must be empty; teardown in the driver takes a moment. What a
 * mapping held may be seen to be gone only after its client. */
static void settle(struct run *run)
{
        nsec deadline = clock_now() + 5 * NSEC_PER_SEC;

        while ((gate_settle(run->gate) || holds_memory(run)) && clock_now() < deadline)
                (void)poll(NULL, 0, 5);
        for (unsigned int i = 0; i < run->lease.n_devices; i++)
                if (run->lease.devices[i].quota.used)
                        gate_report_leftover(run->gate, i);
}

static void report(struct run *run, int code, nsec elapsed)
{
        struct report what = {
                .tenant = run->lease.tenant, .lease = &run->lease, .exit_code = code, .elapsed = elapsed
        };
        FILE *to = stderr;

        if (run->is_quiet && !run->report_path)
                return;
        if (run->gate)
                gate_stats(run->gate, &what.stats);
        if (run->report_path)
                to = fopen(run->report_path, "we");
        if (!to) {
                (void)fprintf(stderr, "sublet: %s: %s\n", run->report_path, strerror(errno));
                return;
        }
        if (run->is_json)
                (void)report_json(to, &what);
        else
                report_text(to, &what);
        if (to != stderr)
                (void)fclose(to);
}

static int supervise(struct run *run, const struct sock_fprog *filter, struct err *err)
{
        struct gate_options gate = { .lease = &run->lease,
                                     .layout = run->backend.layout,
                                     .driver = run->driver,
                                     .ipc_host = run->ipc_host,
                                     .audit_period = (nsec)run->audit_ms * NSEC_PER_MSEC,
                                     .event = on_event,
                                     .event_context = run };
        _cleanup_(closep) int signals = watch_signals();
        nsec start = clock_now();
        int listener, code, r;

        if (signals < 0)
                return err_set(err, signals, "watching signals");
        r = spawn_tenant(run->argv, filter, &run->child, &listener, &code, err);
        if (r == SPAWN_E_ENDED) {
                report(run, code, clock_now() - start);
                return code;
        }
        if (r < 0)
                return r;
        /* The tenant, of the same user, shall not trace us or read our descriptors. */
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        r = gate_new(&gate, listener, &run->gate);
        if (r < 0) {
                (void)close(listener);
                spawn_end_all();
                return err_set(err, r, "starting the gate");
        }
        r = gate_start(run->gate);
        if (r < 0) {
                spawn_end_all();
                return err_set(err, r, "starting the gate");
        }
        code = wait_for_command(run, signals);
        spawn_end_all();
        settle(run);
        report(run, code, clock_now() - start);
        run->gate = gate_free(run->gate);
        return code;
}

int run_main(int argc, char **argv)
{
        static struct run run; /* large */
        struct sock_fprog filter = { 0 };
        struct err err = { 0 };
        int r;

        r = parse(&run, argc, argv, &err);
        if (r == 1) {
                (void)fputs(usage, stdout);
                return 0;
        }
        if (r == 0)
                r = prepare(&run, &filter, &err);
        if (r < 0) {
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return EXIT_USAGE;
        }
        r = supervise(&run, &filter, &err);
        free(filter.filter);
        if (r < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        return r < 0 ? 125 : r;
}
