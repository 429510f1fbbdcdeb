/* SPDX-License-Identifier: Apache-2.0 */
/* The API: who sees what, what is refused, and that a change counts as a whole or not at all. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "daemon/api/api.h"
#include "daemon/store/store.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/socket.h>

enum {
        ANNA = 1000,
        BERT = 1001,
};

static struct api_response response;

static int set_up(void **state)
{
        struct daemon *daemon = fake_daemon_new();

        (void)fake_tenant_put(daemon, "annas", ANNA, 10, 300);
        (void)fake_tenant_put(daemon, "berts", BERT, 20, 0);
        *state = daemon;
        return 0;
}

static int tear_down(void **state)
{
        api_done(&response);
        fake_daemon_free(*state);
        return 0;
}

static struct api_request request_of(uid_t uid, const char *method, const char *path, const char *body)
{
        return (struct api_request){ .method = method,
                                     .path = path,
                                     .body = body,
                                     .body_size = body ? strlen(body) : 0,
                                     .uid = uid,
                                     .sees_all = uid == 0 };
}

/* The answer's JSON, the caller's; its status in response. */
static json_t *ask(struct daemon *daemon, uid_t uid, const char *method, const char *path, const char *body)
{
        struct api_request request = request_of(uid, method, path, body);

        api_done(&response);
        api_answer(daemon, &request, &response);
        return response.body ? json_loadb(response.body, response.size, 0, NULL) : NULL;
}

static int status_of(struct daemon *daemon, uid_t uid, const char *method, const char *path, const char *body)
{
        json_decref(ask(daemon, uid, method, path, body));
        return response.status;
}

static void everybody_sees_their_own_and_root_all(void **state)
{
        json_t *answer = ask(*state, 0, "GET", "/v1/tenants", NULL);

        assert_int_equal(json_array_size(answer), 2);
        json_decref(answer);
        answer = ask(*state, ANNA, "GET", "/v1/tenants", NULL);
        assert_int_equal(json_array_size(answer), 1);
        assert_string_equal(message_text(json_array_get(answer, 0), "tenant", ""), "annas");
        json_decref(answer);
        answer = ask(*state, 77, "GET", "/v1/tenants", NULL);
        assert_int_equal(json_array_size(answer), 0);
        json_decref(answer);
}

static void nobody_touches_anothers(void **state)
{
        static const char *const methods[] = { "GET", "PATCH", "DELETE" };

        for (size_t i = 0; i < 3; i++)
                assert_int_equal(status_of(*state, ANNA, methods[i], "/v1/tenants/berts", "{\"cap_permille\":10}"),
                                 API_FORBIDDEN);
        assert_int_equal(tenants_find(&((struct daemon *)*state)->tenants, "berts")->lease.cap, TURNS_WHOLE);
        assert_int_equal(status_of(*state, BERT, "PATCH", "/v1/tenants/berts", "{\"cap_permille\":10}"), API_OK);
}

static void metrics_and_timelines_tell_nothing_of_others(void **state)
{
        assert_int_equal(status_of(*state, ANNA, "GET", "/metrics", NULL), API_OK);
        assert_non_null(strstr(response.body, "annas"));
        assert_null(strstr(response.body, "berts"));
        assert_int_equal(status_of(*state, ANNA, "GET", "/v1/timeline", NULL), API_OK);
        assert_null(strstr(response.body, "berts"));
}

static void over_tcp_nothing_can_be_ordered(void **state)
{
        struct api_request request = request_of(0, "PATCH", "/v1/tenants/annas", "{\"cap_permille\":10}");

        request.may_only_ask = true;
        api_answer(*state, &request, &response);
        assert_int_equal(response.status, API_NOT_ALLOWED);
        assert_int_equal(tenants_find(&((struct daemon *)*state)->tenants, "annas")->lease.cap, TURNS_WHOLE);
}

static void a_change_counts_at_once_and_is_told_back(void **state)
{
        struct daemon *daemon = *state;
        json_t *answer = ask(daemon, 0, "PATCH", "/v1/tenants/annas",
                             "{\"mem\":\"25G\",\"share_permille\":400,\"cap_permille\":500,\"class\":\"batch\"}");
        struct tenant *tenant = tenants_find(&daemon->tenants, "annas");

        assert_int_equal(response.status, API_OK);
        assert_true(tenant->lease.devices[0].quota == 25 * GIB);
        assert_int_equal(tenant->control->devices[0].share, 400);
        assert_int_equal(tenant->control->devices[0].cap, 500);
        assert_int_equal(tenant->control->devices[0].class, TURNS_BATCH);
        assert_int_equal(tenants_find(&daemon->tenants, "berts")->share, 600);
        assert_string_equal(message_text(answer, "class", ""), "batch");
        json_decref(answer);
}

static void a_change_that_is_wrong_in_one_part_changes_nothing(void **state)
{
        static const struct {
                const char *body;
                int status;
        } wrong[] = {
                { "", 400 },
                { "[]", 400 },
                { "{}", 400 },
                { "{\"share_permille\":200,\"mem\":\"much\"}", 400 },
                { "{\"share_permille\":200,\"mem\":{\"1\":\"1G\"}}", 400 },
                { "{\"share_permille\":200,\"mem\":{\"x\":\"1G\"}}", 400 },
                { "{\"share_permille\":200,\"mem\":-5}", 400 },
                { "{\"share_permille\":200,\"mem\":\"81G\"}", 409 },
                { "{\"share_permille\":200,\"cap_permille\":0}", 400 },
                { "{\"share_permille\":200,\"cap_permille\":1001}", 400 },
                { "{\"share_permille\":200,\"class\":\"best\"}", 400 },
                { "{\"share_permille\":200,\"colour\":\"red\"}", 400 },
                { "{\"share_permille\":\"30%\"}", 400 },
                { "{\"share_permille\":200} and more", 400 },
        };
        struct daemon *daemon = *state;
        struct message_lease was = tenants_find(&daemon->tenants, "annas")->lease;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                json_t *answer = ask(daemon, ANNA, "PATCH", "/v1/tenants/annas", wrong[i].body);

                assert_int_equal(response.status, wrong[i].status);
                assert_non_null(json_string_value(json_object_get(answer, "error")));
                json_decref(answer);
                assert_memory_equal(&tenants_find(&daemon->tenants, "annas")->lease, &was, sizeof(was));
        }
}

static void a_quota_below_what_is_held_comes_with_a_note(void **state)
{
        struct daemon *daemon = *state;
        json_t *answer;

        tenants_find(&daemon->tenants, "annas")->control->devices[0].held = 9 * GIB;
        answer = ask(daemon, ANNA, "PATCH", "/v1/tenants/annas", "{\"mem\":{\"0\":\"8G\"}}");
        assert_int_equal(response.status, API_OK);
        assert_non_null(strstr(json_string_value(json_array_get(json_object_get(answer, "notes"), 0)), "frees 1 GiB"));
        json_decref(answer);
}

static void share_null_is_an_equal_part_and_cap_null_none(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenants_find(&daemon->tenants, "annas");

        tenant->lease.cap = 300;
        assert_int_equal(
                status_of(daemon, 0, "PATCH", "/v1/tenants/annas", "{\"share_permille\":null,\"cap_permille\":null}"),
                API_OK);
        assert_int_equal(tenant->share, 500);
        assert_int_equal(tenant->lease.cap, TURNS_WHOLE);
}

static void the_answer_to_a_change_waits_for_the_shim(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenants_find(&daemon->tenants, "annas");
        struct message message;
        int sockets[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
        tenant->source.fd = sockets[0];
        assert_null(ask(daemon, 0, "PATCH", "/v1/tenants/annas", "{\"mem\":\"5G\"}"));
        assert_int_equal(response.wait, API_WAIT_SET);
        assert_false(api_continue(daemon, &response));
        assert_int_equal(message_receive(sockets[1], &message), MESSAGE_OK);
        assert_string_equal(message_type(&message), "set");
        assert_true(message_number(json_object_get(message.body, "mem"), "0", 0) == (int64_t)(5 * GIB));
        tenant->set_done = (uint64_t)message_number(message.body, "serial", 0);
        message_done(&message);
        assert_true(api_continue(daemon, &response));
        assert_int_equal(response.status, API_OK);
        assert_int_equal(response.wait, API_WAIT_NOT);

        assert_null(ask(daemon, 0, "PATCH", "/v1/tenants/annas", "{\"mem\":\"6G\"}"));
        response.deadline = 0;
        assert_true(api_continue(daemon, &response));
        assert_int_equal(response.status, API_TIMEOUT);

        (void)close(sockets[1]); /* it is gone, and nothing may change */
        assert_int_equal(status_of(daemon, 0, "PATCH", "/v1/tenants/annas", "{\"mem\":\"7G\"}"), API_UNAVAILABLE);
        assert_true(tenant->lease.devices[0].quota == 6 * GIB);
        (void)close(sockets[0]);
        tenant->source.fd = -1;
}

/* Its shim has done what it was asked for. */
static void moved(struct daemon *daemon, struct tenant *tenant)
{
        json_t *body = json_pack("{s:s, s:I}", "outcome", "done", "serial", (json_int_t)tenant->suspension.serial);

        suspend_moved(daemon, tenant, body);
        json_decref(body);
}

static void who_was_suspended_and_has_woken_was_suspended(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenants_find(&daemon->tenants, "annas");
        int sockets[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
        tenant->source.fd = sockets[0];
        daemon->settings.suspend_by = SUSPEND_BY_COPIES;
        tenant->control->devices[0].held = tenant->control->processes[0].held = GIB;
        tenant->control->processes[0].id = getpid();
        assert_null(ask(daemon, 0, "PATCH", "/v1/tenants/annas", "{\"suspended\":true}"));
        assert_int_equal(response.wait, API_WAIT_MOVED);
        assert_false(api_continue(daemon, &response));
        moved(daemon, tenant);
        assert_int_equal(tenant->suspension.state, SUSPENSION_SUSPENDED);
        suspend_move(daemon, tenant, false, "for work that it has put"); /* before anybody asks */
        moved(daemon, tenant);
        assert_int_equal(tenant->suspension.state, SUSPENSION_RUNNING);
        assert_true(api_continue(daemon, &response));
        assert_int_equal(response.status, API_OK);
        assert_int_equal(status_of(daemon, 0, "PATCH", "/v1/tenants/annas", "{\"suspended\":false}"), API_OK);
        (void)close(sockets[0]);
        (void)close(sockets[1]);
        tenant->source.fd = -1;
}

static void what_is_not_there_says_so(void **state)
{
        assert_int_equal(status_of(*state, 0, "GET", "/v1/tenants/nobody", NULL), API_NOT_FOUND);
        assert_int_equal(status_of(*state, 0, "GET", "/v1/tenants/", NULL), API_NOT_FOUND);
        assert_int_equal(status_of(*state, 0, "GET", "/v1/tenants/annas/more", NULL), API_NOT_FOUND);
        assert_int_equal(status_of(*state, 0, "GET", "/v2/tenants", NULL), API_NOT_FOUND);
        assert_int_equal(status_of(*state, 0, "POST", "/v1/tenants", NULL), API_NOT_ALLOWED);
        assert_int_equal(status_of(*state, 0, "GET", "/v1/tenants/\xff\xfe", NULL), API_NOT_FOUND);
        assert_non_null(strstr(response.body, "error"));
}

static void a_follower_gets_its_own_tenants_events_once(void **state)
{
        struct daemon *daemon = *state;
        struct api_request request = request_of(ANNA, "GET", "/v1/events", NULL);
        char lines[4096];
        size_t n;

        request.arguments[0] = (struct api_argument){ "follow", "1" };
        request.n_arguments = 1;
        api_answer(daemon, &request, &response);
        assert_int_equal(response.wait, API_WAIT_EVENTS);
        assert_int_equal(api_follow(daemon, &response, lines, sizeof(lines)), 0);
        event_emit(daemon, event_find("QUOTA_SHRANK"), tenants_find(&daemon->tenants, "annas"), 0, "one");
        event_emit(daemon, event_find("QUOTA_SHRANK"), tenants_find(&daemon->tenants, "berts"), 0, "two");
        event_emit(daemon, event_find("XID"), NULL, 0, "three\nlines \xff");
        n = api_follow(daemon, &response, lines, sizeof(lines) - 1);
        lines[n] = '\0';
        assert_non_null(strstr(lines, "\"one\""));
        assert_null(strstr(lines, "two"));
        assert_null(strstr(lines, "three"));
        assert_int_equal(api_follow(daemon, &response, lines, sizeof(lines)), 0);
}

static void a_follower_that_is_slow_misses_the_oldest_and_goes_on(void **state)
{
        struct daemon *daemon = *state;
        struct api_response slow = { .owner = -1 };
        char lines[512];
        size_t n, total = 0;

        for (int i = 0; i < EVENTS_KEPT + 50; i++)
                event_emit(daemon, event_find("TENANT_ENDED"), NULL, -1, "%d", i);
        while ((n = api_follow(daemon, &slow, lines, sizeof(lines)))) {
                assert_int_equal(lines[n - 1], '\n');
                for (size_t i = 0; i < n; i++)
                        total += lines[i] == '\n';
        }
        assert_int_equal(total, EVENTS_KEPT);
}

/* name{label="value",...} number, with each family's HELP and TYPE once and before its samples. */
/* A pod's name has up to 253 bytes, and a tenant's 63: the pod is not told by the tenant. */
static void each_series_of_a_tenant_says_whose_it_is_uncut(void **state)
{
        struct message_container *container =
                &tenants_find(&((struct daemon *)*state)->tenants, "annas")->lease.container;
        char expected[512];

        memset(container->name, 'p', sizeof(container->name) - 1);
        (void)strcpy(container->namespace, "team");
        (void)strcpy(container->container, "ma\"in\n");
        (void)snprintf(
                expected, sizeof(expected),
                "sublet_tenant_memory_quota_bytes{tenant=\"annas\",device=\"0\",uuid=\"GPU-a\",namespace=\"team\","
                "pod=\"%s\",container=\"ma\\\"in\\n\",user=\"%d\"} ",
                container->name, ANNA);
        assert_int_equal(status_of(*state, 0, "GET", "/metrics", NULL), API_OK);
        assert_non_null(strstr(response.body, expected));
}

static void what_a_device_does_not_tell_is_absent_and_not_zero(void **state)
{
        struct daemon *daemon = *state;
        struct device *device = &daemon->devices[1];
        json_t *answer;

        device->health.known = 1u << GPU_FIGURE_power_watts | 1u << GPU_FIGURE_ecc_corrected_errors_total;
        device->health.of[GPU_FIGURE_power_watts] = 76.5;
        device->health_at = clock_now();
        assert_int_equal(status_of(*state, 0, "GET", "/metrics", NULL), API_OK);
        assert_non_null(strstr(response.body, "sublet_device_power_watts{device=\"1\",uuid=\"GPU-b\"} 76.5"));
        assert_non_null(
                strstr(response.body, "sublet_device_ecc_corrected_errors_total{device=\"1\",uuid=\"GPU-b\"} 0\n"));
        assert_null(strstr(response.body, "sublet_device_power_watts{device=\"0\""));
        assert_null(strstr(response.body, "temperature"));
        assert_null(strstr(response.body, "xid")); /* nobody watches */
        answer = ask(daemon, 0, "GET", "/v1/devices", NULL);
        assert_true(json_is_null(json_object_get(json_array_get(answer, 0), "health")));
        assert_int_equal(json_object_size(json_object_get(json_array_get(answer, 1), "health")), 2);
        json_decref(answer);
        device->health_at -= 16 * NSEC_PER_SEC; /* its reader is stuck */
        assert_int_equal(status_of(*state, 0, "GET", "/metrics", NULL), API_OK);
        assert_null(strstr(response.body, "power_watts"));
}

static void metrics_are_as_prometheus_reads_them(void **state)
{
        char family[128] = "", *rest, *line;

        (void)strcpy(tenants_find(&((struct daemon *)*state)->tenants, "annas")->lease.container.id, "c\"1");
        assert_int_equal(status_of(*state, 0, "GET", "/metrics", NULL), API_OK);
        assert_non_null(strstr(response.body, "sublet_tenant_container_info{tenant=\"annas\",namespace=\"\",pod=\"\","
                                              "container=\"\",container_id=\"c\\\"1\"} 1\n"));
        assert_null(strstr(response.body, "info{tenant=\"berts\""));
        assert_string_equal(response.type, "text/plain; version=0.0.4; charset=utf-8");
        rest = response.body;
        while ((line = strsep(&rest, "\n")) && (*line || rest)) {
                char name[128], type[32], *end;
                size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz_");

                if (sscanf(line, "# HELP %127s", name) == 1) {
                        assert_string_not_equal(name, family);
                        (void)strcpy(family, name);
                        continue;
                }
                if (sscanf(line, "# TYPE %127s %31s", name, type) == 2) {
                        assert_string_equal(name, family);
                        /* Counters end in _total, and nothing else does. */
                        assert_int_equal(!strcmp(type, "counter"), strstr(name, "_total") != NULL);
                        continue;
                }
                assert_int_equal(n, strlen(family));
                assert_memory_equal(line, family, n);
                if (line[n] == '{') {
                        n = (size_t)(strchr(line, '}') - line) + 1;
                        assert_int_equal(line[n - 2], '"');
                }
                assert_int_equal(line[n], ' ');
                (void)strtod(line + n + 1, &end);
                assert_int_equal(*end, '\0');
        }
}

static void every_route_is_documented(void **state)
{
        static const struct {
                const char *method, *path;
        } routes[] = {
#define API_ROUTE(method, path, handler, meaning) { method, path },
#include "daemon/api/api.def"
#include "daemon/state/events.h"
#undef API_ROUTE
        };
        static char text[65536];
        FILE *file = fopen("docs/api.md", "r");
        char row[128];

        (void)state;
        assert_non_null(file);
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        (void)fclose(file);
        for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
                size_t n = strcspn(routes[i].path, "*");

                (void)snprintf(row, sizeof(row), "| `%s %.*s%s` |", routes[i].method, (int)n, routes[i].path,
                               routes[i].path[n] ? "NAME" : "");
                if (!strstr(text, row))
                        fail_msg("docs/api.md has no row %s", row);
        }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(everybody_sees_their_own_and_root_all),
                TEST(nobody_touches_anothers),
                TEST(metrics_and_timelines_tell_nothing_of_others),
                TEST(over_tcp_nothing_can_be_ordered),
                TEST(a_change_counts_at_once_and_is_told_back),
                TEST(a_change_that_is_wrong_in_one_part_changes_nothing),
                TEST(a_quota_below_what_is_held_comes_with_a_note),
                TEST(share_null_is_an_equal_part_and_cap_null_none),
                TEST(the_answer_to_a_change_waits_for_the_shim),
                TEST(who_was_suspended_and_has_woken_was_suspended),
                TEST(what_is_not_there_says_so),
                TEST(a_follower_gets_its_own_tenants_events_once),
                TEST(a_follower_that_is_slow_misses_the_oldest_and_goes_on),
                TEST(every_route_is_documented),
                TEST(each_series_of_a_tenant_says_whose_it_is_uncut),
                TEST(what_a_device_does_not_tell_is_absent_and_not_zero),
                TEST(metrics_are_as_prometheus_reads_them),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
