/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the daemon that come, say anything with any descriptors in any order, and hang up.
 *
 *      steps: what (1) and its operands (enum step)
 *
 * After each step the leases fit the devices, unless a shim of another daemon was taken in. At the end, when all have
 * hung up, no connection is left and no descriptor.
 */
#include "daemon/accept.h"
#include "daemon/connection.h"
#include "daemon/containers/agent.h"
#include "daemon/containers/pending.h"
#include "daemon/state/mps/mps.h"
#include "daemon/state/shims.h"
#include "daemon/store/store.h"
#include "wire/messages.h"

#include "base/cleanup.h"
#include "base/rights.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum step {
        STEP_TENANT, /* user */
        STEP_ATTACH, /* user */
        STEP_SHIM,
        STEP_AGENT,
        STEP_SAY,      /* to, descriptors, size (2), text */
        STEP_PIECE,    /* the same, as it is, to seccomp.sock */
        STEP_LEASE,    /* to, gigabytes, share, enforcement */
        STEP_HELLO,    /* to, which tenancy, descriptors */
        STEP_ATTACHES, /* to, whether the token is right, descriptors */
        STEP_HANG_UP,  /* which */
        STEP_TICK,     /* seconds */
        N_STEPS,
};

enum {
        DEVICES = 2,
        TOTAL_GIB = 100,
        PEERS = 8,
        DESCRIPTORS_MAX = 256,
        DAEMONS_USER = 4242,
        STEPS_MAX = 100,
};

static struct daemon *node;
static int peers[PEERS];
static nsec later;
static bool has_adopted;
static const uint8_t *at;
static size_t left;

static void require(bool holds)
{
        if (!holds)
                abort();
}

static uint8_t next(void)
{
        if (!left)
                return 0;
        left--;
        return *at++;
}

static unsigned int count_descriptors(void)
{
        unsigned int n = 0;

        for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* As many as that are open within ten seconds. */
static bool is_soon(unsigned int n)
{
        for (nsec until = clock_now() + 10 * NSEC_PER_SEC; count_descriptors() != n; usleep(100))
                if (clock_now() > until)
                        return false;
        return true;
}

static void stop(struct loop_timer *timer)
{
        loop_stop(timer->context);
}

/* Twice: an answer may make another end ready. */
static void turn(void)
{
        for (int i = 0; i < 2; i++) {
                struct loop_timer timer = { .due = stop, .context = node->loop };

                loop_timer_set(node->loop, &timer, 0, 0);
                require(loop_run(node->loop) == 0);
        }
}

static void check(void)
{
        for (unsigned int i = 0; i < DEVICES && !has_adopted; i++) {
                require(tenants_leased(&node->tenants, i, NULL) <= node->tenants.totals[i]);
                require(tenants_promised(&node->tenants, i, NULL) <= TURNS_WHOLE);
        }
}

/* ---- peers ------------------------------------------------------------------------------------------------- */

static int *peer_free(void)
{
        for (size_t i = 0; i < PEERS; i++)
                if (peers[i] < 0)
                        return &peers[i];
        return NULL;
}

static void comes(enum connection_kind kind, uid_t uid)
{
        const struct ucred who = { .pid = getpid(), .uid = uid };
        int *peer = peer_free(), ends[2];

        if (!peer || !connections_accept(node, kind, uid))
                return;
        require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        connection_new(node, kind, ends[0], &who);
        *peer = ends[1];
}

static void agent_comes(void)
{
        const struct ucred who = { .pid = getpid() };
        int *peer = peer_free(), ends[2];

        if (!peer)
                return;
        require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        agent_accept(node, ends[0], &who);
        *peer = ends[1];
}

/* With `kind` of descriptors: none, an eventfd, a memory file, three. */
static void send_text(int peer, const char *text, size_t size, unsigned int kind)
{
        bool is_memory = kind % 4 == 2;
        int event = eventfd(0, EFD_CLOEXEC), memory = memfd_create("fuzz", MFD_CLOEXEC);
        const int fds[] = { is_memory ? memory : event, is_memory ? event : memory, memory };
        size_t n = kind % 4 == 3 ? 3 : kind % 4 > 0;
        char ignored[4096];

        if (ftruncate(memory, 8192) == 0)
                (void)rights_send(peer, &(struct iovec){ (void *)(uintptr_t)text, size }, 1, fds, n,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
        closep(&event);
        closep(&memory);
        turn();
        while (recv(peer, ignored, sizeof(ignored), MSG_DONTWAIT) > 0)
                ;
}

/* Nothing is made in a directory that the input names, and no control daemon is started. */
static void send_json(int peer, json_t *body, unsigned int kind)
{
        const char *mode = json_string_value(json_object_get(body, "mode"));
        char *text;

        (void)json_object_del(body, "place");
        if (mode && strcmp(mode, "time") != 0)
                (void)json_object_del(body, "mode");
        text = json_dumps(body, JSON_COMPACT);
        if (text)
                send_text(peer, text, strlen(text), kind);
        free(text);
}

static void says(bool is_piece)
{
        int peer = peers[next() % PEERS];
        unsigned int kind = next();
        size_t size = next();
        json_t *body;

        size |= (size_t)next() << 8;
        size = size < left ? size : left;
        body = is_piece ? NULL : json_loadb((const char *)at, size, 0, NULL);
        if (peer >= 0 && json_is_object(body))
                send_json(peer, body, kind);
        else if (peer >= 0 && (is_piece || !memmem(at, size, "place", 5)))
                send_text(peer, (const char *)at, size, kind);
        json_decref(body);
        at += size;
        left -= size;
}

static void asks(void)
{
        int peer = peers[next() % PEERS];
        struct message_request request = { .is_named = false, .cap = TURNS_WHOLE };
        json_t *body;

        (void)snprintf(request.tenant, sizeof(request.tenant), "t");
        (void)snprintf(request.mem, sizeof(request.mem), "%uG", next());
        request.share = next() * 8u;
        request.enforcement = next() % 2u ? ENFORCEMENT_PRELOAD : ENFORCEMENT_GATE;
        body = message_request_new(&request);
        if (peer >= 0)
                send_json(peer, body, 0);
        json_decref(body);
}

static const struct tenant *tenant_at(unsigned int i)
{
        const struct tenant *tenant = node->tenants.first;

        while (tenant && i--)
                tenant = tenant->next;
        return tenant;
}

/* A shim, of a tenant that is there or of none. */
static void hellos(void)
{
        int peer = peers[next() % PEERS];
        const struct tenant *tenant = tenant_at(next() % 4u);
        struct message_lease lease = { .id = 99, .tenant = "other", .mode = "time", .cap = TURNS_WHOLE };
        json_t *body = message_new("hello");

        if (tenant)
                lease = tenant->lease;
        has_adopted = true;
        (void)json_object_set_new(body, "lease", message_lease_new(&lease));
        (void)json_object_set_new(body, "tenant", json_string(lease.tenant));
        if (peer >= 0)
                send_json(peer, body, next());
        json_decref(body);
}

static void attaches(void)
{
        int peer = peers[next() % PEERS];
        const struct tenant *tenant = tenant_at(next() % 4u);
        char token[2 * LEASE_DESCRIPTOR_TOKEN + 1] = "";
        json_t *body = message_new("attach");

        for (size_t i = 0; tenant && i < LEASE_DESCRIPTOR_TOKEN; i++)
                (void)snprintf(token + 2 * i, 3, "%02x", tenant->token[i]);
        (void)json_object_set_new(body, "tenancy", json_integer(tenant ? (json_int_t)tenant->lease.id : 1));
        (void)json_object_set_new(body, "token", json_string(token));
        if (peer >= 0)
                send_json(peer, body, next());
        json_decref(body);
}

static void tick(unsigned int seconds)
{
        later += (nsec)seconds * NSEC_PER_SEC;
        agent_tick(node, clock_now() + later);
        pending_tick(node, clock_now() + later);
        connections_tick(node, clock_now() + later);
}

static void step(void)
{
        switch ((enum step)(next() % N_STEPS)) {
        case STEP_TENANT:
                comes(CONNECTION_TENANT, next() % 4u ? 7 : 0);
                break;
        case STEP_ATTACH:
                comes(CONNECTION_ATTACH, 7 + next() % 2u);
                break;
        case STEP_SHIM:
                comes(CONNECTION_SHIM, DAEMONS_USER);
                break;
        case STEP_AGENT:
                agent_comes();
                break;
        case STEP_SAY:
                says(false);
                break;
        case STEP_PIECE:
                says(true);
                break;
        case STEP_LEASE:
                asks();
                break;
        case STEP_HELLO:
                hellos();
                break;
        case STEP_ATTACHES:
                attaches();
                break;
        case STEP_HANG_UP:
                closep(&peers[next() % PEERS]);
                break;
        case STEP_TICK:
                tick(next());
                break;
        case N_STEPS:
                break;
        }
        turn();
        check();
}

/* ---- begin and end ----------------------------------------------------------------------------------------- */

static void begin(void)
{
        node = calloc(1, sizeof(*node));
        require(node != NULL && loop_new(&node->loop) == 0);
        node->uid = DAEMONS_USER;
        node->is_silent = true;
        node->backend.name = "sim";
        (void)snprintf(node->settings.dir, sizeof(node->settings.dir), "/nonexistent");
        node->n_devices = node->tenants.n_devices = node->machine.n_devices = DEVICES;
        for (unsigned int i = 0; i < DEVICES; i++) {
                node->devices[i].daemon = node;
                node->devices[i].index = i;
                node->devices[i].info.total = node->tenants.totals[i] = TOTAL_GIB * GIB;
                node->machine.devices[i].total = TOTAL_GIB * GIB;
        }
        for (size_t i = 0; i < PEERS; i++)
                peers[i] = -1;
        later = 0;
        has_adopted = false;
}

static void end(void)
{
        for (size_t i = 0; i < PEERS; i++)
                closep(&peers[i]);
        turn();
        tick(200);
        require(!node->n_connections && !node->connections && !node->n_callers && !node->callers);
        pending_close(node);
        while (node->tenants.first) {
                struct tenant *tenant = node->tenants.first;

                shims_disconnect(tenant);
                tenants_take(&node->tenants, tenant);
                tenant_free(tenant);
        }
        mps_tick(node);
        for (unsigned int i = 0; i < DEVICES; i++)
                require(!node->devices[i].mps);
        allocations_done(&node->allocations);
        (void)loop_free(node->loop);
        free(node);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        unsigned int n = count_descriptors();

        (void)unsetenv("SUBLET_SIM");
        at = data;
        left = size;
        begin();
        for (int i = 0; i < STEPS_MAX && left; i++)
                step();
        end();
        require(is_soon(n)); /* threads close what was sent (base/descriptors.h) */
        return 0;
}
