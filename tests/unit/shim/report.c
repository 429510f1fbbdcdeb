/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "lease/capabilities.h"
#include "shim/report.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static struct lease lease;
static struct report report;

/* One device granted, one not; refusals and an event. */
static int a_used_tenant(void **state)
{
        (void)state;
        memset(&lease, 0, sizeof(lease));
        lease.n_devices = 2;
        lease.devices[1].is_granted = true;
        lease.devices[1].total = 80 * GIB;
        lease.devices[1].quota.size = 8 * GIB;
        lease.devices[1].quota.peak = 3 * GIB;
        lease.devices[1].quota.n_refused = 2;
        lease.devices[1].quota.largest_refused = 6 * GIB;
        lease.host.size = 4 * GIB;
        report = (struct report){
                .tenant = "chat \"1\"\n\xc3\xa4", .lease = &lease, .exit_code = 3, .elapsed = 1500 * NSEC_PER_MSEC
        };
        report.stats.n_calls = 1322;
        report.stats.n_events[EVENT_QUOTA_REFUSED] = 2;
        report.stats.n_events[EVENT_UNKNOWN_CONTROL] = 1;
        refusals_note(&report.stats.refusals, RM_CONTROL, 0x12345678, 0);
        refusals_note(&report.stats.refusals, RM_CONTROL, 0x00801301, CAPABILITY_GRAPHICS);
        refusals_note(&report.stats.refusals, RM_CONTROL, 0x00801301, CAPABILITY_GRAPHICS);
        refusals_note(&report.stats.refusals, RM_ALLOC, 0xb8b0, CAPABILITY_VIDEO);
        return 0;
}

static char *printed(bool is_json)
{
        char *text = NULL;
        size_t size;
        FILE *to = open_memstream(&text, &size);
        json_t *root = report_new(&report);

        assert_non_null(to);
        assert_int_equal(report_print(to, root, is_json), 0);
        json_decref(root);
        assert_int_equal(fclose(to), 0);
        return text;
}

static json_int_t number(const json_t *object, const char *key)
{
        const json_t *value = json_object_get(object, key);

        assert_true(json_is_integer(value));
        return json_integer_value(value);
}

static void json_is_one_line_and_well_formed(void **state)
{
        _cleanup_(freep) char *text = printed(true);
        json_error_t error;
        json_t *root = json_loads(text, 0, &error);

        (void)state;
        assert_non_null(root);
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        assert_string_equal(json_string_value(json_object_get(root, "tenant")), report.tenant);
        assert_int_equal(number(root, "exit_code"), 3);
        assert_true(json_real_value(json_object_get(root, "elapsed_seconds")) == 1.5);
        assert_int_equal(number(json_object_get(root, "gate"), "calls"), 1322);
        assert_int_equal(number(json_object_get(root, "host"), "quota_bytes"), (json_int_t)(4 * GIB));
        json_decref(root);
}

static void json_has_the_granted_devices_only(void **state)
{
        _cleanup_(freep) char *text = printed(true);
        json_t *root = json_loads(text, 0, NULL), *devices = json_object_get(root, "devices"), *device;

        (void)state;
        assert_int_equal(json_array_size(devices), 1);
        device = json_array_get(devices, 0);
        assert_int_equal(number(device, "device"), 1);
        assert_int_equal(number(device, "quota_bytes"), (json_int_t)(8 * GIB));
        assert_int_equal(number(device, "peak_bytes"), (json_int_t)(3 * GIB));
        assert_int_equal(number(device, "refusals"), 2);
        assert_int_equal(number(device, "largest_refused_bytes"), (json_int_t)(6 * GIB));
        assert_int_equal(number(device, "total_bytes"), (json_int_t)(80 * GIB));
        json_decref(root);
}

static void json_has_the_events_that_happened(void **state)
{
        _cleanup_(freep) char *text = printed(true);
        json_t *root = json_loads(text, 0, NULL), *events = json_object_get(root, "events");

        (void)state;
        assert_int_equal(json_object_size(events), 2);
        assert_int_equal(number(events, "QUOTA_REFUSED"), 2);
        assert_int_equal(number(events, "UNKNOWN_CONTROL"), 1);
        json_decref(root);
}

static void a_name_that_is_not_utf8_is_an_error_and_prints_nothing(void **state)
{
        char *text = NULL;
        size_t size;
        FILE *to = open_memstream(&text, &size);

        (void)state;
        report.tenant = "\xff\xfe";
        assert_true(report_print(to, report_new(&report), true) < 0);
        assert_int_equal(fclose(to), 0);
        assert_int_equal(size, 0);
        free(text);
}

static void the_text_says_quota_peak_and_refusals_per_device(void **state)
{
        _cleanup_(freep) char *text = printed(false);

        (void)state;
        assert_non_null(strstr(text, "device 1: quota 8 GiB, peak 3 GiB, refused 2 times (largest 6 GiB)\n"));
        assert_null(strstr(text, "device 0"));
        assert_non_null(strstr(text, "UNKNOWN_CONTROL: 1 times ('sublet explain UNKNOWN_CONTROL')\n"));
}

static void each_number_that_was_refused_is_a_line(void **state)
{
        _cleanup_(freep) char *text = printed(false);

        (void)state;
        assert_non_null(strstr(text, ": refused: control 0x12345678: 1 times\n"));
        assert_non_null(
                strstr(text, ": refused: control 0x801301 FB_GET_CAPS: 2 times, needs --capabilities graphics\n"));
        assert_non_null(
                strstr(text, ": refused: class 0xb8b0 VIDEO_DECODER_B8B0: 1 times, needs --capabilities video\n"));
}

static void more_numbers_than_are_kept_are_counted_together(void **state)
{
        _cleanup_(freep) char *text = NULL;

        (void)state;
        for (uint32_t i = 0; i < REFUSALS_MAX; i++)
                refusals_note(&report.stats.refusals, RM_N_KINDS, i, 0);
        text = printed(false);
        assert_non_null(strstr(text, ": refused: request 0x0: 1 times\n"));
        assert_non_null(strstr(text, ": refused: others: 3 times\n"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(json_is_one_line_and_well_formed, a_used_tenant),
                cmocka_unit_test_setup(json_has_the_granted_devices_only, a_used_tenant),
                cmocka_unit_test_setup(json_has_the_events_that_happened, a_used_tenant),
                cmocka_unit_test_setup(a_name_that_is_not_utf8_is_an_error_and_prints_nothing, a_used_tenant),
                cmocka_unit_test_setup(the_text_says_quota_peak_and_refusals_per_device, a_used_tenant),
                cmocka_unit_test_setup(each_number_that_was_refused_is_a_line, a_used_tenant),
                cmocka_unit_test_setup(more_numbers_than_are_kept_are_counted_together, a_used_tenant),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
