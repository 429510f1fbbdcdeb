/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/bench.h"

#include "base/clock.h"
#include "gpu/meter.h"

struct desk {
        struct gpu_backend backend;
        struct gpu_client *client;
        struct meter *meter;
};

static void desk_open(struct desk *desk, const struct rig *rig)
{
        desk->backend = bench_backend(rig);
        assert_int_equal(gpu_client_open(&desk->backend, 0, &desk->client), 0);
        assert_int_equal(meter_open(desk->client, &desk->meter), 0);
}

static void desk_close(struct desk *desk)
{
        assert_null(meter_close(desk->meter));
        assert_null(gpu_client_close(desk->client));
}

static void run(const struct rig *rig, uint32_t channel, uint64_t usec)
{
        assert_int_equal(bench_wait(rig, channel, bench_launch(rig, channel, usec), 10000), 0);
}

static void switches_arrive_with_context_process_and_our_time(void **state)
{
        struct rig *rig = *state;
        struct desk desk;
        struct meter_record r[8];
        uint64_t lost = 7;
        uint32_t first, second;
        nsec began = clock_now();

        desk_open(&desk, rig);
        first = rig_channel(rig, GROUP, CHANNEL);
        second = rig_channel(rig, GROUP + 1, CHANNEL + 1);
        run(rig, CHANNEL, 1000);
        run(rig, CHANNEL + 1, 1000);
        assert_int_equal(meter_read(desk.meter, true, r, 8, &lost), 3);
        assert_int_equal(lost, 0);
        assert_true(r[0].is_on && !r[1].is_on && r[2].is_on);
        assert_int_equal(r[0].context, first);
        assert_int_equal(r[2].context, second);
        assert_int_equal(r[0].pid, getpid());
        assert_int_equal(r[2].at - r[1].at, 85000);
        assert_true(r[0].at > began - NSEC_PER_MSEC && r[2].at < clock_now() + NSEC_PER_MSEC);
        assert_int_equal(meter_read(desk.meter, true, r, 8, NULL), 0);
        desk_close(&desk);
}

static void a_small_room_gets_the_oldest_first(void **state)
{
        struct rig *rig = *state;
        struct desk desk;
        struct meter_record r[2];

        desk_open(&desk, rig);
        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)rig_channel(rig, GROUP + 1, CHANNEL + 1);
        run(rig, CHANNEL, 100);
        run(rig, CHANNEL + 1, 100);
        assert_int_equal(meter_read(desk.meter, true, r, 2, NULL), 2);
        assert_true(r[0].is_on && !r[1].is_on);
        assert_int_equal(meter_read(desk.meter, false, r, 2, NULL), 1);
        assert_true(r[0].is_on);
        desk_close(&desk);
}

/* More than the ring holds while nobody reads: what is left is whole, and the rest is counted. */
static void what_is_overwritten_is_counted(void **state)
{
        enum {
                ROUNDS = 17000, /* two records each */
        };
        struct rig *rig = *state;
        struct desk desk;
        static struct meter_record r[40000];
        uint64_t lost = 0, more = 0;
        int n, rest;

        desk_open(&desk, rig);
        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)rig_channel(rig, GROUP + 1, CHANNEL + 1);
        rig_order(rig, "switch-cost=0");
        for (int i = 0; i < ROUNDS; i++) {
                (void)bench_launch(rig, CHANNEL, 0);
                run(rig, CHANNEL + 1, 0);
        }
        n = meter_read(desk.meter, true, r, 40000, &lost);
        assert_true(n > 30000);
        rest = meter_read(desk.meter, true, r, 40000, &more);
        assert_int_equal(rest, 0);
        assert_true(lost > 0);
        assert_int_equal((uint64_t)n + lost, 4 * ROUNDS - 1);
        desk_close(&desk);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(switches_arrive_with_context_process_and_our_time),
                RIG_TEST(a_small_room_gets_the_oldest_first),
                RIG_TEST(what_is_overwritten_is_counted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
