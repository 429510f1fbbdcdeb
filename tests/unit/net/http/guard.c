/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines and parts of peers, with a clock that the test moves. */
#include "unit.h"

#include "base/cleanup.h"
#include "net/http/guard.h"
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        CONNECTIONS = 8,
        BODIES = 4000,
        HEAD_SEC = 10,
        BODY_SEC = 30,
        REST_SEC = 100,
        ANSWER_SEC = 50,
};

static const struct http_limits limits = { .connections = CONNECTIONS,
                                           .connections_each = CONNECTIONS,
                                           .bodies = BODIES,
                                           .head = HEAD_SEC * NSEC_PER_SEC,
                                           .rest = REST_SEC * NSEC_PER_SEC,
                                           .body = BODY_SEC * NSEC_PER_SEC,
                                           .answer = ANSWER_SEC * NSEC_PER_SEC };

struct end {
        struct http_connection *connection;
        int ours, theirs;
};

static struct http_guard *guard;
static int listening = -1;
static unsigned int port;

static int guard_begin(void **state)
{
        char host[SOCKET_HOST];

        (void)state;
        listening = socket_listen_tcp("127.0.0.1:0", host, &port, NULL);
        assert_true(listening >= 0);
        return http_guard_new(&limits, &guard);
}

static int guard_end(void **state)
{
        (void)state;
        guard = http_guard_free(guard);
        closep(&listening);
        return 0;
}

/* A connection from 127.0.0.`host`, which the guard has taken in. */
static struct end end_new(unsigned char host)
{
        struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u | host) };
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct end end = { .theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };

        assert_int_equal(bind(end.theirs, (struct sockaddr *)&from, sizeof(from)), 0);
        assert_int_equal(connect(end.theirs, (struct sockaddr *)&to, sizeof(to)), 0);
        end.ours = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        assert_true(end.ours >= 0);
        end.connection = http_guard_come(guard, end.ours, true, NULL, NULL);
        assert_non_null(end.connection);
        return end;
}

static void end_drop(struct end *end)
{
        http_guard_go(end->connection);
        closep(&end->ours);
        closep(&end->theirs);
}

/* What the client reads before the end of the connection; "": no end, or nothing. */
static const char *heard(const struct end *end)
{
        static char text[512];
        ssize_t n = recv(end->theirs, text, sizeof(text) - 1, MSG_DONTWAIT);

        text[n > 0 ? n : 0] = '\0';
        return text;
}

static bool is_open(const struct end *end)
{
        char byte;

        return recv(end->theirs, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void tick(unsigned int seconds_from_now)
{
        http_guard_tick(guard, clock_now() + (nsec)seconds_from_now * NSEC_PER_SEC);
}

static void a_head_that_trickles_is_over_at_its_deadline(void **state)
{
        struct end end = end_new(1);

        (void)state;
        for (int i = 0; i < 20; i++)
                assert_int_equal(send(end.theirs, "x", 1, 0), 1);
        tick(HEAD_SEC - 1);
        assert_true(is_open(&end));
        tick(HEAD_SEC + 1);
        assert_int_equal(strncmp(heard(&end), "HTTP/1.1 408 ", 13), 0);
        assert_false(is_open(&end));
        assert_false(http_guard_phase(end.connection, HTTP_READS_BODY));
        end_drop(&end);
}

static void each_phase_has_its_own_deadline(void **state)
{
        static const struct {
                enum http_phase phase;
                unsigned int seconds;
        } phases[] = { { HTTP_READS_BODY, BODY_SEC }, { HTTP_TAKES_ANSWER, ANSWER_SEC }, { HTTP_RESTS, REST_SEC } };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(phases); i++) {
                struct end end = end_new(1);

                assert_true(http_guard_phase(end.connection, phases[i].phase));
                tick(phases[i].seconds - 1);
                assert_true(is_open(&end));
                tick(phases[i].seconds + 1);
                assert_true(!strncmp(heard(&end), "HTTP/1.1 408 ", 13) == (phases[i].phase == HTTP_READS_BODY));
                assert_false(is_open(&end));
                end_drop(&end);
        }
}

static void an_answer_that_is_being_made_has_no_deadline(void **state)
{
        struct end end = end_new(1);

        (void)state;
        assert_true(http_guard_phase(end.connection, HTTP_IS_ANSWERED));
        tick(1000 * REST_SEC);
        assert_true(is_open(&end));
        end_drop(&end);
}

static void an_address_has_as_many_connections_as_it_leaves_to_others(void **state)
{
        struct end one[CONNECTIONS], other[3];

        (void)state;
        for (size_t i = 0; i < CONNECTIONS / 2; i++) {
                one[i] = end_new(1);
                assert_true(is_open(&one[i]));
        }
        one[CONNECTIONS / 2] = end_new(1);
        assert_int_equal(strncmp(heard(&one[CONNECTIONS / 2]), "HTTP/1.1 429 ", 13), 0);
        assert_false(is_open(&one[CONNECTIONS / 2]));
        end_drop(&one[CONNECTIONS / 2]);
        for (size_t i = 0; i < ARRAY_SIZE(other); i++)
                other[i] = end_new(2);
        assert_true(is_open(&other[0]) && is_open(&other[1]));
        assert_int_equal(strncmp(heard(&other[2]), "HTTP/1.1 429 ", 13), 0);
        for (size_t i = 0; i < ARRAY_SIZE(other); i++)
                end_drop(&other[i]);
        for (size_t i = 0; i < CONNECTIONS / 2; i++)
                end_drop(&one[i]);
}

static void the_bodies_of_an_address_leave_room_for_those_of_another(void **state)
{
        struct end a = end_new(1), b = end_new(1), c = end_new(2);
        size_t in_a = 0, in_b = 0, in_c = 0;

        (void)state;
        assert_int_equal(http_guard_reserve(a.connection, &in_a, BODIES / 4 * 3 + 1), 413);
        assert_int_equal(http_guard_reserve(a.connection, &in_a, SIZE_MAX), 413);
        assert_int_equal(in_a, 0);
        assert_int_equal(http_guard_reserve(a.connection, &in_a, 2000), 0);
        assert_int_equal(http_guard_reserve(b.connection, &in_b, 1001), 429);
        assert_int_equal(http_guard_reserve(b.connection, &in_b, 1000), 0);
        assert_int_equal(http_guard_reserve(b.connection, &in_b, 1), 429);
        assert_int_equal(http_guard_reserve(c.connection, &in_c, 751), 503);
        assert_int_equal(http_guard_reserve(c.connection, &in_c, 750), 0);
        http_guard_return(a.connection, &in_a);
        http_guard_return(b.connection, &in_b);
        assert_int_equal(http_guard_reserve(c.connection, &in_c, 2250), 0);
        assert_int_equal(in_c, 3000);
        http_guard_return(c.connection, &in_c);
        end_drop(&a);
        end_drop(&b);
        end_drop(&c);
}

static bool is_trusted(void *context, uid_t uid)
{
        return *(bool *)context && uid == getuid();
}

static void room_is_kept_for_a_trusted_user(void **state)
{
        struct http_limits few = limits;
        struct end ends[CONNECTIONS];
        struct http_guard *all = guard;
        bool trusted = false;

        (void)state;
        few.spare = CONNECTIONS - 2;
        assert_int_equal(http_guard_new(&few, &guard), 0);
        for (size_t i = 0; i < CONNECTIONS; i++) {
                int pair[2];

                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                trusted = i >= 2;
                ends[i] = (struct end){ http_guard_come(guard, pair[0], true, is_trusted, &trusted), pair[0], pair[1] };
                assert_true(is_open(&ends[i]) == (i != 1)); /* the first of two leaves one to others */
        }
        for (size_t i = 0; i < CONNECTIONS; i++)
                end_drop(&ends[i]);
        (void)http_guard_free(guard);
        guard = all;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_head_that_trickles_is_over_at_its_deadline),
                cmocka_unit_test(each_phase_has_its_own_deadline),
                cmocka_unit_test(an_answer_that_is_being_made_has_no_deadline),
                cmocka_unit_test(an_address_has_as_many_connections_as_it_leaves_to_others),
                cmocka_unit_test(the_bodies_of_an_address_leave_room_for_those_of_another),
                cmocka_unit_test(room_is_kept_for_a_trusted_user),
        };

        return cmocka_run_group_tests(tests, guard_begin, guard_end);
}
