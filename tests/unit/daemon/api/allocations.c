/* SPDX-License-Identifier: Apache-2.0 */
/* What Kubernetes has allocated: the whole table or nothing of it, only from masters, claimed by one at a time. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/err.h"
#include "daemon/api/api.h"

static struct api_response response;

static int set_up(void **state)
{
        *state = fake_daemon_new();
        return 0;
}

static int tear_down(void **state)
{
        api_done(&response);
        fake_daemon_free(*state);
        return 0;
}

static json_t *ask(struct daemon *daemon, uid_t uid, const char *method, const char *body)
{
        struct api_request request = { .method = method,
                                       .path = "/v1/allocations",
                                       .body = body,
                                       .body_size = body ? strlen(body) : 0,
                                       .uid = uid,
                                       .sees_all = uid == 0 };

        api_done(&response);
        api_answer(daemon, &request, &response);
        return response.body ? json_loadb(response.body, response.size, 0, NULL) : NULL;
}

#define ROW(pod, container, more) "{\"pod\":\"" pod "\",\"container\":\"" container "\"," more "}"
#define TABLE(rows) "{\"allocations\":[" rows "]}"
#define GOOD                                                                                                           \
        ROW("u1", "main",                                                                                              \
            "\"namespace\":\"shop\",\"name\":\"web-0\",\"device\":0,\"mem_bytes\":8589934592,\"share_permille\":300")

static void a_table_is_told_and_listed(void **state)
{
        struct daemon *daemon = *state;
        json_t *answer = ask(daemon, 0, "PUT", TABLE(GOOD "," ROW("u1", "side", "\"uuid\":\"GPU-b\",\"mem_bytes\":5")));
        const struct allocation *row = allocations_find(&daemon->allocations, "u1", "side");

        assert_int_equal(response.status, API_OK);
        assert_int_equal(message_number(answer, "allocations", 0), 2);
        json_decref(answer);
        assert_non_null(row);
        assert_true(row->memory[1] == 5 && !row->memory[0] && !row->share);
        assert_null(allocations_find(&daemon->allocations, "u2", "side"));
        assert_null(allocations_find(&daemon->allocations, "u1", ""));
        answer = ask(daemon, 0, "GET", NULL);
        assert_int_equal(json_array_size(answer), 2);
        assert_string_equal(message_text(json_array_get(answer, 0), "uuid", ""), "GPU-a");
        assert_string_equal(message_text(json_array_get(answer, 0), "namespace", ""), "shop");
        assert_true(json_is_null(json_object_get(json_array_get(answer, 0), "tenant")));
        json_decref(answer);
}

static void the_next_table_replaces_the_last(void **state)
{
        struct daemon *daemon = *state;

        json_decref(ask(daemon, 0, "PUT", TABLE(GOOD)));
        json_decref(ask(daemon, 0, "PUT", TABLE(ROW("u2", "main", "\"device\":1,\"mem_bytes\":1"))));
        assert_null(allocations_find(&daemon->allocations, "u1", "main"));
        assert_non_null(allocations_find(&daemon->allocations, "u2", "main"));
        json_decref(ask(daemon, 0, "PUT", TABLE("")));
        assert_int_equal(response.status, API_OK);
        assert_int_equal(daemon->allocations.n, 0);
}

static void rows_of_one_container_are_one_allocation(void **state)
{
        struct daemon *daemon = *state;
        const struct allocation *row;

        json_decref(ask(daemon, 0, "PUT",
                        TABLE(GOOD "," ROW("u1", "main", "\"device\":1,\"mem_bytes\":7,\"share_permille\":200"))));
        row = allocations_find(&daemon->allocations, "u1", "main");
        assert_int_equal(daemon->allocations.n, 1);
        assert_true(row->memory[0] == 8 * GIB && row->memory[1] == 7);
        assert_int_equal(row->share, 200);
}

static void a_row_has_the_terms_that_it_was_told_with(void **state)
{
        struct daemon *daemon = *state;
        const struct allocation *row;
        json_t *answer;

        json_decref(ask(daemon, 0, "PUT",
                        TABLE(ROW("u1", "main",
                                  "\"device\":0,\"mem_bytes\":7,\"cap\":\"50\",\"class\":\"batch\",\"capabilities\":"
                                  "\"compute,utility\",\"group\":\"Chat_1\""))));
        assert_int_equal(response.status, API_OK);
        row = allocations_find(&daemon->allocations, "u1", "main");
        assert_string_equal(row->terms.cap, "50");
        assert_string_equal(row->terms.class, "batch");
        assert_string_equal(row->terms.latency, "");
        assert_string_equal(row->terms.group, "Chat_1");
        answer = ask(daemon, 0, "GET", NULL);
        assert_string_equal(message_text(json_array_get(answer, 0), "capabilities", ""), "compute,utility");
        assert_string_equal(message_text(json_array_get(answer, 0), "group", ""), "Chat_1");
        assert_null(json_object_get(json_array_get(answer, 0), "latency"));
        json_decref(answer);
}

static void a_table_with_one_wrong_row_changes_nothing(void **state)
{
        static const char *const wrong[] = {
                "",
                "[]",
                "{}",
                "{\"allocations\":{}}",
                TABLE("3"),
                TABLE(GOOD "," ROW("", "main", "\"device\":0,\"mem_bytes\":1")),
                TABLE(GOOD "," ROW("u2", "", "\"device\":0,\"mem_bytes\":1")),
                TABLE(GOOD "," ROW("u2", "a b", "\"device\":0,\"mem_bytes\":1")),
                TABLE(GOOD "," ROW("u2", "a\\n", "\"device\":0,\"mem_bytes\":1")),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":2,\"mem_bytes\":1")),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":-1,\"mem_bytes\":1")),
                TABLE(GOOD "," ROW("u2", "main", "\"uuid\":\"GPU-c\",\"mem_bytes\":1")),
                TABLE(GOOD "," ROW("u2", "main", "\"mem_bytes\":1")),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":0")),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":0,\"mem_bytes\":0")),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":0,\"mem_bytes\":-1")),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":0,\"mem_bytes\":\"8G\"")),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":0,\"mem_bytes\":1,\"share_permille\":1001")),
                TABLE(GOOD "," ROW("u2", "main", "\"namespace\":7,\"device\":0,\"mem_bytes\":1")),
                TABLE(GOOD "," GOOD),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":0,\"mem_bytes\":1,\"class\":7")),
                TABLE(GOOD "," ROW("u2", "main", "\"device\":0,\"mem_bytes\":1,\"cap\":\"50 \"")),
                TABLE(GOOD "," ROW("u1", "main", "\"device\":1,\"mem_bytes\":1,\"class\":\"batch\"")),
        };
        struct daemon *daemon = *state;

        json_decref(ask(daemon, 0, "PUT", TABLE(ROW("old", "main", "\"device\":0,\"mem_bytes\":1"))));
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                json_decref(ask(daemon, 0, "PUT", wrong[i]));
                if (response.status != API_BAD_REQUEST)
                        fail_msg("%s: %d", wrong[i], response.status);
                assert_non_null(allocations_find(&daemon->allocations, "old", "main"));
                assert_int_equal(daemon->allocations.n, 1);
        }
}

static void only_masters_tell(void **state)
{
        struct daemon *daemon = *state;

        json_decref(ask(daemon, 1000, "PUT", TABLE(GOOD)));
        assert_int_equal(response.status, API_FORBIDDEN);
        assert_int_equal(daemon->allocations.n, 0);
}

static void whose_an_allocation_is_stands_in_the_leases(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = fake_tenant_put(daemon, "shop.web-0.main", 1000, 8, 300);
        json_t *answer;

        (void)strcpy(tenant->lease.container.pod, "u1");
        (void)strcpy(tenant->lease.container.container, "main");
        json_decref(ask(daemon, 0, "PUT", TABLE(GOOD "," ROW("u1", "side", "\"device\":1,\"mem_bytes\":1"))));
        answer = ask(daemon, 0, "GET", NULL);
        assert_string_equal(message_text(json_array_get(answer, 0), "tenant", ""), "shop.web-0.main");
        assert_true(message_number(json_array_get(answer, 0), "tenant_id", 0) == (int64_t)tenant->lease.id);
        assert_true(json_is_null(json_object_get(json_array_get(answer, 1), "tenant")));
        json_decref(answer);
        answer = ask(daemon, 1000, "GET", NULL); /* its owner sees it, nobody else does */
        assert_int_equal(json_array_size(answer), 1);
        json_decref(answer);
        answer = ask(daemon, 1001, "GET", NULL);
        assert_int_equal(json_array_size(answer), 0);
        json_decref(answer);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_table_is_told_and_listed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(the_next_table_replaces_the_last, set_up, tear_down),
                cmocka_unit_test_setup_teardown(rows_of_one_container_are_one_allocation, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_row_has_the_terms_that_it_was_told_with, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_table_with_one_wrong_row_changes_nothing, set_up, tear_down),
                cmocka_unit_test_setup_teardown(only_masters_tell, set_up, tear_down),
                cmocka_unit_test_setup_teardown(whose_an_allocation_is_stands_in_the_leases, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
