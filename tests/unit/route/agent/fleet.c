/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/fleet.h"

#include "unit.h"

#include <string.h>

static struct fleet_replica healthy(void)
{
        struct fleet_replica replica = {
                .is_listed = true, .is_ready = true, .health = FLEET_HEALTHY, .has_models = true
        };

        (void)snprintf(replica.name, sizeof(replica.name), "a");
        (void)snprintf(replica.numeric, sizeof(replica.numeric), "127.0.0.1:8000");
        replica.found = (struct settings_models){ .n = 1, .at = { "m" } };
        return replica;
}

static long long number(const struct fleet_replica *replica, const char *name)
{
        json_t *config = fleet_config(replica);
        long long value = json_integer_value(json_object_get(config, name));

        json_decref(config);
        return value;
}

static void only_who_answers_and_is_known_is_up(void **state)
{
        struct fleet_replica r = healthy();

        (void)state;
        assert_string_equal(fleet_state(&r), "up");
        assert_string_equal(fleet_why(&r), "");
        r.has_models = false;
        assert_string_equal(fleet_state(&r), "down");
        r.config.models.n = 1;
        assert_string_equal(fleet_state(&r), "up");
        r.is_ready = false;
        assert_string_equal(fleet_state(&r), "down");
        r = healthy();
        r.health = FLEET_UNKNOWN;
        assert_string_equal(fleet_state(&r), "down");
        r.health = FLEET_UNHEALTHY;
        assert_string_equal(fleet_state(&r), "down");
        r = healthy();
        r.numeric[0] = '\0';
        assert_string_equal(fleet_state(&r), "down");
}

static void draining_goes_before_everything(void **state)
{
        struct fleet_replica r = healthy();

        (void)state;
        r.is_terminating = true;
        r.health = FLEET_UNHEALTHY;
        r.is_suspended = true;
        assert_string_equal(fleet_state(&r), "draining");
}

static void who_is_suspended_sleeps_however_silent_it_is(void **state)
{
        struct fleet_replica r = healthy();

        (void)state;
        r.is_suspended = true;
        r.health = FLEET_UNHEALTHY;
        assert_string_equal(fleet_state(&r), "asleep");
}

static void falling_and_waking_are_asleep(void **state)
{
        struct fleet_replica r = healthy();

        (void)state;
        r.sleep = FLEET_FALLING;
        assert_string_equal(fleet_state(&r), "asleep");
        r.sleep = FLEET_WAKING;
        assert_string_equal(fleet_state(&r), "asleep");
}

static void who_has_a_command_sleeps_when_it_does_not_run(void **state)
{
        struct fleet_replica r = healthy();

        (void)state;
        r.health = FLEET_UNHEALTHY;
        r.config.wake.kind = WAKE_COMMAND;
        assert_string_equal(fleet_state(&r), "asleep");
}

static void an_engine_that_may_sleep_is_not_up_before_it_was_asked(void **state)
{
        struct fleet_replica r = healthy();

        (void)state;
        r.config.wake.kind = WAKE_ENGINE;
        assert_string_equal(fleet_state(&r), "down");
        r.knows_sleep = true;
        assert_string_equal(fleet_state(&r), "up");
}

static void the_rate_is_that_of_the_share(void **state)
{
        struct fleet_replica r = healthy();

        (void)state;
        assert_int_equal(number(&r, "rate"), 0);
        r.config.rate = 22000;
        assert_int_equal(number(&r, "rate"), 22000);
        r.config.share = 500;
        assert_int_equal(number(&r, "rate"), 11000);
        assert_int_equal(number(&r, "share"), 500);
        r.share = 250;
        assert_int_equal(number(&r, "rate"), 11000); /* no daemon knows it now */
        r.is_tenant = true;
        assert_int_equal(number(&r, "rate"), 5500);
}

static void the_cache_is_as_large_as_in_the_file_else_as_in_the_engine(void **state)
{
        struct fleet_replica r = healthy();

        (void)state;
        r.engine = (struct scrape){ .kv_tokens = { 16000, 1 }, .kv_use = { 0.333, 1 }, .waiting = { 2, 1 } };
        r.has_engine = true;
        assert_int_equal(number(&r, "kv_tokens"), 16000);
        assert_int_equal(number(&r, "kv_permille"), 335);
        assert_int_equal(number(&r, "waiting"), 2);
        r.config.kv_tokens = 9;
        assert_int_equal(number(&r, "kv_tokens"), 9);
        r.has_engine = false; /* what it said is too old; its size does not change */
        r.config.kv_tokens = 0;
        assert_int_equal(number(&r, "kv_tokens"), 16000);
        assert_int_equal(number(&r, "waiting"), 0);
}

static void requests_are_held_only_for_who_can_be_woken(void **state)
{
        struct fleet_replica r = healthy();
        json_t *config;

        (void)state;
        r.config.hold = true;
        config = fleet_config(&r);
        assert_false(json_is_true(json_object_get(config, "hold")));
        json_decref(config);
        r.config.wake.kind = WAKE_DAEMON;
        config = fleet_config(&r);
        assert_true(json_is_true(json_object_get(config, "hold")));
        json_decref(config);
}

static void a_fleet_has_a_bound_and_forgets(void **state)
{
        struct fleet fleet = { 0 };
        char name[16];

        (void)state;
        for (int i = 0; i < FLEET_MAX; i++) {
                (void)snprintf(name, sizeof(name), "r%d", i);
                assert_non_null(fleet_add(&fleet, name));
        }
        assert_null(fleet_add(&fleet, "more"));
        fleet_remove(&fleet, fleet_find(&fleet, "r7"));
        assert_null(fleet_find(&fleet, "r7"));
        assert_non_null(fleet_find(&fleet, "r63"));
        while (fleet.n)
                fleet_remove(&fleet, fleet.at[0]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_who_answers_and_is_known_is_up),
                cmocka_unit_test(draining_goes_before_everything),
                cmocka_unit_test(who_is_suspended_sleeps_however_silent_it_is),
                cmocka_unit_test(falling_and_waking_are_asleep),
                cmocka_unit_test(who_has_a_command_sleeps_when_it_does_not_run),
                cmocka_unit_test(an_engine_that_may_sleep_is_not_up_before_it_was_asked),
                cmocka_unit_test(the_rate_is_that_of_the_share),
                cmocka_unit_test(the_cache_is_as_large_as_in_the_file_else_as_in_the_engine),
                cmocka_unit_test(requests_are_held_only_for_who_can_be_woken),
                cmocka_unit_test(a_fleet_has_a_bound_and_forgets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
