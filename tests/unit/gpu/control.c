/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/bench.h"

#include "gpu/control.h"

static struct gpu_channel own(const struct rig *rig, uint32_t handle)
{
        return (struct gpu_channel){ rig->client, handle };
}

static struct gpu_client *client_of(const struct rig *rig, struct gpu_backend *backend)
{
        struct gpu_client *client;

        *backend = bench_backend(rig);
        assert_int_equal(gpu_client_open(backend, 0, &client), 0);
        return client;
}

static void channels_of_whomever_go_off_and_on(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_client *client = client_of(rig, &backend);
        struct gpu_channel channel = own(rig, CHANNEL);
        uint64_t value;

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(gpu_channels_set(client, &channel, 1, true, NULL), 0);
        value = bench_launch(rig, CHANNEL, 1000);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 50), -ETIMEDOUT);
        assert_int_equal(gpu_channels_set(client, &channel, 1, false, NULL), 0);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 1000), 0);
        assert_null(gpu_client_close(client));
}

/* The driver counts. */
static void what_was_disabled_often_is_enabled_by_one_call(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_client *client = client_of(rig, &backend);
        struct gpu_channel channel = own(rig, CHANNEL);
        uint64_t value;

        (void)rig_channel(rig, GROUP, CHANNEL);
        for (int i = 0; i < 3; i++)
                assert_int_equal(gpu_channels_set(client, &channel, 1, true, NULL), 0);
        assert_int_equal(gpu_channels_retire(client, &channel, 1, NULL), 0);
        value = bench_launch(rig, CHANNEL, 1000);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 50), -ETIMEDOUT);
        assert_int_equal(gpu_channels_set(client, &channel, 1, false, NULL), 0);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 1000), 0);
        /* and what is enabled once more is no credit */
        assert_int_equal(gpu_channels_set(client, &channel, 1, false, NULL), 0);
        assert_int_equal(gpu_channels_set(client, &channel, 1, true, NULL), 0);
        value = bench_launch(rig, CHANNEL, 1000);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 50), -ETIMEDOUT);
        assert_null(gpu_client_close(client));
}

static void what_another_disabled_stays_so_without_a_doubt(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_client *client = client_of(rig, &backend), *other = client_of(rig, &backend);
        struct gpu_channel channel = own(rig, CHANNEL);
        uint64_t value;

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(gpu_channels_set(other, &channel, 1, true, NULL), 0);
        assert_int_equal(gpu_channels_set(client, &channel, 1, true, NULL), 0);
        assert_int_equal(gpu_channels_set(client, &channel, 1, false, NULL), 0);
        value = bench_launch(rig, CHANNEL, 1000);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 50), -ETIMEDOUT);
        assert_int_equal(gpu_channels_set(client, &channel, 1, true, NULL), 0);
        gpu_channels_doubt(client, &channel, 1);
        assert_int_equal(gpu_channels_set(client, &channel, 1, false, NULL), 0);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 1000), 0);
        assert_null(gpu_client_close(other));
        assert_null(gpu_client_close(client));
}

/* A list of which one is gone is refused, and done in part, more than once. */
static void channels_beside_one_that_is_gone_come_back(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_client *client = client_of(rig, &backend);
        struct gpu_channel list[] = { own(rig, CHANNEL), own(rig, 0x6001), own(rig, 0x6002) };
        uint64_t value;

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(gpu_channels_set(client, list, 3, true, NULL), 0);
        value = bench_launch(rig, CHANNEL, 1000);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 50), -ETIMEDOUT);
        assert_int_equal(gpu_channels_set(client, list, 1, false, NULL), 0);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 1000), 0);
        assert_null(gpu_client_close(client));
}

static void retired_channels_end_what_they_do(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_client *client = client_of(rig, &backend);
        struct gpu_channel channel = own(rig, CHANNEL);
        uint64_t first, second;

        (void)rig_channel(rig, GROUP, CHANNEL);
        first = bench_launch(rig, CHANNEL, 20000);
        second = bench_launch(rig, CHANNEL, 1000);
        assert_int_equal(gpu_channels_retire(client, &channel, 1, NULL), 0);
        assert_int_equal(bench_wait(rig, CHANNEL, first, 1000), 0);
        assert_int_equal(bench_wait(rig, CHANNEL, second, 50), -ETIMEDOUT);
        assert_int_equal(gpu_channels_set(client, &channel, 1, false, NULL), 0);
        assert_int_equal(bench_wait(rig, CHANNEL, second, 1000), 0);
        assert_null(gpu_client_close(client));
}

static void channels_that_are_gone_do_not_keep_the_others(void **state)
{
        enum {
                N = 100,
                HERE = 77,
        };
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_client *client = client_of(rig, &backend);
        struct gpu_channel channels[N];
        uint64_t value;

        (void)rig_channel(rig, GROUP, CHANNEL);
        for (uint32_t i = 0; i < N; i++)
                channels[i] = (struct gpu_channel){ i % 2 ? rig->client : 0xdead0000 + i, 0x6000 + i };
        channels[HERE] = own(rig, CHANNEL);
        assert_int_equal(gpu_channels_set(client, channels, N, true, NULL), 0);
        value = bench_launch(rig, CHANNEL, 1000);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 50), -ETIMEDOUT);
        assert_int_equal(gpu_channels_set(client, channels, N, false, NULL), 0);
        assert_int_equal(bench_wait(rig, CHANNEL, value, 1000), 0);
        assert_null(gpu_client_close(client));
}

static void a_lost_device_says_so(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_client *client = client_of(rig, &backend), *second;
        struct gpu_channel channel = own(rig, CHANNEL);

        (void)rig_channel(rig, GROUP, CHANNEL);
        rig_order(rig, "lost-gpu=0");
        assert_int_equal(gpu_channels_set(client, &channel, 1, true, NULL), -ENODEV);
        assert_int_equal(gpu_client_open(&backend, 0, &second), -ENODEV);
        assert_null(gpu_client_close(client));
}

static void there_are_as_many_devices_as_there_are(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend = bench_backend(rig);
        struct gpu_client *client;

        assert_int_equal(gpu_client_open(&backend, 2, &client), -ENODEV);
        assert_null(gpu_client_close(NULL));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(channels_of_whomever_go_off_and_on),
                RIG_TEST(what_was_disabled_often_is_enabled_by_one_call),
                RIG_TEST(what_another_disabled_stays_so_without_a_doubt),
                RIG_TEST(channels_beside_one_that_is_gone_come_back),
                RIG_TEST(retired_channels_end_what_they_do),
                RIG_TEST(channels_that_are_gone_do_not_keep_the_others),
                RIG_TEST(a_lost_device_says_so),
                RIG_TEST(there_are_as_many_devices_as_there_are),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
