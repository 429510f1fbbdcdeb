/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a tenant's groups and channels. */
#include "unit.h"

#include "base/cleanup.h"
#include "gate/state/channels.h"

#include <errno.h>

static struct channel channel(uint32_t client, uint32_t handle, uint32_t group, bool is_compute)
{
        return (struct channel){
                .is = { .client = client, .handle = handle, .group = group, .is_compute = is_compute }
        };
}

static void channel_put(struct channels *channels, struct channel one)
{
        assert_int_equal(channels_reserve(channels, false), 0);
        {
                LOCKED(&channels->lock);
                channels_put(channels, &one);
        }
}

static void graphics_and_compute_are_engines_1_to_8(void **state)
{
        (void)state;
        assert_false(channels_is_compute(0));
        assert_true(channels_is_compute(1));
        assert_true(channels_is_compute(8));
        assert_false(channels_is_compute(9)); /* a copy engine */
}

static void a_reservation_bounds_what_is_put_and_goes_back(void **state)
{
        struct channels channels;

        (void)state;
        channels_init(&channels, 2, 1);
        assert_int_equal(channels_reserve(&channels, false), 0);
        channel_put(&channels, channel(1, 1, 9, true));
        assert_int_equal(channels_reserve(&channels, false), -ENOSPC);
        channels_unreserve(&channels, false);
        channel_put(&channels, channel(1, 2, 9, true));
        assert_int_equal(channels_reserve(&channels, false), -ENOSPC);
        assert_int_equal(channels_reserve(&channels, true), 0);
        assert_int_equal(channels_reserve(&channels, true), -ENOSPC);
        channels_done(&channels);
}

static void a_device_has_a_part_for_each_tenant(void **state)
{
        struct channels channels;

        (void)state;
        channels_init(&channels, 100, 100);
        for (uint32_t i = 1; i <= 3; i++) {
                assert_int_equal(channels_reserve_of(&channels, false, 0, 3), 0);
                channels_unreserve(&channels, false);
                channel_put(&channels, channel(1, i, 9, true)); /* of device 0 */
        }
        assert_int_equal(channels_reserve_of(&channels, false, 0, 3), -EDQUOT);
        assert_int_equal(channels_reserve_of(&channels, false, 0, 4), 0); /* and is not there yet */
        assert_int_equal(channels_reserve_of(&channels, false, 0, 4), -EDQUOT);
        assert_int_equal(channels_reserve_of(&channels, false, 1, 2), 0);
        assert_int_equal(channels_reserve_of(&channels, false, 1, 2), -EDQUOT);
        assert_int_equal(channels_reserve_of(&channels, true, 0, 1), 0);
        assert_int_equal(channels_reserve_of(&channels, true, 0, 1), -EDQUOT);
        channels_done(&channels);
}

static void copies_are_of_one_device_and_one_group_on_whatever_engine(void **state)
{
        struct channels channels;
        struct channel *copy = NULL;

        (void)state;
        channels_init(&channels, 100, 100);
        for (uint32_t i = 1; i <= 40; i++)
                channel_put(&channels, channel(1, i, i % 2 ? 100 : 101, i % 4 != 0));
        assert_int_equal(channels_copy(&channels, 0, 0, 0, &copy), 40);
        freep(&copy);
        assert_int_equal(channels_copy(&channels, 0, 1, 100, &copy), 20);
        freep(&copy);
        assert_int_equal(channels_copy(&channels, 0, 2, 100, &copy), 0); /* another client's handle */
        freep(&copy);
        assert_int_equal(channels_copy(&channels, 1, 0, 0, &copy), 0);
        freep(&copy);
        channels_done(&channels);
}

static void a_handle_that_comes_again_replaces_and_is_counted_on(void **state)
{
        struct channels channels;
        struct channel *copy = NULL;

        (void)state;
        channels_init(&channels, 100, 100);
        channel_put(&channels, channel(1, 7, 100, true));
        channel_put(&channels, channel(1, 7, 101, true));
        assert_int_equal(channels_copy(&channels, 0, 0, 0, &copy), 1);
        assert_int_equal(copy[0].is.group, 101);
        assert_int_equal(copy[0].is.order, 1);
        freep(&copy);
        channels_done(&channels);
}

static void a_group_is_found_by_client_and_handle(void **state)
{
        struct channels channels;
        struct group group = { .client = 1, .handle = 5, .is_compute = true }, *copy = NULL;

        (void)state;
        channels_init(&channels, 100, 100);
        assert_int_equal(channels_reserve(&channels, true), 0);
        {
                LOCKED(&channels.lock);
                channels_put_group(&channels, &group);
                assert_non_null(channels_group(&channels, 1, 5));
                assert_null(channels_group(&channels, 2, 5));
        }
        assert_int_equal(channels_copy_groups(&channels, 0, &copy), 1);
        freep(&copy);
        channels_done(&channels);
}

static void group_put(struct channels *channels, uint32_t handle)
{
        struct group group = { .client = 1, .handle = handle };

        assert_int_equal(channels_reserve(channels, true), 0);
        {
                LOCKED(&channels->lock);
                channels_put_group(channels, &group);
        }
}

static bool note_object(struct channels *channels, uint32_t handle, uint32_t class_number)
{
        LOCKED(&channels->lock);

        return channels_note_object(channels, channels_find(channels, 1, handle), class_number);
}

/* What a group says is the tenant's word; an object that may compute is the truth. */
static void a_group_is_compute_once_a_channel_of_it_can_compute(void **state)
{
        struct channels channels;
        struct channel *copy = NULL;
        struct group *groups = NULL;

        (void)state;
        channels_init(&channels, 100, 100);
        group_put(&channels, 100);
        group_put(&channels, 101);
        for (uint32_t i = 1; i <= 4; i++)
                channel_put(&channels, channel(1, i, i % 2 ? 101 : 100, false));
        assert_true(note_object(&channels, 2, 0xc8b5));  /* a copy engine's: the channel's engine is known */
        assert_false(note_object(&channels, 2, 0xcdb0)); /* and the first counts */
        assert_int_equal(channels_find(&channels, 1, 2)->is.engine, RM_ENGINE_COPY);
        assert_int_equal(channels_copy_groups(&channels, 0, &groups), 0);
        freep(&groups);
        assert_true(note_object(&channels, 2, 0xcbc0));
        assert_false(note_object(&channels, 4, 0xcbc0)); /* it is known by now */
        assert_int_equal(channels_copy_groups(&channels, 0, &groups), 1);
        assert_int_equal(groups[0].handle, 100);
        assert_int_equal(channels_copy(&channels, 0, 1, 100, &copy), 2);
        assert_true(copy[0].is.is_compute && copy[1].is.is_compute);
        assert_true(copy[0].is.engine == RM_ENGINE_NONE && copy[1].is.engine == RM_ENGINE_NONE);
        freep(&copy);
        assert_int_equal(channels_copy(&channels, 0, 1, 101, &copy), 2);
        assert_false(copy[0].is.is_compute || copy[1].is.is_compute);
        freep(&copy);
        freep(&groups);
        channels_done(&channels);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(graphics_and_compute_are_engines_1_to_8),
                cmocka_unit_test(a_reservation_bounds_what_is_put_and_goes_back),
                cmocka_unit_test(a_device_has_a_part_for_each_tenant),
                cmocka_unit_test(copies_are_of_one_device_and_one_group_on_whatever_engine),
                cmocka_unit_test(a_handle_that_comes_again_replaces_and_is_counted_on),
                cmocka_unit_test(a_group_is_found_by_client_and_handle),
                cmocka_unit_test(a_group_is_compute_once_a_channel_of_it_can_compute),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
