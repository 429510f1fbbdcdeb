/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/err.h"
#include "plan/live.h"

#include <errno.h>
#include <string.h>

static const struct plan_input input = {
        .services = { { .name = "chat", .memory = 8 * GIB, .load = 0.2, .time = 1000000, .count = 2 },
                      { .name = "chat-big", .memory = 20 * GIB, .load = 0.2, .time = 1000000, .count = 1 } },
        .n_services = 2,
};
static struct plan_live live;
static struct plan plan;

static int read_live(const char *devices, const char *tenants)
{
        json_t *a = json_loads(devices, 0, NULL), *b = json_loads(tenants, 0, NULL);
        struct err err = { 0 };
        int r = plan_live_read(a, b, &input, &live, &err);

        assert_true(r == 0 || err.text[0]);
        json_decref(a);
        json_decref(b);
        return r;
}

#define DEVICE(more) "[{\"index\":0,\"name\":\"NVIDIA H200\",\"memory_bytes\":150754820096" more "}]"
#define TENANT(name, more)                                                                                             \
        "[{\"tenant\":\"" name "\",\"class\":\"latency\",\"mode\":\"time\",\"share_asked_permille\":300,\"devices\":"  \
        "[{\"index\":0,\"quota_bytes\":8589934592,\"cap_permille\":1000}]" more "}]"

static void a_model_is_known_by_its_word_and_memory(void **state)
{
        (void)state;
        assert_string_equal(plan_model_of("NVIDIA H200", 143771 * MIB)->name, "H200");
        assert_string_equal(plan_model_of("NVIDIA A100-SXM4-80GB", 81920 * MIB)->name, "A100-80G");
        assert_string_equal(plan_model_of("NVIDIA A100-PCIE-40GB", 40536 * MIB)->name, "A100-40G");
        assert_string_equal(plan_model_of("NVIDIA L4", 23034 * MIB)->name, "L4");
        assert_string_equal(plan_model_of("NVIDIA L40S", 46068 * MIB)->name, "L40S");
        assert_string_equal(plan_model_of("Tesla T4", 15360 * MIB)->name, "T4");
        assert_null(plan_model_of("NVIDIA GeForce RTX 4090", 24564 * MIB));
        assert_null(plan_model_of("", 0));
}

static void what_is_there_counts_and_not_what_the_table_says(void **state)
{
        (void)state;
        assert_int_equal(read_live("[{\"name\":\"NVIDIA H200\",\"memory_bytes\":68719476736},"
                                   "{\"name\":\"Odd One\",\"memory_bytes\":8589934592,\"state\":\"lost\"}]",
                                   "[]"),
                         0);
        assert_int_equal(live.n_devices, 2);
        assert_string_equal(live.models[0].name, "H200");
        assert_int_equal(live.models[0].memory, 64 * GIB);
        assert_in_range(live.models[0].mig_slice, 64 * GIB / 9, 64 * GIB / 8);
        assert_string_equal(live.models[1].name, "Odd One");
        assert_false(live.models[1].has_mig);
        assert_true(live.others[1].is_lost);
}

static void a_tenant_is_a_replica_by_its_name(void **state)
{
        (void)state;
        assert_int_equal(read_live(DEVICE(), TENANT("chat-2", "")), 0);
        assert_int_equal(live.n_tenants, 1);
        assert_non_null(plan_live_find(&live, 0, 1));
        assert_null(plan_live_find(&live, 0, 0));
        assert_int_equal(live.tenants[0].share, 300);
        assert_int_equal(live.tenants[0].quota, 8 * GIB);
        assert_int_equal(read_live(DEVICE(), TENANT("chat-big-1", "")), 0);
        assert_non_null(plan_live_find(&live, 1, 0));
}

static void who_is_called_nearly_so_is_nobodys_replica(void **state)
{
        static const char *const names[] = { "chat",    "chat-", "chat-0",  "chat-01",   "chat-1x",
                                             "chats-1", "hat-1", "chat-+1", "chat-big-", "chat-99999999999999999999" };

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
                char text[400];

                (void)snprintf(text, sizeof(text), "[{\"tenant\":\"%s\",\"devices\":[{\"index\":0}]}]", names[i]);
                assert_int_equal(read_live(DEVICE(), text), 0);
                assert_int_equal(live.n_tenants, 0);
        }
}

static void others_have_what_the_plan_s_own_tenants_have_not(void **state)
{
        (void)state;
        assert_int_equal(read_live(DEVICE(",\"leased_bytes\":12884901888,\"share_permille\":500,\"tenants\":2,"
                                          "\"mode\":\"spatial\""),
                                   TENANT("chat-1", "")),
                         0);
        assert_int_equal(live.others[0].memory, 4 * GIB);
        assert_int_equal(live.others[0].share, 200);
        assert_int_equal(live.others[0].way, PLAN_SPACE);
        assert_int_equal(read_live(DEVICE(",\"leased_bytes\":8589934592,\"share_permille\":300,\"tenants\":1,"
                                          "\"mode\":\"spatial\""),
                                   TENANT("chat-1", "")),
                         0);
        assert_int_equal(live.others[0].memory, 0);
        assert_int_equal(live.others[0].way, PLAN_NO_WAY);
}

static void answers_that_make_no_sense_are_refused(void **state)
{
        (void)state;
        assert_int_equal(read_live("{}", "[]"), -EPROTO);
        assert_int_equal(read_live("[]", "[]"), -EPROTO);
        assert_int_equal(read_live(DEVICE(), "[{\"tenant\":\"chat-1\",\"devices\":[{\"index\":9}]}]"), -EPROTO);
        assert_int_equal(read_live(DEVICE(), "[7, null, {\"tenant\":3}, {\"tenant\":\"chat-1\",\"devices\":7}]"), 0);
        assert_int_equal(live.n_tenants, 0);
}

static void make(const char *devices, const char *tenants)
{
        assert_int_equal(read_live(devices, tenants), 0);
        memset(&plan, 0, sizeof(plan));
        plan.services = input.services;
        plan.n_services = input.n_services;
        plan.facts = plan_facts;
        plan_live_fill(&live, &plan);
        plan_make(&plan);
}

#define TWO                                                                                                            \
        "[{\"name\":\"NVIDIA H200\",\"memory_bytes\":150754820096,\"mode\":\"time\""                                   \
        "},{\"name\":\"NVIDIA H200\",\"memory_bytes\":150754820096}]"

static void who_runs_stays_where_it_runs(void **state)
{
        static const char on_the_second[] = "[{\"tenant\":\"chat-1\",\"devices\":[{\"index\":1}]}]";

        (void)state;
        make(TWO, "[]");
        assert_int_equal(plan.devices[1].n_seats, 0);
        make(TWO, on_the_second);
        assert_int_equal(plan.devices[1].n_seats, 3); /* the others join it */
        assert_int_equal(plan.n_left, 0);
}

static void what_others_have_is_not_planned_with(void **state)
{
        (void)state;
        make(DEVICE(",\"leased_bytes\":128849018880,\"tenants\":1,\"mode\":\"time\""), "[]");
        assert_int_equal(plan.n_left, 1); /* 19.8 GiB are left, for 20 and 2 x 8 */
        assert_non_null(strstr(plan.left[0].reason, "others have not leased"));
        make(DEVICE(",\"share_permille\":600,\"leased_bytes\":1,\"tenants\":1,\"mode\":\"time\""), "[]");
        assert_int_equal(plan.n_left, 2); /* a replica needs 24 % at its busiest */
        make(DEVICE(",\"leased_bytes\":1,\"tenants\":1,\"mode\":\"mig\""), "[]");
        assert_int_equal(plan.n_left, 3);
        make(DEVICE(",\"state\":\"lost\""), "[]");
        assert_int_equal(plan.n_left, 3);
        assert_non_null(strstr(plan.left[0].reason, "lost"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_model_is_known_by_its_word_and_memory),
                cmocka_unit_test(what_is_there_counts_and_not_what_the_table_says),
                cmocka_unit_test(a_tenant_is_a_replica_by_its_name),
                cmocka_unit_test(who_is_called_nearly_so_is_nobodys_replica),
                cmocka_unit_test(others_have_what_the_plan_s_own_tenants_have_not),
                cmocka_unit_test(answers_that_make_no_sense_are_refused),
                cmocka_unit_test(who_runs_stays_where_it_runs),
                cmocka_unit_test(what_others_have_is_not_planned_with),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
