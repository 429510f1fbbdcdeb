/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of an HTTP server that come, read, answer and go in any order, from peers of all kinds, against a naive
 * count of what each has.
 *
 *      limits (LIMITS bytes), then steps: what and which (1), operand (1)
 *
 * Time, and who a peer is, are ours: the program is linked with wraps of clock_now, getpeername and socket_peer.
 */
#include "net/http/guard.h"

#include "base/cleanup.h"
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum step {
        STEP_COME, /* peer */
        STEP_GO,
        STEP_PHASE,   /* phase */
        STEP_RESERVE, /* bytes */
        STEP_RETURN,
        STEP_TICK, /* time */
        STEP_LARGE,
        N_STEPS,
};

enum {
        LIMITS = 8,
        SLOTS = 16,
        STEPS_MAX = 400,
        PART = 3, /* H3 */
        ROOT = 0,
};

/* Two of one /64 are one peer, and so are all that are unknown. */
static const struct {
        int family, peer;
        const char *address; /* or a user's number */
} comers[] = {
        { AF_UNIX, 0, "0" },
        { AF_UNIX, 1, "7" },
        { AF_INET, 2, "10.0.0.1" },
        { AF_INET, 3, "10.0.0.2" },
        { AF_INET6, 4, "2001:db8:1:1::1" },
        { AF_INET6, 4, "2001:db8:1:1::2" },
        { AF_INET6, 5, "2001:db8:1:2::1" },
        { AF_INET6, 6, "::ffff:10.0.0.1" },
        { AF_INET6, 7, "::ffff:10.0.0.2" },
        { AF_UNSPEC, 8, "" },
};

static struct {
        struct http_connection *connection; /* NULL: none */
        int ours, theirs;
        size_t comer, held;
        enum http_phase phase;
        nsec deadline;
        bool is_plain, is_over;
} slots[SLOTS];

static struct http_limits limits;
static struct http_guard *guard;
static size_t coming; /* whose descriptor is looked at */
static nsec now;

nsec __wrap_clock_now(void);
int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *size);
int __wrap_socket_peer(int fd, struct ucred *ret);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
        if (!holds)
                abort();
}

nsec __wrap_clock_now(void)
{
        return now;
}

int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *size)
{
        struct sockaddr_storage ret = { .ss_family = (sa_family_t)comers[coming].family };

        (void)fd;
        if (comers[coming].family == AF_UNSPEC) {
                errno = ENOTCONN;
                return -1;
        }
        if (comers[coming].family == AF_INET)
                require(inet_pton(AF_INET, comers[coming].address, &((struct sockaddr_in *)&ret)->sin_addr) == 1);
        if (comers[coming].family == AF_INET6)
                require(inet_pton(AF_INET6, comers[coming].address, &((struct sockaddr_in6 *)&ret)->sin6_addr) == 1);
        memcpy(address, &ret, *size < sizeof(ret) ? *size : sizeof(ret));
        return 0;
}

int __wrap_socket_peer(int fd, struct ucred *ret)
{
        (void)fd;
        *ret = (struct ucred){ .uid = (uid_t)atoi(comers[coming].address) };
        return 0;
}

static bool is_root(void *context, uid_t uid)
{
        (void)context;
        return uid == ROOT;
}

static bool is_trusted(size_t i)
{
        return comers[slots[i].comer].peer == 0;
}

static unsigned int connections_of(int peer)
{
        unsigned int n = 0;

        for (size_t i = 0; i < SLOTS; i++)
                n += slots[i].connection && (peer < 0 || comers[slots[i].comer].peer == peer);
        return n;
}

static size_t bytes_of(int peer)
{
        size_t sum = 0;

        for (size_t i = 0; i < SLOTS; i++)
                if (slots[i].connection && (peer < 0 || comers[slots[i].comer].peer == peer))
                        sum += slots[i].held;
        return sum;
}

/* What the peer has been told, "" if nothing; and whether its connection was shut down. */
static bool is_shut(size_t i, char ret_said[static 16])
{
        char text[512];
        ssize_t n = recv(slots[i].theirs, text, sizeof(text) - 1, MSG_DONTWAIT);

        ret_said[0] = '\0';
        if (n > 0) {
                text[n] = '\0';
                require(strncmp(text, "HTTP/1.1 ", 9) == 0 && strstr(text, "\r\n\r\n"));
                memcpy(ret_said, text + 9, 3);
                ret_said[3] = '\0';
                n = recv(slots[i].theirs, text, sizeof(text), MSG_DONTWAIT);
        }
        require(n <= 0);
        return n == 0;
}

static void ends(size_t i, const char *status)
{
        bool says = slots[i].is_plain && (slots[i].phase == HTTP_READS_HEAD || slots[i].phase == HTTP_READS_BODY);
        char said[16];

        require(is_shut(i, said) && strcmp(said, says ? status : "") == 0);
        slots[i].is_over = true;
        slots[i].deadline = 0;
}

static void stays(size_t i)
{
        char said[16];

        if (slots[i].connection && !slots[i].is_over)
                require(!is_shut(i, said) && !said[0]);
}

/* H2: what each may have, of what there is without the spare ones. */
static void come(size_t i, uint8_t operand)
{
        unsigned int all = limits.connections - limits.spare, own, n;
        int ends_of[2];

        if (slots[i].connection)
                return;
        require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_of) == 0);
        slots[i].ours = ends_of[0];
        slots[i].theirs = ends_of[1];
        slots[i].comer = coming = operand % ARRAY_SIZE(comers);
        slots[i].is_plain = operand & 0x80;
        slots[i].is_over = false;
        slots[i].phase = HTTP_READS_HEAD;
        slots[i].deadline = now + limits.head;
        slots[i].held = 0;
        slots[i].connection = http_guard_come(guard, ends_of[0], slots[i].is_plain, is_root, NULL);
        require(slots[i].connection);
        own = connections_of(comers[coming].peer);
        n = connections_of(-1);
        if (is_trusted(i) || (own <= limits.connections_each && n <= all && own - 1 <= all - n))
                stays(i);
        else
                ends(i, "429");
}

static void phase(size_t i, uint8_t operand)
{
        static const enum http_phase phases[] = { HTTP_READS_HEAD, HTTP_READS_BODY, HTTP_IS_ANSWERED, HTTP_TAKES_ANSWER,
                                                  HTTP_RESTS };
        enum http_phase to = phases[operand % ARRAY_SIZE(phases)];
        nsec limit = to == HTTP_READS_HEAD   ? limits.head :
                     to == HTTP_READS_BODY   ? limits.body :
                     to == HTTP_TAKES_ANSWER ? limits.answer :
                     to == HTTP_RESTS        ? limits.rest :
                                               0;

        if (!slots[i].connection)
                return;
        require(http_guard_phase(slots[i].connection, to) == !slots[i].is_over);
        if (slots[i].is_over)
                return;
        slots[i].phase = to;
        slots[i].deadline = limit ? now + limit : 0;
}

/* H3 */
static void reserve(size_t i, size_t more)
{
        int peer = comers[slots[i].comer].peer;
        size_t held = slots[i].held, own, all;
        unsigned int status;

        if (!slots[i].connection)
                return;
        own = bytes_of(peer);
        all = bytes_of(-1);
        status = http_guard_reserve(slots[i].connection, &slots[i].held, more);
        if (!limits.bodies) {
                require(status == 0 && slots[i].held == held);
                return;
        }
        require(slots[i].held == (status ? held : held + more));
        switch (status) {
        case 0:
                require(all + more <= limits.bodies && held + more <= limits.bodies);
                require(is_trusted(i) || (own + more) / PART <= limits.bodies - all - more);
                break;
        case 413:
                require(more > limits.bodies || held + more > limits.bodies / (PART + 1) * PART);
                break;
        case 429: /* it has some elsewhere */
                require(own > held);
                break;
        default:
                require(status == 503 && own == held && all + more > 0);
                /* Alone it would have found room. */
                require(all > own || more > limits.bodies - all || (own + more) / PART > limits.bodies - all - more);
        }
}

static void tick(uint8_t operand)
{
        now += operand;
        http_guard_tick(guard, now);
        for (size_t i = 0; i < SLOTS; i++)
                if (slots[i].connection && slots[i].deadline && now > slots[i].deadline)
                        ends(i, "408");
                else
                        stays(i);
}

static void go(size_t i)
{
        if (!slots[i].connection)
                return;
        http_guard_return(slots[i].connection, &slots[i].held);
        require(slots[i].held == 0);
        http_guard_go(slots[i].connection);
        slots[i].connection = NULL;
        closep(&slots[i].ours);
        closep(&slots[i].theirs);
}

static void step(uint8_t what, uint8_t operand)
{
        size_t i = what / N_STEPS % SLOTS;

        switch ((enum step)(what % N_STEPS)) {
        case STEP_COME:
                come(i, operand);
                break;
        case STEP_GO:
                go(i);
                break;
        case STEP_PHASE:
                phase(i, operand);
                break;
        case STEP_RESERVE:
                reserve(i, operand);
                break;
        case STEP_RETURN:
                if (slots[i].connection)
                        http_guard_return(slots[i].connection, &slots[i].held);
                break;
        case STEP_TICK:
                tick(operand);
                break;
        case STEP_LARGE:
                reserve(i, operand & 1 ? SIZE_MAX - operand : limits.bodies / (operand + 1u));
                break;
        case N_STEPS:
                break;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < LIMITS)
                return 0;
        limits = (struct http_limits){ .connections = data[0] % SLOTS + 1u,
                                       .connections_each = data[1] % SLOTS + 1u,
                                       .bodies = data[3] * 4u,
                                       .head = data[4] + 1,
                                       .rest = data[5] + 1,
                                       .body = data[6] + 1,
                                       .answer = data[7] + 1 };
        limits.spare = data[2] % limits.connections;
        now = 1;
        require(http_guard_new(&limits, &guard) == 0);
        for (size_t at = LIMITS, n = 0; at + 1 < size && n < STEPS_MAX; at += 2, n++)
                step(data[at], data[at + 1]);
        for (size_t i = 0; i < SLOTS; i++)
                go(i);
        guard = http_guard_free(guard);
        return 0;
}
