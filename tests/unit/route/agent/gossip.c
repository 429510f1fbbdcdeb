/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "route/agent/gossip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char secret[] = "a secret of the routers";
static nsec now = 1000 * NSEC_PER_SEC;

struct datagram {
        unsigned char data[GOSSIP_SIZE];
        size_t size;
};

static struct gossip *router_new(void)
{
        struct gossip *gossip;

        assert_int_equal(gossip_new(secret, sizeof(secret), &gossip), 0);
        return gossip;
}

static struct gossip_row row(const char *name, uint64_t inflight, uint64_t trips)
{
        struct gossip_row r = { .name = gossip_name(name) };

        r.value[HEARD_INFLIGHT] = inflight;
        r.value[GOSSIP_TRIPS] = trips;
        return r;
}

static struct datagram datagram_of(struct gossip *gossip, uint64_t inflight, uint64_t trips)
{
        const struct gossip_row r = row("a", inflight, trips);
        struct datagram d;

        assert_int_equal(gossip_write(gossip, &r, 1, now, d.data, &d.size), 1);
        return d;
}

static int hears(struct gossip *gossip, const struct datagram *d)
{
        struct gossip_blocks blocks;

        return gossip_read(gossip, d->data, d->size, now, &blocks);
}

static uint64_t inflight(struct gossip *gossip)
{
        struct gossip_row sum;

        gossip_sum(gossip, gossip_name("a"), now, &sum);
        return sum.value[HEARD_INFLIGHT];
}

static uint64_t trips(struct gossip *gossip)
{
        struct gossip_row sum;

        gossip_sum(gossip, gossip_name("a"), now, &sum);
        return sum.value[GOSSIP_TRIPS];
}

/* Both send and hear, `rounds` times. */
static void meet(struct gossip *a, uint64_t of_a, struct gossip *b, uint64_t of_b, int rounds)
{
        for (int i = 0; i < rounds; i++) {
                struct datagram from_a = datagram_of(a, of_a, 0), from_b = datagram_of(b, of_b, 0);

                (void)hears(a, &from_b);
                (void)hears(b, &from_a);
                now += NSEC_PER_SEC / 10;
        }
}

static void an_unknown_router_counts_when_it_brings_back_its_number(void **state)
{
        struct gossip *a = router_new(), *b = router_new();

        (void)state;
        meet(a, 3, b, 5, 1);
        assert_int_equal(gossip_routers(a, now), 0); /* its figures do not count */
        assert_int_equal(inflight(a), 0);
        meet(a, 3, b, 5, 2);
        assert_int_equal(gossip_routers(a, now), 1);
        assert_int_equal(inflight(a), 5);
        assert_int_equal(inflight(b), 3);
        meet(a, 4, b, 0, 1);
        assert_int_equal(inflight(a), 0);
        assert_int_equal(inflight(b), 4);
        (void)gossip_free(a);
        (void)gossip_free(b);
}

static void what_several_say_is_added_up(void **state)
{
        struct gossip *a = router_new(), *b = router_new(), *c = router_new();

        (void)state;
        for (int i = 0; i < 3; i++) {
                meet(a, 1, b, 10, 1);
                meet(b, 10, c, 100, 1);
                meet(a, 1, c, 100, 1);
        }
        assert_int_equal(inflight(a), 110);
        assert_int_equal(inflight(b), 101);
        assert_int_equal(inflight(c), 11);
        (void)gossip_free(a);
        (void)gossip_free(b);
        (void)gossip_free(c);
}

static void the_silent_are_forgotten_and_what_was_recorded_stays_so(void **state)
{
        struct gossip *a = router_new(), *b = router_new();
        struct datagram recorded;

        (void)state;
        meet(a, 3, b, 5, 3);
        recorded = datagram_of(b, 7, 0);
        assert_int_equal(hears(a, &recorded), GOSSIP_OK);
        now += GOSSIP_AGE + 1;
        assert_int_equal(inflight(a), 0);
        assert_int_equal(gossip_routers(a, now), 0);
        assert_int_equal(hears(a, &recorded), GOSSIP_E_STRANGER); /* with a number that is forgotten */
        assert_int_equal(hears(a, &recorded), GOSSIP_E_OLD);
        assert_int_equal(inflight(a), 0);
        meet(a, 3, b, 5, 3); /* and when it is back, it is back */
        assert_int_equal(inflight(a), 5);
        (void)gossip_free(a);
        (void)gossip_free(b);
}

/* Heard one way only for so long that one side forgot the other. */
static void who_was_heard_one_way_only_is_heard_again(void **state)
{
        struct gossip *a = router_new(), *b = router_new();

        (void)state;
        meet(a, 3, b, 5, 3);
        for (int i = 0; i < 30; i++) { /* b hears nothing */
                struct datagram from_b = datagram_of(b, 5, 0);

                (void)hears(a, &from_b);
                (void)datagram_of(a, 3, 0);
                now += NSEC_PER_SEC / 10;
        }
        assert_int_equal(gossip_routers(b, now), 0);
        meet(a, 3, b, 6, 4);
        assert_int_equal(inflight(a), 6);
        assert_int_equal(inflight(b), 3);
        (void)gossip_free(a);
        (void)gossip_free(b);
}

static void a_datagram_counts_once_and_in_order(void **state)
{
        struct gossip *a = router_new(), *b = router_new();
        struct datagram before, after;

        (void)state;
        meet(a, 3, b, 5, 3);
        before = datagram_of(b, 50, 0);
        after = datagram_of(b, 6, 0);
        assert_int_equal(hears(a, &after), GOSSIP_OK);
        assert_int_equal(hears(a, &before), GOSSIP_E_OLD);
        assert_int_equal(hears(a, &after), GOSSIP_E_OLD);
        assert_int_equal(inflight(a), 6);
        before = datagram_of(a, 1, 0);
        assert_int_equal(hears(a, &before), GOSSIP_E_OWN);
        (void)gossip_free(a);
        (void)gossip_free(b);
}

/* Each bit of it is signed. */
static void each_bit_is_signed(void **state)
{
        struct gossip *a = router_new(), *b = router_new(), *foreign;
        struct gossip_blocks blocks;
        struct datagram said;

        (void)state;
        meet(a, 3, b, 5, 3);
        said = datagram_of(b, 50, 1);
        for (size_t i = 0; i < 8 * said.size; i++) {
                said.data[i / 8] ^= (unsigned char)(1 << i % 8);
                assert_int_equal(hears(a, &said), GOSSIP_E_FOREIGN);
                said.data[i / 8] ^= (unsigned char)(1 << i % 8);
        }
        for (size_t n = 0; n < said.size; n++)
                assert_int_equal(gossip_read(a, said.data, n, now, &blocks), GOSSIP_E_FOREIGN);
        assert_int_equal(inflight(a), 5);
        assert_int_equal(hears(a, &said), GOSSIP_OK);
        assert_int_equal(gossip_new("another secret than theirs", 26, &foreign), 0);
        said = datagram_of(foreign, 50, 1);
        assert_int_equal(hears(a, &said), GOSSIP_E_FOREIGN);
        assert_int_equal(gossip_new("too short", 9, &foreign), -EINVAL);
        (void)gossip_free(a);
        (void)gossip_free(b);
        (void)gossip_free(foreign);
}

static void blocks_arrive_once_and_no_eye_reads_them(void **state)
{
        struct gossip *a = router_new(), *b = router_new();
        struct gossip_blocks heard;
        uint64_t blocks[GOSSIP_BLOCKS + 10];
        struct datagram said;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
                blocks[i] = 0x0101010101010101 * (i + 1);
        assert_int_equal(
                gossip_write_blocks(b, gossip_name("a"), blocks, ARRAY_SIZE(blocks), now, said.data, &said.size),
                GOSSIP_BLOCKS);
        assert_int_equal(gossip_read(a, said.data, said.size, now, &heard), GOSSIP_E_STRANGER);
        assert_int_equal(heard.n, 0);
        meet(a, 3, b, 5, 3);
        assert_int_equal(
                gossip_write_blocks(b, gossip_name("a"), blocks, ARRAY_SIZE(blocks), now, said.data, &said.size),
                GOSSIP_BLOCKS);
        for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
                assert_null(memmem(said.data, said.size, &blocks[i], sizeof(blocks[i])));
        assert_int_equal(gossip_read(a, said.data, said.size, now, &heard), GOSSIP_OK);
        assert_true(heard.name == gossip_name("a"));
        assert_int_equal(heard.n, GOSSIP_BLOCKS);
        assert_memory_equal(heard.block, blocks, sizeof(heard.block));
        assert_int_equal(gossip_read(a, said.data, said.size, now, &heard), GOSSIP_E_OLD);
        assert_int_equal(heard.n, 0);
        assert_int_equal(inflight(a), 5); /* figures stay as they were */
        assert_int_equal(gossip_write_blocks(b, gossip_name("a"), blocks, 1, now, said.data, &said.size), 1);
        assert_int_equal(gossip_read(a, said.data, said.size, now, &heard), GOSSIP_OK);
        assert_int_equal(heard.n, 1);
        (void)gossip_free(a);
        (void)gossip_free(b);
}

/* What a key has taken: a, b and c of a row. */
static struct datagram key_datagram(struct gossip *router, uint64_t a, uint64_t b)
{
        struct gossip_row row = { .name = gossip_name("key a") };
        struct datagram ret;

        row.value[0] = a;
        row.value[1] = b;
        (void)gossip_write(router, &row, 1, now, ret.data, &ret.size);
        return ret;
}

static void what_has_grown_is_told_once_each_value_for_itself(void **state)
{
        struct gossip *a = router_new(), *b = router_new();
        uint64_t name = gossip_name("key a");
        struct datagram said;

        (void)state;
        meet(a, 3, b, 5, 3);
        said = key_datagram(b, 100, 7);
        (void)hears(a, &said);
        assert_int_equal(gossip_more(a, name, 0, now), 0); /* it had that before it was heard */
        said = key_datagram(b, 130, 7);
        (void)hears(a, &said);
        said = key_datagram(b, 130, 8);
        (void)hears(a, &said);
        assert_int_equal(gossip_more(a, name, 0, now), 30);
        assert_int_equal(gossip_more(a, name, 0, now), 0);
        assert_int_equal(gossip_more(a, name, 1, now), 1);
        said = key_datagram(b, 5, 8); /* its nginx began anew */
        (void)hears(a, &said);
        assert_int_equal(gossip_more(a, name, 0, now), 0);
        said = key_datagram(b, 6, 8);
        (void)hears(a, &said);
        assert_int_equal(gossip_more(a, name, 0, now), 1);
        (void)gossip_free(a);
        (void)gossip_free(b);
}

static void a_trip_is_news_once(void **state)
{
        struct gossip *a = router_new(), *b = router_new();
        struct datagram said;

        (void)state;
        meet(a, 3, b, 5, 3);
        said = datagram_of(b, 5, 0);
        (void)hears(a, &said);
        assert_int_equal(trips(a), 0);
        said = datagram_of(b, 5, 1);
        (void)hears(a, &said);
        said = datagram_of(b, 5, 1);
        (void)hears(a, &said);
        assert_int_equal(trips(a), 1); /* each is news once */
        assert_int_equal(trips(a), 0);
        (void)gossip_free(a);
        (void)gossip_free(b);
}

/* Recorded greetings of any number of routers do not push out those that are in. */
static void a_crowd_of_unknown_routers_pushes_nobody_out(void **state)
{
        struct gossip *a = router_new(), *b = router_new(), *late = router_new();
        struct datagram said;

        (void)state;
        meet(a, 3, b, 5, 3);
        for (int i = 0; i < 100; i++) {
                struct gossip *other = router_new();

                said = datagram_of(other, 50, 0);
                assert_int_equal(hears(a, &said), GOSSIP_E_STRANGER);
                (void)gossip_free(other);
        }
        meet(a, 3, late, 8, 3);
        meet(a, 3, b, 5, 1);
        assert_int_equal(inflight(a), 13);
        (void)gossip_free(a);
        (void)gossip_free(b);
        (void)gossip_free(late);
}

static void all_rows_arrive_in_as_many_datagrams_as_they_need(void **state)
{
        struct gossip *a = router_new(), *b = router_new();
        struct gossip_row rows[64], sum;
        size_t done = 0;

        (void)state;
        meet(a, 3, b, 5, 3);
        for (size_t i = 0; i < 64; i++) {
                char name[16];

                (void)snprintf(name, sizeof(name), "r%zu", i);
                rows[i] = row(name, i + 1, 0);
        }
        while (done < 64) {
                struct datagram d;

                done += gossip_write(b, rows + done, 64 - done, now, d.data, &d.size);
                assert_in_range(d.size, 1, GOSSIP_SIZE);
                assert_int_equal(hears(a, &d), GOSSIP_OK);
        }
        for (size_t i = 0; i < 64; i++) {
                gossip_sum(a, rows[i].name, now, &sum);
                assert_int_equal(sum.value[HEARD_INFLIGHT], i + 1);
        }
        (void)gossip_free(a);
        (void)gossip_free(b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_unknown_router_counts_when_it_brings_back_its_number),
                cmocka_unit_test(what_several_say_is_added_up),
                cmocka_unit_test(the_silent_are_forgotten_and_what_was_recorded_stays_so),
                cmocka_unit_test(a_datagram_counts_once_and_in_order),
                cmocka_unit_test(each_bit_is_signed),
                cmocka_unit_test(blocks_arrive_once_and_no_eye_reads_them),
                cmocka_unit_test(what_has_grown_is_told_once_each_value_for_itself),
                cmocka_unit_test(a_trip_is_news_once),
                cmocka_unit_test(a_crowd_of_unknown_routers_pushes_nobody_out),
                cmocka_unit_test(all_rows_arrive_in_as_many_datagrams_as_they_need),
                cmocka_unit_test(who_was_heard_one_way_only_is_heard_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
