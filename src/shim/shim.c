/*
 * `sublet keeper`: one tenant's gate as a process of its own; keeper.h, ARCHITECTURE.md.
 *
 * Threads: the gate's, the steward, and the main one, which waits on sockets and on the tenant's end. The gate's
 * threads write the books onto the board as they change; nobody is asked for them.
 */
#include "shim/inside.h"
#include "shim/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/probe.h"
#include "shim/mps_server.h"
#include "shim/settle.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum {
        RECONNECT_MS = 100,
        REFRESH_MS = 250,
        KILL_MS = 20,
        EXIT_FAILED = 125,
};

/* How long the account of an ended tenant waits for a daemon to take it. */
#define LINGER (10 * NSEC_PER_SEC)

/* ---- the board ----------------------------------------------------------------------------------- */

static void write_books(struct keeper *keeper)
{
        struct board *board = keeper->board;

        for (unsigned int i = 0; i < keeper->lease.n_devices; i++) {
                const struct quota *quota = &keeper->lease.devices[i].quota;

                board->devices[i].quota = quota->size;
                board->devices[i].held = quota->used;
                board->devices[i].peak = quota->peak;
                board->devices[i].n_refused = quota->n_refused;
        }
        board->host_quota = keeper->lease.host.size;
        board->host_held = keeper->lease.host.used;
}

/* From any thread, at once. Who finds another writing leaves a mark, and that one writes again: so what stands on
 * the board in the end is the latest. */
static void on_books(void *context)
{
        struct keeper *keeper = context;

        keeper->is_dirty = true;
        while (keeper->is_dirty && !atomic_exchange(&keeper->is_writing, true)) {
                while (atomic_exchange(&keeper->is_dirty, false))
                        write_books(keeper);
                keeper->is_writing = false;
        }
}

static void on_channel(void *context, const struct gate_channel *channel, bool is_new)
{
        struct keeper *keeper = context;
        struct board_channel row = { .client = channel->client,
                                     .handle = channel->handle,
                                     .group = channel->group,
                                     .cid = channel->cid,
                                     .device = (uint16_t)channel->device,
                                     .is_compute = channel->is_compute,
                                     .order = channel->order };

        if (is_new)
                (void)board_channel_put(keeper->board, &row); /* a lease gives no more than the board has */
        else
                board_channel_drop(keeper->board, channel->client, channel->handle);
        keeper->steward.has_changed = true;
        steward_wake(&keeper->steward);
}

/* Of the devices that it leases only: another device's server is nobody to it. */
static bool on_lends(void *context, uint32_t client)
{
        const struct keeper *keeper = context;

        for (unsigned int i = 0; i < keeper->lease.n_devices; i++)
                if (keeper->lease.devices[i].is_granted && mps_lends(keeper->dir, i, &keeper->driver, client))
                        return true;
        return false;
}

static struct gate_wish on_wish(void *context, unsigned int device)
{
        const struct keeper *keeper = context;

        return steward_wish(&keeper->steward, device);
}

/* What changes without a call of the tenant, or matters little. */
static void refresh(struct keeper *keeper)
{
        struct gate_stats stats;

        gate_stats(keeper->gate, &stats);
        keeper->board->n_processes = (uint32_t)stats.n_processes;
        keeper->board->n_calls = stats.n_calls;
        keeper->board->n_denied = stats.n_denied;
        on_books(keeper);
}

/* ---- start --------------------------------------------------------------------------------------- */

static int read_lease(struct message_lease *ret, struct err *err)
{
        char text[MESSAGE_MAX];
        size_t size = 0;
        json_t *body;
        ssize_t n;
        int r;

        while (size < sizeof(text) && (n = read(KEEPER_FD_LEASE, text + size, sizeof(text) - size)) > 0)
                size += (size_t)n;
        (void)close(KEEPER_FD_LEASE);
        body = json_loadb(text, size, 0, NULL);
        r = message_lease_parse(body, ret);
        json_decref(body);
        return r < 0 ? err_say(err, r, "keeper: what descriptor %d holds is no lease", KEEPER_FD_LEASE) : 0;
}

static int find_cards(struct keeper *keeper, struct err *err)
{
        struct probe probe;
        int r;

        keeper->driver = (struct gate_driver){ keeper->backend.context, keeper->backend.node, keeper->backend.ioctl,
                                               keeper->backend.open, keeper->backend.map };
        r = probe_init(&probe, &keeper->driver, &keeper->backend.layout);
        if (r == 0) {
                r = probe_devices(&probe, &keeper->lease);
                probe_done(&probe);
        }
        return r < 0 ? err_set(err, r, "asking the driver for its cards") : 0;
}

/* A service stop signals everybody; a keeper stays with its tenant. Nobody can be told of a broken stderr. */
static void ignore_signals(void)
{
        static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM };

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                (void)signal(numbers[i], SIG_IGN);
}

/* Reading the tenant, whoever it runs as, and ending it. The permitted set stays, see listen.c. */
static void drop_capabilities(void)
{
        static const unsigned int kept[] = { CAP_SYS_PTRACE, CAP_KILL, CAP_DAC_READ_SEARCH };
        struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };
        uint32_t effective = 0;

        if (syscall(SYS_capget, &header, data) < 0)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
                effective |= CAP_TO_MASK(kept[i]);
        data[0].effective = data[0].permitted & effective;
        data[1].effective = 0;
        data[0].inheritable = data[1].inheritable = 0;
        (void)syscall(SYS_capset, &header, data);
}

/* Out of memory the tenant goes first: without its keeper it would be lost anyway. */
static void keep_from_oom(void)
{
        _cleanup_(closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

        if (fd >= 0)
                (void)!write(fd, "-900", 4);
}

static void harden(void)
{
        (void)prctl(PR_SET_NAME, "keeper");
        ignore_signals();
        keep_from_oom();
        drop_capabilities();
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int new_board(struct keeper *keeper, struct err *err)
{
        int r = board_new(keeper->terms.tenant, keeper->terms.owner, keeper->lease.n_devices, &keeper->board,
                          &keeper->board_fd);

        if (r < 0)
                return err_set(err, r, "making the board");
        for (unsigned int i = 0; i < keeper->lease.n_devices; i++) {
                keeper->board->devices[i].share = keeper->terms.share;
                keeper->board->devices[i].cap = keeper->terms.cap;
                keeper->board->devices[i].class = keeper->terms.class;
        }
        write_books(keeper);
        return 0;
}

static int start_gate(struct keeper *keeper, struct err *err)
{
        struct gate_options options = { .lease = &keeper->lease,
                                        .tenancy = keeper->terms.id,
                                        .layout = keeper->backend.layout,
                                        .driver = keeper->driver,
                                        .ipc_host = keeper->terms.ipc_host,
                                        .takes_signals = keeper->terms.container.id[0],
                                        .audit_period = (nsec)keeper->terms.audit_ms * NSEC_PER_MSEC,
                                        .event = talk_event,
                                        .event_context = keeper,
                                        .channel = on_channel,
                                        .wish = on_wish,
                                        .lends = message_lease_is_spatial(&keeper->terms) ? on_lends : NULL,
                                        .books = on_books,
                                        .node_context = keeper };
        int r = gate_new(&options, KEEPER_FD_LISTENER, &keeper->gate);

        if (r < 0)
                return err_set(err, r, "starting the gate");
        keeper->steward.gate = keeper->gate;
        keeper->steward.board = keeper->board;
        keeper->steward.lease = &keeper->lease;
        return 0;
}

static int prepare(struct keeper *keeper, struct err *err)
{
        int r;

        if ((r = read_lease(&keeper->terms, err)) < 0 || (r = gpu_backend_find(&keeper->backend, err)) < 0 ||
            (r = find_cards(keeper, err)) < 0)
                return r;
        r = message_lease_apply(&keeper->terms, &keeper->lease);
        if (r < 0)
                return err_say(err, r, "the lease names a device that this machine does not have");
        if ((r = new_board(keeper, err)) < 0 || (r = start_gate(keeper, err)) < 0)
                return r;

        /* Only now may the tenant's first call be answered: its channels have a board to stand on. */
        if (!talk_hello(keeper))
                keeper->steward.is_orphan = true;
        if ((r = gate_start(keeper->gate)) < 0 || (r = steward_start(&keeper->steward)) < 0)
                return err_set(err, r, "starting the gate");
        return 0;
}

/* ---- the tenant's time --------------------------------------------------------------------------- */

void keeper_end_tenant(struct keeper *keeper)
{
        keeper->is_ending = true;
        {
                LOCKED(&keeper->talk_lock);
                if (keeper->run >= 0)
                        (void)message_send(keeper->run, message_new("end"), NULL, 0);
        }
        if (keeper->init >= 0) /* and with it, as a rule, its whole namespace */
                (void)syscall(SYS_pidfd_send_signal, keeper->init, SIGKILL, NULL, 0);
        gate_kill(keeper->gate);
}

/* A daemon is told all anew, once what the last one had wished is undone. */
static void look_for_daemon(struct keeper *keeper)
{
        if (keeper->daemon >= 0)
                return;
        if (!keeper->steward.is_orphan) {
                keeper->steward.has_let_on = false;
                keeper->steward.is_orphan = true;
                steward_wake(&keeper->steward);
        }
        if (!keeper->steward.has_let_on)
                return;
        if (talk_reconnect(keeper))
                keeper->steward.is_orphan = false;
}

static int wait_ms(const struct keeper *keeper)
{
        if (keeper->is_ending)
                return KILL_MS;
        if (keeper->daemon < 0)
                return keeper->steward.has_let_on ? RECONNECT_MS : 1;
        return REFRESH_MS;
}

/* Until no process is left that the filter covers. */
static void serve(struct keeper *keeper)
{
        for (;;) {
                struct pollfd fds[] = { { gate_over(keeper->gate), POLLIN, 0 },
                                        { keeper->daemon, POLLIN, 0 },
                                        { keeper->run, POLLIN, 0 } };

                (void)poll(fds, ARRAY_SIZE(fds), wait_ms(keeper));
                if (fds[0].revents)
                        return;
                if (fds[1].revents)
                        talk_daemon(keeper);
                if (fds[2].revents)
                        talk_run(keeper);
                look_for_daemon(keeper);
                if (keeper->is_ending)
                        gate_kill(keeper->gate);
                refresh(keeper);
        }
}

/* Delivers the account, to the next daemon if need be. */
static void finish(struct keeper *keeper, nsec elapsed)
{
        nsec deadline = clock_now() + LINGER;
        bool is_told;

        (void)gate_wait(keeper->gate, NSEC_PER_SEC);
        settle(keeper->gate, &keeper->lease);
        refresh(keeper);
        keeper->board->has_ended = 1;
        is_told = talk_ended(keeper, elapsed);
        while (!is_told && clock_now() < deadline) {
                keeper->steward.is_orphan = false;
                if (talk_reconnect(keeper))
                        is_told = talk_ended(keeper, elapsed);
                else
                        (void)poll(NULL, 0, RECONNECT_MS);
        }
}

static const char *directory_of(int argc, char **argv)
{
        return argc == 3 && !strcmp(argv[1], "--dir") ? argv[2] : NULL;
}

int keeper_main(int argc, char **argv)
{
        static struct keeper keeper; /* large */
        struct err err = { 0 };
        nsec start = clock_now();
        bool is_listener;
        int r;

        keeper.dir = directory_of(argc, argv);
        if (!keeper.dir) {
                (void)fprintf(stderr, "sublet: keeper: it is the daemon who starts keepers ('sublet daemon')\n");
                return 2;
        }
        lock_init(&keeper.talk_lock, LOCK_TALK);
        keeper.daemon = KEEPER_FD_DAEMON;
        keeper.run = fcntl(KEEPER_FD_RUN, F_GETFD) < 0 ? -1 : KEEPER_FD_RUN;
        keeper.init = fcntl(KEEPER_FD_INIT, F_GETFD) < 0 ? -1 : KEEPER_FD_INIT;
        is_listener = keeper_is_listener(KEEPER_FD_LISTENER); /* later not even we may look at ourselves */
        harden();
        r = is_listener ? prepare(&keeper, &err) :
                          err_say(&err, -EBADF, "what was sent as the tenant's listener is none");
        if (r < 0) {
                talk_failed(&keeper, err.text);
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return EXIT_FAILED;
        }
        serve(&keeper);
        finish(&keeper, clock_now() - start);
        steward_stop(&keeper.steward);
        keeper.gate = gate_free(keeper.gate);
        return 0;
}
