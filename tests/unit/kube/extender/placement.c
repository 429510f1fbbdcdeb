/* SPDX-License-Identifier: Apache-2.0 */
/* Packing, fragmentation, and that nothing is promised twice: placement_pick on literals and on random nodes. */
#include "unit.h"

#include "base/cleanup.h"
#include "kube/extender/placement.h"

#include <string.h>

#define NODE(...)                                                                                                      \
        {                                                                                                              \
                .devices = (const struct placement_device[]){ __VA_ARGS__ },                                           \
                .n_devices =                                                                                           \
                        sizeof((const struct placement_device[]){ __VA_ARGS__ }) / sizeof(struct placement_device)     \
        }
#define WANTS(...)                                                                                                     \
        {                                                                                                              \
                .wants = (const struct placement_want[]){ __VA_ARGS__ },                                               \
                .n_wants = sizeof((const struct placement_want[]){ __VA_ARGS__ }) / sizeof(struct placement_want)      \
        }
#define WITH_SWAP(...)                                                                                                 \
        {                                                                                                              \
                .wants = (const struct placement_want[]){ __VA_ARGS__ },                                               \
                .n_wants = sizeof((const struct placement_want[]){ __VA_ARGS__ }) / sizeof(struct placement_want),     \
                .has_swap = true                                                                                       \
        }

static void the_fullest_device_that_fits_is_taken(void **state)
{
        const struct placement_node node = NODE({ .total = 80, .used = 0 }, { .total = 80, .used = 60 },
                                                { .total = 80, .used = 75 }, { .total = 80, .used = 40 });
        const struct placement_request ten = WANTS({ 10, 0, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&node, &ten, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 1);
        assert_int_equal(placement_pick(&node, &ten, PLACEMENT_SPREAD, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 0);
}

static void a_sick_device_gets_nothing(void **state)
{
        const struct placement_node node = NODE({ .total = 80, .is_unhealthy = true }, { .total = 80, .used = 75 });
        const struct placement_request five = WANTS({ 5, 0, 0 }), six = WANTS({ 6, 0, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&node, &five, PLACEMENT_SPREAD, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 1);
        assert_int_equal(placement_pick(&node, &six, PLACEMENT_SPREAD, NULL, &placement), PLACEMENT_E_FULL);
}

static void a_refusal_says_what_would_help(void **state)
{
        const struct placement_node none = { 0 }, node = NODE({ .total = 80, .used = 50, .share_used = 900 },
                                                              { .total = 80, .used = 70, .share_used = 100 });
        const struct placement_request large = WANTS({ 81, 0, 0 }), full = WANTS({ 31, 0, 0 }),
                                       share = WANTS({ 30, 200, 0 }), two = WANTS({ 20, 0, 0 }, { 20, 0, 0 }),
                                       whole = WANTS({ 1, 1001, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&none, &full, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_NONE);
        assert_int_equal(placement_pick(&node, &large, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_LARGE);
        assert_int_equal(placement_pick(&node, &full, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_FULL);
        assert_int_equal(placement_pick(&node, &share, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_SHARE);
        assert_int_equal(placement_pick(&node, &two, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_TOGETHER);
        assert_int_equal(placement_pick(&node, &whole, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_LARGE);
}

static void memory_and_time_are_both_promised_whole(void **state)
{
        const struct placement_node node = NODE({ .total = 80, .share_used = 800 }, { .total = 80, .share_used = 500 });
        const struct placement_request request = WANTS({ 10, 300, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&node, &request, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 1);
}

/* Greedy best fit puts 30 next to the 50 that is used and then has no 50 left: the search must go back. */
static void two_containers_are_placed_if_there_is_a_way(void **state)
{
        const struct placement_node node =
                NODE({ .total = 80, .used = 30, .share_used = 900 }, { .total = 80, .used = 20, .share_used = 0 });
        const struct placement_request request = WANTS({ 40, 0, 0 }, { 40, 500, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&node, &request, PLACEMENT_SPREAD, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 0);
        assert_int_equal(placement.device[1], 1);
}

static void gpushare_pods_are_on_one_device(void **state)
{
        const struct placement_node node = NODE({ .total = 16, .used = 10 }, { .total = 16, .used = 6 });
        struct placement_request request = WANTS({ 5, 0, 0 }, { 5, 0, 0 });
        struct placement placement;

        (void)state;
        request.is_together = true;
        assert_int_equal(placement_pick(&node, &request, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 1);
        assert_int_equal(placement.device[1], 1);
        request = (struct placement_request)WANTS({ UINT64_MAX - 1, 0, 0 }, { 5, 0, 0 });
        request.is_together = true;
        assert_int_equal(placement_pick(&node, &request, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_LARGE);
}

static void containers_of_a_pod_stay_near_each_other(void **state)
{
        const struct placement_node node =
                NODE({ .total = 80, .used = 40, .numa = 0 }, { .total = 80, .used = 40, .numa = 1 },
                     { .total = 80, .used = 40, .numa = 0 });
        const struct placement_request request = WANTS({ 40, 0, 0 }, { 40, 0, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&node, &request, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 0);
        assert_int_equal(placement.device[1], 2);
}

/* 24 asked of gaps of 40 and 64, where 40s are usual: 40 would lose its 40, 64 keeps one. */
static void what_is_usually_asked_for_stays_possible(void **state)
{
        const struct placement_node node = NODE({ .total = 80, .used = 40 }, { .total = 80, .used = 16 });
        const struct placement_request request = WANTS({ 24, 0, 0 });
        struct placement_mix mix = { 0 };
        struct placement placement;

        (void)state;
        for (int i = 0; i < 8; i++)
                placement_mix_count(&mix, 40);
        placement_mix_count(&mix, 24);
        assert_int_equal(placement_fragment(&mix, 16), 16);
        assert_int_equal(placement_fragment(&mix, 40), 0);
        assert_int_equal(placement_pick(&node, &request, PLACEMENT_FRAGMENT, &mix, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 1);
        assert_int_equal(placement_pick(&node, &request, PLACEMENT_BINPACK, &mix, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 0);
}

static void a_mix_forgets_and_stays_bounded(void **state)
{
        struct placement_mix mix = { 0 };

        (void)state;
        for (bytes i = 0; i < 100000; i++)
                placement_mix_count(&mix, i < 50000 ? 8 : 9 + i % 64);
        assert_true(mix.n_sizes <= PLACEMENT_SIZES);
        assert_true(mix.weight <= 4096);
        for (size_t i = 0; i < mix.n_sizes; i++)
                assert_true(mix.sizes[i].size != 8 || mix.sizes[i].weight < mix.weight / 2);
}

static void scores_follow_the_policy(void **state)
{
        const struct placement_node empty = NODE({ .total = 80 }), half = NODE({ .total = 80, .used = 40 });
        const struct placement_node rest = NODE({ .total = 80, .used = 56 });
        const struct placement_request request = WANTS({ 40, 0, 0 }), small = WANTS({ 24, 0, 0 });
        struct placement_mix mix = { 0 };
        struct placement placement = { 0 };

        (void)state;
        assert_int_equal(placement_score(&half, &request, PLACEMENT_BINPACK, NULL, &placement), 10);
        assert_int_equal(placement_score(&empty, &request, PLACEMENT_BINPACK, NULL, &placement), 5);
        assert_int_equal(placement_score(&half, &request, PLACEMENT_SPREAD, NULL, &placement), 0);
        assert_int_equal(placement_score(&empty, &request, PLACEMENT_SPREAD, NULL, &placement), 5);
        placement_mix_count(&mix, 40);
        assert_int_equal(placement_score(&empty, &request, PLACEMENT_FRAGMENT, &mix, &placement),
                         8); /* loses nothing */
        assert_int_equal(placement_score(&half, &small, PLACEMENT_FRAGMENT, &mix, &placement),
                         4); /* 16 of 80 become useless */
        assert_int_equal(placement_score(&rest, &small, PLACEMENT_FRAGMENT, &mix, &placement),
                         10); /* what was useless is used */
}

/* Pairs 0-1 and 2-3. */
#define PAIRED(a, b, c, d)                                                                                             \
        NODE({ .total = 80, .used = (a), .nvlink = 2 }, { .total = 80, .used = (b), .nvlink = 1 },                     \
             { .total = 80, .used = (c), .nvlink = 8, .numa = 1 },                                                     \
             { .total = 80, .used = (d), .nvlink = 4, .numa = 1 })
#define TWO_OF(memory)                                                                                                 \
        { (memory), 0, 1 },                                                                                            \
        {                                                                                                              \
                (memory), 0, 1                                                                                         \
        }

static void a_container_on_two_devices_gets_neighbours_of_nvlink(void **state)
{
        const struct placement_node node = PAIRED(10, 50, 0, 10), full = PAIRED(60, 0, 60, 0);
        const struct placement_request two = WANTS(TWO_OF(20)), three = WANTS({ 20, 0, 1 }, TWO_OF(20));
        struct placement placement;

        (void)state;
        /* Binpack takes the fuller pair, not the two fullest devices (1, and 0 or 3). */
        assert_int_equal(placement_pick(&node, &two, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 0);
        assert_int_equal(placement.device[1], 1);
        assert_int_equal(placement_score(&node, &two, PLACEMENT_BINPACK, NULL, &placement), 5);
        assert_int_equal(placement_pick(&node, &two, PLACEMENT_SPREAD, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 2);
        assert_int_equal(placement.device[1], 3);
        /* No pair has room: it is placed all the same, and the node's score says so. */
        assert_int_equal(placement_pick(&full, &(struct placement_request)WANTS(TWO_OF(30)), PLACEMENT_BINPACK, NULL,
                                        &placement),
                         PLACEMENT_OK);
        assert_int_equal(placement.device[0], 1);
        assert_int_equal(placement.device[1], 3);
        assert_int_equal(placement_score(&full, &(struct placement_request)WANTS(TWO_OF(30)), PLACEMENT_BINPACK, NULL,
                                         &placement),
                         1);
        assert_int_equal(placement_pick(&node, &three, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0] + placement.device[1] + placement.device[2], 0 + 1 + 3);
}

static void a_refusal_of_several_devices_says_how_many_are_missing(void **state)
{
        const struct placement_node node = PAIRED(70, 70, 0, 70);
        const struct placement_request few = WANTS(TWO_OF(81)), taken = WANTS(TWO_OF(20)),
                                       five = WANTS({ 1, 0, 1 }, TWO_OF(1), TWO_OF(1)), full = WANTS(TWO_OF(80)),
                                       both = WANTS(TWO_OF(10), { 80, 0, 0 }, { 80, 0, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&node, &few, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_LARGE);
        assert_int_equal(placement_pick(&node, &five, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_FEW);
        assert_int_equal(placement_pick(&node, &taken, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_TAKEN);
        assert_int_equal(placement_pick(&node, &full, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_TAKEN);
        assert_int_equal(placement_pick(&node, &both, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_E_TOGETHER);
}

/* The neighbours 0 and 1 would leave no room for the other container: the set has to be apart. */
static void neighbours_are_preferred_and_a_placement_comes_first(void **state)
{
        const struct placement_node node =
                NODE({ .total = 80, .nvlink = 2 }, { .total = 80, .used = 40, .nvlink = 1 }, { .total = 40 });
        const struct placement_request request = WANTS(TWO_OF(30), { 80, 0, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&node, &request, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 1);
        assert_int_equal(placement.device[1], 2);
        assert_int_equal(placement.device[2], 0);
}

#define SWAPPED(of, most, next)                                                                                        \
        {                                                                                                              \
                .sum = (of), .largest = (most), .second = (next)                                                       \
        }

static int outcome_of(const struct placement_node *node, const struct placement_request *request)
{
        struct placement placement;

        return placement_pick(node, request, PLACEMENT_BINPACK, NULL, &placement);
}

static void those_with_swap_exceed_a_device_as_far_as_the_host_holds_their_exchange(void **state)
{
        const struct placement_device devices[] = { { .total = 80, .swapped = SWAPPED(120, 60, 60) } };
        struct placement_node node = { devices, 1, 180, false };
        const struct placement_request sixty = WITH_SWAP({ 60, 0, 0 });

        (void)state;
        assert_int_equal(outcome_of(&node, &sixty), PLACEMENT_OK); /* two of them exceed the device: all of the sum */
        node.swap = 179;
        assert_int_equal(outcome_of(&node, &sixty), PLACEMENT_E_HOST);
        node.swap = 0;
        assert_int_equal(outcome_of(&node, &sixty), PLACEMENT_E_NO_SWAP);
}

static void with_swap_one_fits_beside_those_without_and_without_it_beside_all(void **state)
{
        const struct placement_device devices[] = { { .total = 80, .used = 30, .swapped = SWAPPED(40, 40, 0) } };
        const struct placement_node node = { devices, 1, 1000, false };
        const struct placement_request most = WITH_SWAP({ 50, 0, 0 }), more = WITH_SWAP({ 51, 0, 0 }),
                                       firm = WANTS({ 10, 0, 0 }), firmer = WANTS({ 11, 0, 0 });

        (void)state;
        assert_int_equal(outcome_of(&node, &most), PLACEMENT_OK);
        assert_int_equal(outcome_of(&node, &more), PLACEMENT_E_FULL);
        assert_int_equal(outcome_of(&node, &firm), PLACEMENT_OK);
        assert_int_equal(outcome_of(&node, &firmer), PLACEMENT_E_FULL);
        assert_int_equal(placement_rented(&devices[0]), 70);
}

static void one_with_swap_takes_turns_only_where_it_fits_beside_nobody(void **state)
{
        const struct placement_device devices[] = { { .total = 80, .swapped = SWAPPED(70, 40, 30) },
                                                    { .total = 80, .swapped = SWAPPED(50, 30, 20) },
                                                    { .total = 80, .used = 60 } };
        const struct placement_node node = { devices, 3, 1000, false };
        const struct placement_request small = WITH_SWAP({ 20, 0, 0 }), large = WITH_SWAP({ 40, 0, 0 });
        struct placement placement;

        (void)state;
        assert_int_equal(placement_pick(&node, &small, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 2);
        assert_in_range(placement_score(&node, &small, PLACEMENT_BINPACK, NULL, &placement), 1, 10);
        assert_int_equal(placement_pick(&node, &large, PLACEMENT_BINPACK, NULL, &placement), PLACEMENT_OK);
        assert_int_equal(placement.device[0], 1);
        assert_int_equal(placement_score(&node, &large, PLACEMENT_BINPACK, NULL, &placement), 0);
}

/* An exchange on one device moves what it has on the others. */
static void a_set_with_swap_takes_host_memory_for_all_of_it(void **state)
{
        const struct placement_device devices[] = { { .total = 80, .swapped = SWAPPED(50, 50, 0), .nvlink = 2 },
                                                    { .total = 80, .nvlink = 1 } };
        struct placement_node node = { devices, 2, 130, false };
        const struct placement_request two = WITH_SWAP(TWO_OF(40)), wide = WANTS(TWO_OF(40));

        (void)state;
        assert_int_equal(outcome_of(&node, &two), PLACEMENT_OK);
        assert_int_equal(outcome_of(&node, &wide), PLACEMENT_E_TAKEN);
        node.swap = 129;
        assert_int_equal(outcome_of(&node, &two), PLACEMENT_E_HOST);
}

static uint64_t dice(uint64_t *seed, uint64_t sides)
{
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        return (*seed >> 33) % sides;
}

/* P1, P2, P4, P5 and the range of scores, whatever the node and the request. */
static void nothing_is_promised_twice(void **state)
{
        uint64_t seed = 42;
        unsigned int placed = 0;

        (void)state;
        for (int round = 0; round < 40000; round++) {
                struct placement_device devices[4], after[4];
                struct placement_want wants[4];
                struct placement_node node = { devices, dice(&seed, 5), dice(&seed, 150), dice(&seed, 4) == 0 };
                struct placement_request request = { wants, 1 + dice(&seed, 4), dice(&seed, 4) == 0,
                                                     dice(&seed, 2) == 0 };
                struct exchange_host host = { 0 };
                struct placement_mix mix = { 0 };
                enum placement_policy policy = (enum placement_policy)dice(&seed, 3);
                struct placement placement;

                for (size_t i = 0; i < 4; i++) {
                        devices[i] = (struct placement_device){ .total = 1 + dice(&seed, 40),
                                                                .used = dice(&seed, 30),
                                                                .share_used = (unsigned int)dice(&seed, 1100),
                                                                .numa = (unsigned int)dice(&seed, 2),
                                                                .nvlink = (uint32_t)dice(&seed, 16),
                                                                .is_unhealthy = dice(&seed, 8) == 0 };
                        for (uint64_t k = dice(&seed, 3); k; k--)
                                exchange_add(&devices[i].swapped, 1 + dice(&seed, 20));
                        wants[i] = (struct placement_want){ .memory = 1 + dice(&seed, 30),
                                                            .share = (unsigned int)dice(&seed, 500) };
                        placement_mix_count(&mix, wants[i].memory);
                }
                for (size_t i = 1; i < request.n_wants && !request.is_together; i++)
                        if (dice(&seed, 4) == 0) { /* one container with the want before it */
                                wants[i - 1].set = wants[i - 1].set ? wants[i - 1].set : (unsigned int)i;
                                wants[i] = wants[i - 1];
                        }
                memcpy(after, devices, sizeof(after));
                if (placement_pick(&node, &request, policy, &mix, &placement) != PLACEMENT_OK)
                        continue;
                placed++;
                assert_true(placement_score(&node, &request, policy, &mix, &placement) <= PLACEMENT_SCORE_MAX);
                for (size_t i = 0; i < request.n_wants; i++) {
                        assert_true(placement.device[i] < node.n_devices);
                        struct placement_device *on = &after[placement.device[i]];

                        placement_charge(on, &wants[i], request.has_swap);
                        node.is_spread |= request.has_swap && wants[i].set;
                        assert_false(devices[placement.device[i]].is_unhealthy);
                        assert_true((request.has_swap ? on->used + wants[i].memory : placement_rented(on)) <=
                                    on->total); /* P1, P5 */
                        assert_true(after[placement.device[i]].share_used <= PLACEMENT_WHOLE || !wants[i].share);
                        for (size_t k = 0; k < i; k++) /* P4 */
                                assert_true(!wants[i].set || wants[i].set != wants[k].set ||
                                            placement.device[i] != placement.device[k]);
                }
                for (size_t i = 0; i < node.n_devices; i++)
                        exchange_host_add(&host, &after[i].swapped,
                                          after[i].used < after[i].total ? after[i].total - after[i].used : 0);
                assert_true(!request.has_swap || exchange_host_needs(&host, node.is_spread) <= node.swap);
        }
        assert_in_range(placed, 1500, 40000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_fullest_device_that_fits_is_taken),
                cmocka_unit_test(a_sick_device_gets_nothing),
                cmocka_unit_test(a_refusal_says_what_would_help),
                cmocka_unit_test(memory_and_time_are_both_promised_whole),
                cmocka_unit_test(two_containers_are_placed_if_there_is_a_way),
                cmocka_unit_test(gpushare_pods_are_on_one_device),
                cmocka_unit_test(containers_of_a_pod_stay_near_each_other),
                cmocka_unit_test(what_is_usually_asked_for_stays_possible),
                cmocka_unit_test(a_mix_forgets_and_stays_bounded),
                cmocka_unit_test(scores_follow_the_policy),
                cmocka_unit_test(a_container_on_two_devices_gets_neighbours_of_nvlink),
                cmocka_unit_test(a_refusal_of_several_devices_says_how_many_are_missing),
                cmocka_unit_test(neighbours_are_preferred_and_a_placement_comes_first),
                cmocka_unit_test(those_with_swap_exceed_a_device_as_far_as_the_host_holds_their_exchange),
                cmocka_unit_test(with_swap_one_fits_beside_those_without_and_without_it_beside_all),
                cmocka_unit_test(one_with_swap_takes_turns_only_where_it_fits_beside_nobody),
                cmocka_unit_test(a_set_with_swap_takes_host_memory_for_all_of_it),
                cmocka_unit_test(nothing_is_promised_twice),
        };

        return cmocka_run_group_tests_name("kube/place", tests, NULL, NULL);
}
