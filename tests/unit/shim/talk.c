/* SPDX-License-Identifier: Apache-2.0 */
/* What a shim says to a daemon that does not read. */
#include "unit.h"

#include "gate/inside.h"
#include "shim/inside.h"
#include "wire/messages.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void fill(int socket)
{
        char text[1024] = "";

        while (send(socket, text, sizeof(text), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
        while (send(socket, text, 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
}

static void drain(int socket)
{
        char text[1024];

        while (recv(socket, text, sizeof(text), MSG_DONTWAIT) > 0)
                ;
}

static void how_a_move_has_ended_is_said_until_it_is_sent_and_once(void **state)
{
        struct shim *shim = calloc(1, sizeof(*shim));
        struct gate *gate = calloc(1, sizeof(*gate)); /* with nothing away */
        struct message message = { 0 };
        int ends[2];

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(control_block_new("one", 0, 1, &shim->control, &shim->control_block_fd), 0);
        lock_init(&shim->talk_lock, LOCK_TALK);
        shim->gate = gate;
        shim->daemon = ends[0];
        shim->mover.way.serial = 77;
        shim->owes_moved = shim->mover.is_told = true;
        fill(ends[0]);
        talk_moved(shim);
        assert_true(shim->owes_moved);
        drain(ends[1]);
        talk_moved(shim);
        assert_false(shim->owes_moved);
        talk_moved(shim);
        assert_int_equal(message_receive(ends[1], &message), MESSAGE_OK);
        assert_int_equal(message_number(message.body, "serial", 0), 77);
        message_done(&message);
        assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(message_receive(ends[1], &message), MESSAGE_E_NONE);
        (void)close(ends[1]);
        shim->owes_moved = true; /* and it may be the connection only that is gone */
        talk_moved(shim);
        assert_true(shim->owes_moved);
        shim->mover.is_told = false; /* a next way has begun: nobody waits for the one before */
        talk_moved(shim);
        assert_false(shim->owes_moved);
        (void)close(ends[0]);
        control_block_unmap(shim->control);
        (void)close(shim->control_block_fd);
        free(gate);
        free(shim);
}

static bool says_away(int socket)
{
        struct message message = { 0 };
        bool is_away;

        assert_int_equal(message_receive(socket, &message), MESSAGE_OK);
        assert_string_equal(message_type(&message), "away");
        is_away = message_flag(message.body, "is_away", false);
        message_done(&message);
        return is_away;
}

/* The way itself waits here for one that is under way. */
static void that_memory_is_about_to_leave_is_said_before_any_does(void **state)
{
        struct shim *shim = calloc(1, sizeof(*shim));
        struct gate *gate = calloc(1, sizeof(*gate)); /* with nothing away */
        struct message message = { 0 };
        int daemon[2], run[2];
        json_t *body = message_new("move");

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, daemon), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, run), 0);
        assert_int_equal(control_block_new("one", 0, 1, &shim->control, &shim->control_block_fd), 0);
        lock_init(&shim->talk_lock, LOCK_TALK);
        shim->gate = gate;
        shim->daemon = daemon[0];
        shim->run = run[0];
        shim->mover.has_thread = true;
        assert_int_equal(json_object_set_new(body, "out", json_true()), 0);
        assert_int_equal(message_send(daemon[1], body, NULL, 0), MESSAGE_OK);
        talk_daemon(shim);
        assert_true(says_away(run[1]));
        talk_away(shim);
        assert_int_equal(message_receive(run[1], &message), MESSAGE_E_NONE); /* nothing takes it back */
        shim->mover.has_thread = false;                                      /* it has come to nothing */
        shim->mover.has_next = false;
        talk_away(shim);
        assert_false(says_away(run[1]));
        (void)close(daemon[0]), (void)close(daemon[1]);
        (void)close(run[0]), (void)close(run[1]);
        control_block_unmap(shim->control);
        (void)close(shim->control_block_fd);
        free(gate);
        free(shim);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(how_a_move_has_ended_is_said_until_it_is_sent_and_once),
                cmocka_unit_test(that_memory_is_about_to_leave_is_said_before_any_does),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
