/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/canned.h"

#include "unit.h"

#include "net/http/client.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct told {
        unsigned int n;
        int code;
        long status;
        char text[64];
};

static void on_done(void *context, const struct http_answer *answer)
{
        struct told *told = context;

        told->n++;
        told->code = answer->code;
        told->status = answer->status;
        (void)strncat(told->text, http_text(answer), sizeof(told->text) - 1);
}

static struct http_request request_to(const char *base, struct told *told)
{
        return (struct http_request){
                .base = base, .path = "/", .limit = 5 * NSEC_PER_SEC, .done = on_done, .context = told
        };
}

static void wait_for(struct http_pool *pool, const struct told *told)
{
        nsec until = clock_now() + 10 * NSEC_PER_SEC;

        while (!told->n && clock_now() < until)
                assert_int_equal(http_pool_wait(pool, -1, clock_now() + NSEC_PER_SEC / 10), 0);
        assert_int_equal(told->n, 1);
}

static void each_call_ends_once_with_its_own_answer(void **state)
{
        struct server *server = *state;
        struct told there = { 0 }, nobody = { 0 };
        struct http_pool *pool = NULL;
        struct http_request to_server = request_to(server->base, &there),
                            to_nobody = request_to("unix:/nonexistent/socket", &nobody);

        server->answer = HEAD("503 Busy") "busy";
        assert_int_equal(http_pool_new(&pool), 0);
        assert_int_equal(http_pool_start(pool, &to_server, NULL), 0);
        assert_int_equal(http_pool_start(pool, &to_nobody, NULL), 0);
        wait_for(pool, &there);
        wait_for(pool, &nobody);
        assert_int_equal(there.code, 0);
        assert_int_equal(there.status, 503);
        assert_string_equal(there.text, "busy");
        assert_int_equal(nobody.code, -ECONNREFUSED);
        (void)http_pool_free(pool);
}

static void a_cancelled_call_is_not_told(void **state)
{
        struct server *server = *state;
        struct told cancelled = { 0 }, left = { 0 }, other = { 0 };
        struct http_pool *pool = NULL;
        struct http_pool_call *call = NULL;
        struct http_request request = request_to(server->base, &cancelled),
                            request_left = request_to(server->base, &left),
                            nobody = request_to("unix:/nonexistent/socket", &other);

        server->answer = "";
        assert_int_equal(http_pool_new(&pool), 0);
        assert_int_equal(http_pool_start(pool, &request, &call), 0);
        assert_int_equal(http_pool_wait(pool, -1, clock_now() + NSEC_PER_SEC / 20), 0);
        http_pool_cancel(pool, call);
        http_pool_cancel(pool, NULL);
        assert_int_equal(http_pool_start(pool, &request_left, NULL), 0);
        assert_int_equal(http_pool_start(pool, &nobody, NULL), 0);
        wait_for(pool, &other);
        (void)http_pool_free(pool);
        assert_int_equal(cancelled.n + left.n, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(each_call_ends_once_with_its_own_answer, server_start, server_stop),
                cmocka_unit_test_setup_teardown(a_cancelled_call_is_not_told, server_start, server_stop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
