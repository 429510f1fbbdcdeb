/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon and `sublet run` say to a shim, in any order, and what the shims' home answers.
 *
 *      steps: what (1), descriptors (1), size (2), text
 *
 * No quota is set but of a granted device, and terms stay within their bounds. At the end no descriptor is left.
 */
#define gate_quota_set heard_quota
#define gate_host_set heard_host
#define gate_join heard_join
#define shim_end_tenant heard_end
#include "shim/spawner_client.c"
#include "shim/talk.c"
#undef gate_quota_set
#undef gate_host_set
#undef gate_join
#undef shim_end_tenant

#include "base/rights.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

enum {
        DEVICES = 3,
        GRANTED = 5, /* a bit each */
        STEPS_MAX = 64,
        DESCRIPTORS_MAX = 128,
        KINDS = 4,
};

static struct shim shim;
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

/* ---- the gate ---------------------------------------------------------------------------------------------- */

void heard_quota(struct gate *gate, unsigned int device, bytes size)
{
        (void)gate;
        require(device < DEVICES && (GRANTED >> device & 1) && size <= INT64_MAX);
}

void heard_host(struct gate *gate, bytes size)
{
        (void)gate;
        require(size <= INT64_MAX);
}

/* Full every other time; it takes the listener over only when it is not. */
int heard_join(struct gate *gate, int listener)
{
        static unsigned int n;

        (void)gate;
        require(fcntl(listener, F_GETFD) >= 0);
        return n++ % 2 ? -EBUSY : close(listener);
}

void heard_end(struct shim *ended)
{
        ended->is_ending = true;
}

/* ---- peers ------------------------------------------------------------------------------------------------- */

static void check_terms(void)
{
        const struct message_lease *terms = &shim.terms;

        require(terms->share <= TURNS_WHOLE && terms->cap > 0 && terms->cap <= TURNS_WHOLE);
        require(terms->goal >= 0 && terms->goal <= TURNS_GOAL_MOST);
        require(terms->sleep_after >= 0 && terms->sleep_after <= MESSAGE_SLEEP_MOST);
        require(!(GRANTED >> 1 & 1) && !terms->devices[1].quota);
}

static void packet_send(int peer)
{
        int event = eventfd(0, EFD_CLOEXEC);
        const int fds[MESSAGE_FDS] = { event, event, event, event };
        size_t n = next() % (MESSAGE_FDS + 1u), size = next();

        size |= (size_t)next() << 8;
        size = size < left ? size : left;
        (void)rights_send(peer, &(struct iovec){ (void *)(uintptr_t)at, size }, 1, fds, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        at += size;
        left -= size;
        closep(&event);
}

/* What a shim writes is a message each time. */
static void packets_receive(int peer)
{
        struct message message;
        int r;

        while ((r = message_receive(peer, &message)) != MESSAGE_E_NONE && r != MESSAGE_E_CLOSED) {
                require(r == MESSAGE_OK && message_type(&message)[0]);
                message_done(&message);
        }
}

static void home_answers(int ours, int theirs)
{
        struct err err = { 0 };
        pid_t process = -1;
        int r;

        packet_send(theirs);
        r = spawner_receive(ours, &process, &err);
        require(r == 0 ? process > 0 : r < 0 && process == -1 && err.text[0]);
}

static void step(int daemon, int run, const int home[static 2])
{
        switch (next() % KINDS) {
        case 0:
        case 1:
                packet_send(daemon);
                if (shim.daemon >= 0)
                        talk_daemon(&shim);
                break;
        case 2:
                packet_send(run);
                if (shim.run >= 0)
                        talk_run(&shim);
                break;
        default:
                home_answers(home[0], home[1]);
        }
        check_terms();
        packets_receive(daemon);
        packets_receive(run);
}

static void pair(int ends[static 2])
{
        require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
}

static void begin(int daemon, int run)
{
        shim = (struct shim){ .daemon = daemon, .run = run, .init = -1, .terms = { .cap = TURNS_WHOLE } };
        lock_init(&shim.talk_lock, LOCK_TALK);
        shim.lease.n_devices = DEVICES;
        for (unsigned int i = 0; i < DEVICES; i++)
                shim.lease.devices[i].is_granted = GRANTED >> i & 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        unsigned int n = count_descriptors();
        int daemon[2], run[2], home[2];
        nsec until = clock_now() + 10 * NSEC_PER_SEC;

        at = data;
        left = size;
        pair(daemon);
        pair(run);
        pair(home);
        begin(daemon[0], run[0]);
        for (int i = 0; i < STEPS_MAX && left; i++)
                step(daemon[1], run[1], home);
        closep(&shim.daemon);
        closep(&shim.run);
        closep(&daemon[1]);
        closep(&run[1]);
        closep(&home[0]);
        closep(&home[1]);
        lock_done(&shim.talk_lock);
        while (count_descriptors() != n) /* threads close what was sent (base/descriptors.h) */
                require(clock_now() < until);
        return 0;
}
