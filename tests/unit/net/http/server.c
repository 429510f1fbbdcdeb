/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "net/http/server.h"

#include "base/cleanup.h"
#include "net/http/client.h"
#include "net/socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum {
        BODY_MAX = 64,
        BODIES = 136, /* three quarters are 102 */
        FLAGS = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD,
};

static char dir[64], base[96];
static struct MHD_Daemon *daemon_of;
static _Atomic unsigned int n_begun, n_ended;

static void on_begin(void *context, struct http_server_call *call)
{
        assert_ptr_equal(context, base);
        assert_int_equal(call->reserved, 0);
        n_begun++;
}

/* Says what it was asked, or how the body was refused. */
static enum MHD_Result on_answer(void *context, struct http_server_call *call, const char *method, const char *path)
{
        char *text = NULL;
        int n = asprintf(&text, "%s %s %s", method, path, call->body.text ? call->body.text : "-");

        (void)context;
        return http_response_send(call->connection, http_response(text, (size_t)n), call->refused ? call->refused : 201,
                                  call->body.size ? "text/plain" : NULL);
}

static void on_end(void *context, struct http_server_call *call)
{
        (void)context;
        (void)call;
        n_ended++;
}

static struct http_server server = { .flags = FLAGS,
                                     .connections = 8,
                                     .idle_sec = 10,
                                     .body_most = BODY_MAX,
                                     .call_size = sizeof(struct http_server_call),
                                     .context = base,
                                     .begin = on_begin,
                                     .answer = on_answer,
                                     .end = on_end };
static const struct http_limits limits = { .connections = 8,
                                           .connections_each = 8,
                                           .bodies = BODIES,
                                           .head = 10 * NSEC_PER_SEC,
                                           .rest = 10 * NSEC_PER_SEC,
                                           .body = 10 * NSEC_PER_SEC,
                                           .answer = 10 * NSEC_PER_SEC };

static int server_begin(void **state)
{
        int fd;

        (void)state;
        (void)strcpy(dir, "/tmp/sublet-serve-XXXXXX");
        assert_non_null(mkdtemp(dir));
        (void)snprintf(base, sizeof(base), "unix:%s/sublet.sock", dir);
        fd = socket_listen(SOCK_STREAM | SOCK_NONBLOCK, 0600, "%s/sublet.sock", dir);
        assert_true(fd >= 0);
        assert_int_equal(http_guard_new(&limits, &server.guard), 0);
        daemon_of = http_server_start(&server, fd, NULL);
        assert_non_null(daemon_of);
        return 0;
}

static int server_end(void **state)
{
        (void)state;
        MHD_stop_daemon(daemon_of);
        (void)http_guard_free(server.guard);
        assert_int_equal(n_begun, n_ended);
        (void)unlink(base + sizeof("unix:") - 1);
        return rmdir(dir);
}

static struct http_answer request_send(const char *method, const char *path, const char *body)
{
        struct http_client *client = NULL;
        struct http_answer answer;

        assert_int_equal(http_client_new(&client), 0);
        assert_int_equal(http_call(client,
                                   &(struct http_request){ .method = method,
                                                           .base = base,
                                                           .path = path,
                                                           .body = body,
                                                           .type = "text/plain",
                                                           .limit = 5 * NSEC_PER_SEC },
                                   &answer),
                         0);
        (void)http_client_free(client);
        return answer;
}

static void request_expect(const char *method, const char *path, const char *body, long status, const char *text)
{
        struct http_answer answer = request_send(method, path, body);

        assert_int_equal(answer.status, status);
        assert_string_equal(http_text(&answer), text);
        buffer_done(&answer.body);
}

static void a_call_is_answered_when_its_body_is_whole(void **state)
{
        (void)state;
        request_expect("PUT", "/a?b=c", "0123456789", 201, "PUT /a 0123456789");
        request_expect("GET", "/", NULL, 201, "GET / -");
}

/* 64 bytes fit. Of a body of one piece the buffer takes twice its size and its end: 50 bytes reserve 102. */
static void a_body_beyond_the_bounds_is_refused(void **state)
{
        char text[BODY_MAX + 2];

        (void)state;
        memset(text, 'x', sizeof(text));
        text[sizeof(text) - 1] = '\0';
        request_expect("PUT", "/", text, 413, "PUT / -");
        text[51] = '\0';
        request_expect("PUT", "/", text, 413, "PUT / -");
        text[50] = '\0';
        request_expect("PUT", "/", text, 201, "PUT / xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
}

/* What is heard until the end of the connection. */
static void sent_and_late(const char *sent, const char *expected)
{
        int fd = socket_connect(SOCK_STREAM, 5, "%s", base + sizeof("unix:") - 1);
        char text[512] = { 0 };
        ssize_t n;

        assert_true(fd >= 0);
        assert_int_equal(send(fd, sent, strlen(sent), 0), strlen(sent));
        request_expect("GET", "/", NULL, 201, "GET / -"); /* another is served, and by then this one was taken in */
        http_guard_tick(server.guard, clock_now() + 11 * NSEC_PER_SEC);
        for (size_t at = 0; at < sizeof(text) - 1 && (n = recv(fd, text + at, sizeof(text) - 1 - at, 0)) > 0;)
                at += (size_t)n;
        assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
        (void)close(fd);
        request_expect("GET", "/", NULL, 201, "GET / -");
}

static void a_request_that_does_not_end_is_over_at_its_deadline(void **state)
{
        (void)state;
        sent_and_late("GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", "HTTP/1.1 408 ");
        sent_and_late("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1234", "HTTP/1.1 408 ");
}

static void a_socket_that_cannot_be_served_is_closed(void **state)
{
        const struct MHD_OptionItem wrong[] = { { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t) "no certificate" },
                                                { MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t) "no key" },
                                                { MHD_OPTION_END, 0, NULL } };
        struct http_server tls = server;
        char path[96];
        int fd = socket_listen(SOCK_STREAM | SOCK_NONBLOCK, 0600, "%s/other.sock", dir);

        (void)state;
        assert_true(fd >= 0);
        tls.flags |= MHD_USE_TLS;
        assert_null(http_server_start(&tls, fd, wrong));
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        (void)snprintf(path, sizeof(path), "%s/other.sock", dir);
        assert_int_equal(unlink(path), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_call_is_answered_when_its_body_is_whole),
                cmocka_unit_test(a_body_beyond_the_bounds_is_refused),
                cmocka_unit_test(a_request_that_does_not_end_is_over_at_its_deadline),
                cmocka_unit_test(a_socket_that_cannot_be_served_is_closed),
        };

        return cmocka_run_group_tests(tests, server_begin, server_end);
}
