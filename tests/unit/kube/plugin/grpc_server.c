/* SPDX-License-Identifier: Apache-2.0 */
/* Server and client on one loop; and peers that are none. gRPC's own library as the peer:
 * tests/integration/kube/device-plugin.bats. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/plugin/grpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct world {
        struct loop *loop;
        struct grpc_server *server;
        struct grpc_call *ask;
        char path[64];
        int status; /* of the last question; -1: none yet */
        char text[256];
        size_t n_heard; /* bytes of the last request */
};

static int on_echo(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        struct world *world = context;

        (void)ret;
        world->n_heard = request->size;
        if (request->size && request->data[0] == 'b')
                return err_say(err, -EBUSY, "50%% of it is\nbusy");
        return 0;
}

static const struct grpc_method methods[] = { { "/test.Test/Echo", false, on_echo } };

static int begin(void **state)
{
        struct world *world = calloc(1, sizeof(*world));

        *state = world;
        (void)snprintf(world->path, sizeof(world->path), "/tmp/sublet-unit-grpc-%d", (int)getpid());
        return loop_new(&world->loop) < 0 ||
               grpc_server_new(world->loop, world->path, methods, ARRAY_SIZE(methods), world, &world->server, NULL) < 0;
}

static int end(void **state)
{
        struct world *world = *state;

        (void)grpc_call_free(world->ask);
        (void)grpc_server_free(world->server);
        assert_int_equal(access(world->path, F_OK), -1);
        (void)loop_free(world->loop);
        free(world);
        return 0;
}

static void on_done(void *context, int status, const char *text)
{
        struct world *world = context;

        world->status = status;
        (void)snprintf(world->text, sizeof(world->text), "%s", text);
        world->ask = grpc_call_free(world->ask);
        loop_stop(world->loop);
}

static int ask(struct world *world, const char *path, const char *data, size_t size)
{
        const struct grpc_message request = { (uint8_t *)(uintptr_t)data, size };

        world->status = -1;
        assert_int_equal(grpc_call_new(world->loop, world->path, path, &request, on_done, world, &world->ask, NULL), 0);
        assert_int_equal(loop_run(world->loop), 0);
        return world->status;
}

static void a_call_is_answered(void **state)
{
        struct world *world = *state;

        assert_int_equal(ask(world, "/test.Test/Echo", "abc", 3), GRPC_OK);
        assert_int_equal(world->n_heard, 3);
}

static void a_large_request_crosses_the_windows(void **state)
{
        _cleanup_(freep) char *data = calloc(1, GRPC_MESSAGE_MAX);
        struct world *world = *state;

        assert_int_equal(ask(world, "/test.Test/Echo", data, GRPC_MESSAGE_MAX), GRPC_OK);
        assert_int_equal(world->n_heard, GRPC_MESSAGE_MAX);
}

static void an_unknown_method_is_said(void **state)
{
        assert_int_equal(ask(*state, "/test.Test/Nothing", "abc", 3), GRPC_UNIMPLEMENTED);
}

static void a_refusal_comes_with_its_reason(void **state)
{
        struct world *world = *state;

        assert_int_equal(ask(world, "/test.Test/Echo", "b", 1), GRPC_FAILED_PRECONDITION);
        assert_string_equal(world->text, "50%25 of it is%0Abusy");
}

static void nobody_there_is_said_at_once(void **state)
{
        const struct grpc_message request = { 0 };
        struct world *world = *state;

        assert_int_equal(grpc_call_new(world->loop, "/tmp/sublet-unit-nobody", "/a/B", &request, on_done, world,
                                       &world->ask, NULL),
                         -ENOENT);
        assert_null(world->ask);
}

static int dial(const struct world *world)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", world->path);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

/* Peers that say nothing, nonsense, or half of something; who knows how to ask is answered all the same. */
static void a_peer_that_is_none_disturbs_nobody(void **state)
{
        static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        struct world *world = *state;
        int silent = dial(world), rude = dial(world), half = dial(world);

        assert_int_equal(write(rude, "GET / HTTP/1.1\r\n\r\n", 18), 18);
        assert_int_equal(write(half, preface, sizeof(preface) - 1), sizeof(preface) - 1);
        assert_int_equal(write(half, "\0\0", 2), 2);
        assert_int_equal(ask(world, "/test.Test/Echo", "abc", 3), GRPC_OK);
        (void)close(silent);
        (void)close(rude);
        (void)close(half);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_call_is_answered, begin, end),
                cmocka_unit_test_setup_teardown(a_large_request_crosses_the_windows, begin, end),
                cmocka_unit_test_setup_teardown(an_unknown_method_is_said, begin, end),
                cmocka_unit_test_setup_teardown(a_refusal_comes_with_its_reason, begin, end),
                cmocka_unit_test_setup_teardown(nobody_there_is_said_at_once, begin, end),
                cmocka_unit_test_setup_teardown(a_peer_that_is_none_disturbs_nobody, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
