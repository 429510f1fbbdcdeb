/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/kube.h"

#include "unit.h"

#include <string.h>

static struct kube_slice slice;

static bool reads(const char *text, const char *port)
{
        json_t *object = json_loads(text, 0, NULL);
        bool is_read = object && kube_read(object, port, &slice);

        json_decref(object);
        return is_read;
}

static const char two[] = "{\"metadata\":{\"name\":\"s\",\"resourceVersion\":\"7\"},"
                          "\"ports\":[{\"name\":\"metrics\",\"port\":9000},{\"name\":\"http\",\"port\":8000}],"
                          "\"endpoints\":[{\"addresses\":[\"10.0.0.1\"],\"conditions\":{\"ready\":true},\"targetRef\":{"
                          "\"name\":\"pod-a\"}},"
                          "{\"addresses\":[\"fd00::2\"],\"conditions\":{\"ready\":false,\"terminating\":true}}]}";

static void endpoints_have_the_wanted_port_and_their_pods_name(void **state)
{
        (void)state;
        assert_true(reads(two, "http"));
        assert_int_equal(slice.n, 2);
        assert_string_equal(slice.at[0].name, "pod-a");
        assert_string_equal(slice.at[0].address, "10.0.0.1:8000");
        assert_true(slice.at[0].is_ready);
        assert_string_equal(slice.at[1].address, "[fd00::2]:8000");
        assert_string_equal(slice.at[1].name, "fd00::2.8000");
        assert_true(slice.at[1].is_terminating);
        assert_true(reads(two, "9000"));
        assert_string_equal(slice.at[0].address, "10.0.0.1:9000");
        assert_true(reads(two, ""));
        assert_string_equal(slice.at[0].address, "10.0.0.1:9000");
        assert_true(reads(two, "grpc"));
        assert_int_equal(slice.n, 0);
}

static void ready_that_is_not_said_is_ready(void **state)
{
        (void)state;
        assert_true(reads(
                "{\"metadata\":{\"name\":\"s\"},\"ports\":[{\"port\":1}],\"endpoints\":[{\"addresses\":[\"1.2.3.4\"],"
                "\"conditions\":{\"ready\":null}},{\"addresses\":[\"1.2.3.5\"]}]}",
                ""));
        assert_true(slice.at[0].is_ready && slice.at[1].is_ready);
}

static void the_older_form_reads_the_same(void **state)
{
        (void)state;
        assert_true(reads("{\"metadata\":{\"name\":\"e\"},\"subsets\":[{\"ports\":[{\"port\":80}],\"addresses\":[{"
                          "\"ip\":\"1.2.3.4\"}],"
                          "\"notReadyAddresses\":[{\"ip\":\"1.2.3.5\",\"targetRef\":{\"name\":\"p\"}}]}]}",
                          ""));
        assert_int_equal(slice.n, 2);
        assert_string_equal(slice.at[0].name, "1.2.3.4:80");
        assert_true(slice.at[0].is_ready);
        assert_string_equal(slice.at[1].name, "p");
        assert_false(slice.at[1].is_ready);
}

static void what_is_none_is_left_out(void **state)
{
        (void)state;
        assert_false(reads("{}", ""));
        assert_false(reads("[]", ""));
        assert_true(reads("{\"metadata\":{\"name\":\"s\"},\"ports\":[{\"port\":70000},{\"port\":\"x\"}],\"endpoints\":["
                          "{\"addresses\":[\"1.2.3.4\"]}]}",
                          ""));
        assert_int_equal(slice.n, 0);
        assert_true(reads("{\"metadata\":{\"name\":\"s\"},\"ports\":[{\"port\":1}],\"endpoints\":[{\"addresses\":["
                          "\"example.com\"]},"
                          "{\"addresses\":[]},{\"addresses\":[3]},7,{}]}",
                          ""));
        assert_int_equal(slice.n, 0);
}

static void endpoints_without_room_are_counted(void **state)
{
        static char text[16384];
        size_t at = 0;

        (void)state;
        at += (size_t)snprintf(text, sizeof(text),
                               "{\"metadata\":{\"name\":\"s\"},\"ports\":[{\"port\":1}],\"endpoints\":[");
        for (int i = 0; i < KUBE_ENDPOINTS + 5; i++)
                at += (size_t)snprintf(text + at, sizeof(text) - at, "{\"addresses\":[\"10.0.0.%d\"]},", i);
        (void)snprintf(text + at, sizeof(text) - at, "{\"addresses\":[\"no.address\"]}]}");
        assert_true(reads(text, ""));
        assert_int_equal(slice.n, KUBE_ENDPOINTS);
        assert_int_equal(slice.n_left_out, 5);
        assert_true(reads(two, ""));
        assert_int_equal(slice.n_left_out, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(endpoints_have_the_wanted_port_and_their_pods_name),
                cmocka_unit_test(ready_that_is_not_said_is_ready),
                cmocka_unit_test(the_older_form_reads_the_same),
                cmocka_unit_test(what_is_none_is_left_out),
                cmocka_unit_test(endpoints_without_room_are_counted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
