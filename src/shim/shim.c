/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet keeper`: one tenant's gate as a process of its own; shim.h, ARCHITECTURE.md.
 *
 * Threads: the gate's, the reconciler, and the main one, which waits on sockets and for the tenant's end. The gate's
 * threads write the ledger to the control block when it changes; the daemon sends no request for it.
 */
#include "shim/inside.h"
#include "shim/verbs.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "record/record.h"
#include "shim/harden.h"
#include "shim/mps_server.h"
#include "shim/settle.h"
#include "wire/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
        RECONNECT_MS = 100,
        REFRESH_MS = 250,
        KILL_MS = 20, /* a tenant that is being ended may fork meanwhile */
        UNDO_MS = 1,
        LENT_MS = 20,
        KEPT_MS = 1000, /* each look asks the driver about all clients */
        EXIT_USAGE = 2,
        EXIT_FAILED = 125,
};

/* How long the account of an ended tenant waits for a daemon that takes it. */
#define LINGER (10 * NSEC_PER_SEC)

/* ---- the control block ----------------------------------------------------------------------------------- */

static void write_books(struct shim *shim)
{
        struct control_block *control = shim->control;

        for (unsigned int i = 0; i < shim->lease.n_devices; i++) {
                const struct quota *quota = &shim->lease.devices[i].quota;

                control->devices[i].quota = quota->size;
                control->devices[i].held = quota->used;
                control->devices[i].peak = quota->peak;
                control->devices[i].n_refused = quota->n_refused;
        }
        control->host_quota = shim->lease.host.size;
        control->host_held = shim->lease.host.used;
}

/* From several threads at once. A thread that finds another one writing sets is_dirty, and that one writes again: so
 * the latest state is what remains. */
static void on_books(void *context)
{
        struct shim *shim = context;

        shim->is_dirty = true;
        while (shim->is_dirty && !atomic_exchange(&shim->is_writing, true)) {
                while (atomic_exchange(&shim->is_dirty, false))
                        write_books(shim);
                shim->is_writing = false;
        }
}

static void on_channel(void *context, const struct gate_channel *channel, bool is_new)
{
        struct shim *shim = context;
        struct control_channel row = { .client = channel->client,
                                       .handle = channel->handle,
                                       .group = channel->group,
                                       .cid = channel->cid,
                                       .device = (uint16_t)channel->device,
                                       .is_compute = channel->is_compute,
                                       .engine = (uint8_t)channel->engine,
                                       .order = channel->order };

        if (is_new)
                (void)control_block_channel_put(shim->control, &row); /* cannot be full: a lease gives no more */
        else
                control_block_channel_drop(shim->control, channel->client, channel->handle);
        shim->reconciler.has_changed = true;
        control_block_notify(shim->control);
}

/* Only servers of devices that the tenant leases, and of its group, count. */
static bool on_lends(void *context, uint32_t client)
{
        const struct shim *shim = context;

        for (unsigned int i = 0; i < shim->lease.n_devices; i++)
                if (shim->lease.devices[i].is_granted &&
                    mps_lends(shim->dir, i, shim->terms.team, &shim->driver, client))
                        return true;
        return false;
}

static int on_borrow(void *context, const struct gate_loan_ask *ask, struct gate_loan *ret)
{
        return jobs_borrow(&((struct shim *)context)->jobs, ask, ret);
}

static bool on_stands(void *context, uint64_t loan)
{
        return jobs_stands(&((struct shim *)context)->jobs, loan);
}

static void on_give_back(void *context, uint64_t loan)
{
        jobs_give_back(&((struct shim *)context)->jobs, loan);
}

static struct gate_desired on_desired(void *context, unsigned int device)
{
        const struct shim *shim = context;

        return reconciler_desired(&shim->reconciler, device);
}

/* Publishes what changes without a call of the tenant, or matters little. */
static void control_block_refresh(struct shim *shim)
{
        struct gate_stats stats;

        gate_stats(shim->gate, &stats);
        publish(shim, &stats);
        on_books(shim);
}

/* ---- start --------------------------------------------------------------------------------------- */

static int read_lease(struct message_lease *ret, struct err *err)
{
        char text[MESSAGE_MAX];
        size_t size = 0;
        json_t *body;
        ssize_t n;
        int r;

        while (size < sizeof(text) && (n = read(SHIM_FD_LEASE, text + size, sizeof(text) - size)) > 0)
                size += (size_t)n;
        (void)close(SHIM_FD_LEASE);
        body = json_loadb(text, size, 0, NULL);
        r = message_lease_parse(body, ret);
        json_decref(body);
        return r < 0 ? err_say(err, r, "shim: descriptor %d holds no lease", SHIM_FD_LEASE) : 0;
}

static int new_control_block(struct shim *shim, struct err *err)
{
        int r = control_block_new(shim->terms.tenant, shim->terms.owner, shim->lease.n_devices, &shim->control,
                                  &shim->control_block_fd);

        if (r < 0)
                return err_set(err, r, "making the control block");
        publish_terms(shim);
        write_books(shim);
        return 0;
}

/* Only a plain file: a pipe that nobody reads would stop the gate. */
static void start_record(struct shim *shim)
{
        struct stat about;

        if (fcntl(SHIM_FD_RECORD, F_GETFD) < 0)
                return;
        if (fstat(SHIM_FD_RECORD, &about) < 0 || !S_ISREG(about.st_mode) ||
            record_writer_new(SHIM_FD_RECORD, shim->backend.layout.version, shim->lease.capabilities, &shim->writer) <
                    0)
                (void)fprintf(stderr, "sublet: the record of '%s' cannot be written\n", shim->terms.tenant);
}

#define TURN_WAIT_MOST (24 * 3600 * NSEC_PER_SEC) /* with --swap it is others' turns that a call waits for */

static int start_gate(struct shim *shim, struct err *err)
{
        bool has_job = jobs_has(&shim->terms);
        struct gate_options options = { .lease = &shim->lease,
                                        .tenancy = shim->terms.id,
                                        .layout = shim->backend.layout,
                                        .driver = shim->driver,
                                        .ipc_host = shim->terms.ipc_host,
                                        .takes_signals = shim->terms.container.id[0],
                                        .audit_period = (nsec)shim->terms.audit_ms * NSEC_PER_MSEC,
                                        .event = talk_event,
                                        .event_context = shim,
                                        .record = shim->writer ? record_put : NULL,
                                        .record_context = shim->writer,
                                        .channel = on_channel,
                                        .desired = on_desired,
                                        .lends = message_lease_is_client(&shim->terms) ? on_lends : NULL,
                                        .borrow = has_job ? on_borrow : NULL,
                                        .stands = has_job ? on_stands : NULL,
                                        .give_back = has_job ? on_give_back : NULL,
                                        .is_away = publish_is_away,
                                        .waits = publish_waits,
                                        .copier = &shim->mover.copier,
                                        .wait_most = shim->terms.swap ? TURN_WAIT_MOST : 0,
                                        .usage_changed = on_books,
                                        .node_context = shim };
        int r;

        r = mover_init(&shim->mover, &shim->backend);
        if (r < 0)
                return err_set(err, r, "starting the gate");
        if (has_job)
                jobs_init(&shim->jobs, shim->dir, &shim->terms);
        r = gate_new(&options, SHIM_FD_LISTENER, &shim->gate);
        if (r < 0)
                return err_set(err, r, "starting the gate");
        if (has_job)
                jobs_start(&shim->jobs, shim->gate);
        shim->reconciler.gate = shim->mover.gate = shim->gate;
        shim->reconciler.control = shim->control;
        shim->reconciler.lease = &shim->lease;
        return 0;
}

static int shim_prepare(struct shim *shim, struct err *err)
{
        int r;

        if ((r = read_lease(&shim->terms, err)) < 0 || (r = gpu_backend_find(&shim->backend, err)) < 0 ||
            (r = machine_probe(&shim->backend, &shim->lease, err)) < 0)
                return r;
        shim->driver = machine_driver(&shim->backend);
        r = message_lease_apply(&shim->terms, &shim->lease);
        if (r < 0)
                return err_say(err, r, "the lease names a device that this machine does not have");
        start_record(shim);
        if ((r = new_control_block(shim, err)) < 0 || (r = start_gate(shim, err)) < 0)
                return r;

        /* Only now may the tenant's first call be answered: there is a control block for its channels. */
        if (!talk_hello(shim))
                shim->reconciler.is_orphan = true;
        if ((r = gate_start(shim->gate)) < 0 || (r = reconciler_start(&shim->reconciler)) < 0)
                return err_set(err, r, "starting the gate");
        return 0;
}

/* ---- while the tenant runs --------------------------------------------------------------------- */

void shim_end_tenant(struct shim *shim)
{
        shim->is_ending = true;
        {
                LOCKED(&shim->talk_lock);
                if (shim->run >= 0)
                        (void)message_send(shim->run, message_new("end"), NULL, 0);
        }
        if (shim->init >= 0) /* and with it, usually, its whole namespace */
                (void)syscall(SYS_pidfd_send_signal, shim->init, SIGKILL, NULL, 0);
        gate_kill(shim->gate);
}

/* Once the last daemon's desired state is undone, the next one gets a hello. */
static void daemon_find(struct shim *shim)
{
        if (shim->daemon >= 0)
                return;
        if (!shim->reconciler.is_orphan) {
                shim->reconciler.has_undone = false;
                shim->reconciler.is_orphan = true;
                control_block_notify(shim->control);
        }
        if (!shim->reconciler.has_undone)
                return;
        if (talk_reconnect(shim))
                shim->reconciler.is_orphan = false;
}

static int wait_ms(const struct shim *shim)
{
        if (shim->is_settled)
                return KEPT_MS;
        if (shim->is_lent)
                return LENT_MS;
        if (shim->is_ending)
                return KILL_MS;
        if (shim->daemon < 0)
                return shim->reconciler.has_undone ? RECONNECT_MS : UNDO_MS;
        return REFRESH_MS;
}

/* What the tenant lent is still charged to it. */
static bool has_lent(struct shim *shim)
{
        size_t n = gate_loans(shim->gate);
        char text[64];

        if (!n || shim->is_lent)
                return n;
        (void)snprintf(text, sizeof(text), "%zu pieces", n);
        talk_event(shim, EVENT_LENT_AT_END, 0, text);
        return shim->is_lent = true;
}

/* No process is left whose calls it could have. */
static void end_record(struct shim *shim)
{
        struct record_writer *writer = shim->writer;

        if (!writer)
                return;
        gate_record_end(shim->gate);
        shim->writer = NULL;
        if (record_writer_end(writer) < 0)
                (void)fprintf(stderr, "sublet: the record of '%s' is not whole\n", shim->terms.tenant);
}

/* The tenant has ended. Its account is not closed while the driver has memory of it: what it lent, and what somebody
 * else keeps by a descriptor that was passed on. Its lease would be another's meanwhile. */
static bool is_over(struct shim *shim)
{
        if (has_lent(shim)) {
                publish_kept(shim);
                return false;
        }
        if (!shim->is_settled) {
                (void)gate_wait(shim->gate, NSEC_PER_SEC);
                end_record(shim);
                mover_stop(&shim->mover); /* it holds files of the tenant's clients */
                shim->owes_moved |= mover_take(&shim->mover) == MOVER_ANSWER;
                talk_moved(shim);
                settle(shim->gate, &shim->lease);
                shim->is_settled = true;
        }
        if (!is_kept(shim->gate, &shim->lease))
                return true;
        publish_kept(shim);
        return false;
}

static bool has_ended(const struct shim *shim)
{
        return shim->is_lent || shim->is_settled;
}

/* Returns when no process is left that the filter covers, nobody has memory of it, and its books are settled. */
static void shim_serve(struct shim *shim)
{
        for (;;) {
                struct pollfd fds[] = { { has_ended(shim) ? -1 : gate_over(shim->gate), POLLIN, 0 },
                                        { shim->daemon, POLLIN, 0 },
                                        { shim->run, POLLIN, 0 },
                                        { shim->mover.done, POLLIN, 0 } };

                (void)poll(fds, ARRAY_SIZE(fds), wait_ms(shim));
                if ((fds[0].revents || has_ended(shim)) && is_over(shim))
                        return;
                if (fds[1].revents)
                        talk_daemon(shim);
                talk_away(shim);
                if (fds[2].revents)
                        talk_run(shim);
                if (fds[3].revents)
                        shim->owes_moved |= mover_take(&shim->mover) == MOVER_ANSWER;
                talk_moved(shim);
                daemon_find(shim);
                if (shim->jobs.is_lender_lost && !shim->is_ending)
                        shim_end_tenant(shim);
                if (shim->is_ending)
                        gate_kill(shim->gate);
                control_block_refresh(shim);
        }
}

/* To this daemon or to the next. */
static void account_deliver(struct shim *shim, nsec elapsed)
{
        nsec deadline = clock_now() + LINGER;
        bool is_sent;

        control_block_refresh(shim);
        shim->control->has_ended = 1;
        is_sent = talk_ended(shim, elapsed);
        while (!is_sent && clock_now() < deadline) {
                shim->reconciler.is_orphan = false;
                if (talk_reconnect(shim))
                        is_sent = talk_ended(shim, elapsed);
                else
                        (void)poll(NULL, 0, RECONNECT_MS);
        }
}

static const char *directory_of(int argc, char **argv)
{
        return argc == 3 && !strcmp(argv[1], "--dir") ? argv[2] : NULL;
}

int shim_main(int argc, char **argv)
{
        static struct shim shim; /* large */
        struct err err = { 0 };
        nsec start = clock_now();
        bool is_listener;
        int r;

        shim.dir = directory_of(argc, argv);
        if (!shim.dir) {
                (void)fprintf(stderr, "sublet: keeper: only the daemon starts this ('sublet daemon')\n");
                return EXIT_USAGE;
        }
        descriptors_raise();
        lock_init(&shim.talk_lock, LOCK_TALK);
        shim.daemon = SHIM_FD_DAEMON;
        shim.run = fcntl(SHIM_FD_RUN, F_GETFD) < 0 ? -1 : SHIM_FD_RUN;
        shim.init = fcntl(SHIM_FD_INIT, F_GETFD) < 0 ? -1 : SHIM_FD_INIT;
        is_listener =
                shim_is_listener(SHIM_FD_LISTENER); /* before shim_harden: afterwards /proc/self is closed to us, too */
        shim_harden();
        r = is_listener ? shim_prepare(&shim, &err) :
                          err_say(&err, -EBADF, "the descriptor sent as the tenant's listener is not one");
        if (r < 0) {
                talk_failed(&shim, err.text);
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return EXIT_FAILED;
        }
        shim_serve(&shim);
        mover_stop(&shim.mover); /* the daemon may have asked once more */
        account_deliver(&shim, clock_now() - start);
        reconciler_stop(&shim.reconciler);
        if (jobs_has(&shim.terms))
                jobs_stop(&shim.jobs);
        publish_kept_end(&shim);
        shim.gate = gate_free(shim.gate);
        return 0;
}
