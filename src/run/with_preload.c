/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet run --preload`: the command with libsublet.so inside (preload/inside.h) instead of a supervisor outside.
 *
 * The library gets two sealed files at fixed descriptor numbers: the lease descriptor, and the usage segment that all
 * processes of the tenant share. Afterwards the usage segment has what was used.
 */
#include "run/run.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "preload/usage_segment.h"
#include "wire/lease_directory.h"
#include "run/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

/* First in the list: other preloaded libraries, such as the simulator's, must be called by ours. */
static int put_first(const char *library, struct err *err)
{
        const char *others = getenv("LD_PRELOAD");
        char list[2 * PATH_MAX];

        if (snprintf(list, sizeof(list), "%s%s%s", library, others ? ":" : "", others ? others : "") >=
                    (int)sizeof(list) ||
            setenv("LD_PRELOAD", list, 1) < 0)
                return err_set(err, -E2BIG, "putting libsublet.so into LD_PRELOAD");
        return 0;
}

static int descriptor_make(const struct run *run, uint64_t *ret_tenancy, int *ret_fd, struct err *err)
{
        static struct lease_descriptor descriptor; /* large */
        int r;

        lease_directory_describe(&run->backend, &run->lease, &descriptor);
        descriptor.sms = run->sms;
        r = lease_descriptor_new(&descriptor, ret_fd);
        *ret_tenancy = descriptor.tenancy;
        return r < 0 ? err_set(err, r, "writing the lease for libsublet.so") : 0;
}

/* In the child. */
_Noreturn static void become_tenant(const struct run *run, int descriptor, int segment, bool may_attach)
{
        sigset_t none;

        if (may_attach)
                spawn_bound_capabilities(); /* as for a tenant of a gate: it is to become one */
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (dup2(descriptor, LEASE_DESCRIPTOR_FD) < 0 || dup2(segment, LEASE_DESCRIPTOR_SEGMENT_FD) < 0) {
                (void)dprintf(STDERR_FILENO, "sublet: descriptor %d: %s (the limit of open files is below it)\n",
                              LEASE_DESCRIPTOR_FD, strerror(errno));
                _exit(EXIT_CANNOT);
        }
        spawn_exec(run->argv, -1);
}

static void read_quota(const struct usage_segment_totals *books, unsigned int kind, struct quota *quota)
{
        quota->used = books->held[kind];
        quota->peak = books->peak[kind];
        quota->n_refused = books->n_refused[kind];
        quota->largest_refused = books->largest_refused[kind];
}

/* After the tenant's last process: reads the accounts that the processes kept. */
static void read_books(struct run *run, int segment, uint64_t tenancy)
{
        struct usage_segment_totals books;

        if (usage_segment_scan(segment, LEASE_DESCRIPTOR_INHERITED, tenancy, &books) < 0) {
                (void)fprintf(stderr, "sublet: %s: the accounts in shared memory were damaged\n", run->lease.tenant);
                return;
        }
        for (unsigned int i = 0; i < run->lease.n_devices && i < USAGE_SEGMENT_DEVICES; i++)
                read_quota(&books, i, &run->lease.devices[i].quota);
        read_quota(&books, USAGE_SEGMENT_HOST, &run->lease.host);
        run->sms_given = books.sms;
        run->sms_of = books.sms_of;
}

int run_check_sms(const struct run *run, struct err *err)
{
        struct utsname machine;

        if (!run->sms_text)
                return 0;
        if (uname(&machine) < 0 || strcmp(machine.machine, "x86_64"))
                return err_say(err, -ENOTSUP, "--sms works on x86-64 machines; leave it out");
        if (run->backend.layout.version.branch < SMS_FIRST_DRIVER)
                return err_say(err, -ENOTSUP, "--sms needs a driver with green contexts, %d or newer; this is %u",
                               SMS_FIRST_DRIVER, run->backend.layout.version.branch);
        return 0;
}

static int preloaded_start(struct run *run, int descriptor, int segment, bool may_attach, struct err *err)
{
        if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return err_set(err, -errno, "becoming the reaper of the tenant");
        run->child = fork();
        if (run->child < 0)
                return err_set(err, -errno, "starting %s", run->argv[0]);
        if (run->child == 0)
                become_tenant(run, descriptor, segment, may_attach);
        return 0;
}

/* With a daemon, the lease descriptor says what it granted. The devices' own figures are not in it, nor needed here. */
static int lease_obtain(struct run_talk *talk, bool has_daemon, struct err *err)
{
        static struct lease_descriptor descriptor; /* large */
        int r;

        if (!has_daemon) {
                r = run_check_sms(talk->run, err);
                if (r < 0)
                        return r;
                r = descriptor_make(talk->run, &talk->tenancy, &talk->descriptor, err);
                if (r < 0)
                        return r;
                r = usage_segment_new(talk->tenancy, &talk->segment);
                return r < 0 ? err_set(err, r, "making the usage segment") : 0;
        }
        r = run_ask(talk, err);
        if (r < 0)
                return r;
        r = lease_descriptor_read(talk->descriptor, LEASE_DESCRIPTOR_INHERITED, &descriptor);
        if (r < 0 || talk->segment < 0)
                return err_say(err, -EPROTO, "the daemon in %s is not the same build as this program", talk->run->dir);
        talk->tenancy = descriptor.tenancy;
        talk->run->lease = descriptor.lease;
        return 0;
}

static bool is_never(const struct run *run)
{
        return run->attach && !strcmp(run->attach, "never");
}

int run_preloaded(struct run *run, bool has_daemon, struct err *err)
{
        _cleanup_(run_talk_done) struct run_talk talk = { .run = run, .socket = -1, .descriptor = -1, .segment = -1 };
        _cleanup_(closep) int signals = run_watch_signals();
        char library[PATH_MAX];
        nsec begin = clock_now();
        int code, r;

        if (signals < 0)
                return err_set(err, signals, "blocking signals");
        if ((r = lease_directory_library(library, err)) < 0 || (r = put_first(library, err)) < 0 ||
            (r = lease_obtain(&talk, has_daemon, err)) < 0 || (r = run_detach_output(run, err)) < 0 ||
            (r = preloaded_start(run, talk.descriptor, talk.segment, has_daemon && !is_never(run), err)) < 0)
                return r;
        if (has_daemon)
                (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        run_detach_started(run, -1);
        code = run_wait_for_command(&talk, signals);
        spawn_end_all();
        if (run_has_shim(&talk))
                run_wait_for_report(&talk);
        if (talk.report || talk.has_failed) {
                run_print_report(run, talk.report, code, clock_now() - begin);
                return talk.has_failed ? EXIT_FAILED : code;
        }
        read_books(run, talk.segment, talk.tenancy);
        run_print_books(run, code, clock_now() - begin);
        return code;
}
