/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "route/index.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
        SLOTS = 1 << 12,
        BLOCKS = 100,
        CHAIN = 40,
};

static struct index *index_;
static uint32_t found[INDEX_REPLICAS];

static struct index *make(size_t n_slots, size_t n_blocks)
{
        void *memory =
                mmap(NULL, index_size(n_slots, n_blocks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        assert_true(memory != MAP_FAILED);
        return index_init(memory, n_slots, n_blocks);
}

static int begin(void **state)
{
        (void)state;
        index_ = make(SLOTS, BLOCKS);
        return 0;
}

static int end(void **state)
{
        (void)state;
        return munmap(index_, index_size(SLOTS, BLOCKS));
}

/* The chain number `which`; those of one family share their first `shared` blocks. */
static const uint64_t *chain(unsigned int which, size_t shared)
{
        static uint64_t made[CHAIN];

        for (size_t i = 0; i < CHAIN; i++)
                made[i] = (i < shared ? 1 : which + 2) * 0x9e3779b97f4a7c15u + (i + 1) * 0xc2b2ae3d27d4eb4fu;
        return made;
}

static uint32_t match(unsigned int replica, const uint64_t *blocks)
{
        memset(found, 0xff, sizeof(found));
        (void)index_match(index_, blocks, CHAIN, (uint64_t)1 << replica, found);
        return found[replica];
}

static void what_was_put_in_is_found_for_that_replica_only(void **state)
{
        (void)state;
        index_put(index_, 3, chain(0, 0), CHAIN);
        assert_int_equal(match(3, chain(0, 0)), CHAIN);
        assert_int_equal(match(4, chain(0, 0)), 0);
        assert_int_equal(match(3, chain(1, 0)), 0);
        assert_int_equal(index_count(index_, 3), CHAIN);
}

static void a_match_ends_at_the_first_gap(void **state)
{
        uint64_t mask;

        (void)state;
        index_put(index_, 0, chain(0, 10), CHAIN);
        index_put(index_, 1, chain(1, 10), CHAIN);
        index_put(index_, 2, chain(1, 10) + 20, 10); /* without a beginning */
        mask = index_match(index_, chain(1, 10), CHAIN, 7, found);
        assert_int_equal(mask, 3);
        assert_int_equal(found[0], 10);
        assert_int_equal(found[1], CHAIN);
        assert_int_equal(found[2], 0);
}

static void a_full_cache_forgets_what_was_not_asked_for(void **state)
{
        (void)state;
        index_put(index_, 5, chain(0, 0), CHAIN);
        index_put(index_, 5, chain(1, 0), CHAIN);
        index_put(index_, 5, chain(0, 0), CHAIN); /* asked for again */
        index_put(index_, 5, chain(2, 0), CHAIN); /* 120 blocks for 100 places */
        assert_int_equal(match(5, chain(0, 0)), CHAIN);
        assert_int_equal(match(5, chain(2, 0)), CHAIN);
        assert_true(match(5, chain(1, 0)) < CHAIN);
        assert_int_equal(index_count(index_, 5), BLOCKS);
}

/* What was put in just now is never what makes room for it. */
static void a_cache_of_used_blocks_takes_a_new_chain(void **state)
{
        (void)state;
        for (int round = 0; round < 2; round++) {
                index_put(index_, 5, chain(0, 0), CHAIN);
                index_put(index_, 5, chain(1, 0), CHAIN);
                index_put(index_, 5, chain(2, 0), BLOCKS - 2 * CHAIN); /* full; then all are used */
        }
        index_put(index_, 5, chain(3, 0), CHAIN);
        assert_int_equal(match(5, chain(3, 0)), CHAIN);
        assert_int_equal(index_count(index_, 5), BLOCKS);
}

/* For a cache that is smaller than the memory would allow, so that the log of its uses is long enough. */
static void what_was_used_longest_ago_goes_first(void **state)
{
        enum { FAMILIES = 12, PART = 8, ROOM = 5 };
        size_t used[FAMILIES] = { 0 };
        unsigned int seed = 7, gone = 0;

        (void)state;
        index_resize(index_, 5, (size_t)ROOM * PART);
        for (size_t now = 1; now < 5000; now++) {
                unsigned int which = (unsigned int)rand_r(&seed) % FAMILIES;

                index_put(index_, 5, chain(which, 0), PART);
                used[which] = now;
                for (unsigned int i = 0; i < FAMILIES; i++) {
                        unsigned int n_later = 0;

                        for (unsigned int k = 0; k < FAMILIES; k++)
                                n_later += used[k] > used[i];
                        gone += used[i] && n_later >= ROOM;
                        assert_int_equal(match(5, chain(i, 0)), used[i] && n_later < ROOM ? PART : 0);
                }
        }
        assert_true(gone > 0);
}

/* The log of uses is bounded, and what is used all the time fills it. */
static void what_is_not_used_stays_while_there_is_room(void **state)
{
        (void)state;
        index_put(index_, 5, chain(0, 0), CHAIN);
        for (unsigned int i = 0; i < 10000; i++)
                index_put(index_, 5, chain(1 + i % 2, 0), 20);
        assert_int_equal(match(5, chain(0, 0)), CHAIN);
        assert_int_equal(index_count(index_, 5), 2 * CHAIN);
        index_put(index_, 5, chain(3, 0), CHAIN); /* 120 blocks for 100 places */
        assert_int_equal(index_count(index_, 5), BLOCKS);
        assert_int_equal(match(5, chain(3, 0)), CHAIN);
}

static void a_prompts_end_goes_before_its_beginning(void **state)
{
        (void)state;
        index_put(index_, 5, chain(0, 0), CHAIN);
        index_put(index_, 5, chain(1, 0), CHAIN);
        index_put(index_, 5, chain(2, 0), CHAIN);
        assert_int_equal(match(5, chain(0, 0)), BLOCKS - 2 * CHAIN);
}

static void a_smaller_cache_forgets_at_once(void **state)
{
        (void)state;
        index_put(index_, 5, chain(0, 0), CHAIN);
        index_resize(index_, 5, 10);
        assert_int_equal(match(5, chain(0, 0)), 10);
        assert_int_equal(index_count(index_, 5), 10);
        index_put(index_, 5, chain(1, 0), CHAIN);
        assert_int_equal(index_count(index_, 5), 10);
}

static void a_swept_replica_has_nothing_and_others_keep_theirs(void **state)
{
        bool is_clean = false;
        int n = 0;

        (void)state;
        index_put(index_, 5, chain(0, 0), CHAIN);
        index_put(index_, 6, chain(0, 0), CHAIN);
        for (; !is_clean; n++)
                is_clean = index_sweep(index_, 5, 16);
        assert_in_range(n, 2 * BLOCKS / 16, 2 * BLOCKS / 16 + 2); /* two places a block */
        assert_int_equal(match(5, chain(0, 0)), 0);
        assert_int_equal(match(6, chain(0, 0)), CHAIN);
        assert_int_equal(index_count(index_, 5), 0);
        index_put(index_, 5, chain(3, 0), CHAIN);
        assert_int_equal(match(5, chain(3, 0)), CHAIN);
}

/* An engine that was restarted gets requests while the sweep still goes on. */
static void what_is_put_in_during_a_sweep_is_forgotten_in_its_turn(void **state)
{
        (void)state;
        index_put(index_, 5, chain(0, 0), CHAIN);
        assert_false(index_sweep(index_, 5, BLOCKS)); /* half of the places */
        index_put(index_, 5, chain(1, 0), CHAIN);
        while (!index_sweep(index_, 5, BLOCKS))
                ;
        assert_int_equal(match(5, chain(0, 0)), 0);
        assert_in_range(index_count(index_, 5), 1, CHAIN - 1);
        for (unsigned int i = 2; i < 6; i++)
                index_put(index_, 5, chain(i, 0), CHAIN);
        for (size_t i = 0; i < CHAIN; i++)
                assert_int_equal(index_match(index_, chain(1, 0) + i, 1, (uint64_t)1 << 5, found), 0);
        assert_int_equal(index_count(index_, 5), BLOCKS);
        index_put(index_, 5, chain(1, 0), CHAIN);
        assert_int_equal(match(5, chain(1, 0)), CHAIN);
        assert_int_equal(index_count(index_, 5), BLOCKS);
}

static void a_full_table_gives_up_a_slot_and_goes_on(void **state)
{
        (void)state;
        for (unsigned int r = 0; r < INDEX_REPLICAS; r++)
                for (unsigned int i = 0; i < 100; i++)
                        index_put(index_, r, chain(r * 100 + i, 0), CHAIN);
        for (unsigned int r = 0; r < INDEX_REPLICAS; r++)
                assert_in_range(index_count(index_, r), 0, BLOCKS);
}

static void churn(unsigned int seed)
{
        for (;;) {
                unsigned int r = (unsigned int)rand_r(&seed) % 4;

                index_put(index_, r, chain((unsigned int)rand_r(&seed) % 50, 10), CHAIN);
                (void)index_match(index_, chain((unsigned int)rand_r(&seed) % 50, 10), CHAIN, 15, found);
                if (rand_r(&seed) % 64 == 0)
                        (void)index_sweep(index_, r, 50);
        }
}

static void killed_processes_leave_an_index_that_works(void **state)
{
        unsigned int seed = 1;
        pid_t child[3];

        (void)state;
        for (int round = 0; round < 100; round++) {
                for (unsigned int i = 0; i < 3; i++) {
                        child[i] = fork();
                        assert_return_code(child[i], errno); /* never kill(-1) */
                        if (child[i] == 0)
                                churn(seed + i);
                }
                (void)usleep((useconds_t)(rand_r(&seed) % 2000));
                for (unsigned int i = 0; i < 3; i++) {
                        (void)kill(child[i], SIGKILL);
                        (void)waitpid(child[i], NULL, 0);
                }
                index_put(index_, 9, chain(99, 0), CHAIN);
                assert_int_equal(match(9, chain(99, 0)), CHAIN);
        }
        for (unsigned int r = 0; r < 4; r++) {
                /* The first one goes on where a killed process stopped, and leaves what was put in behind it. */
                for (int sweeps = 0; sweeps < 2;)
                        sweeps += index_sweep(index_, r, 1000);
                assert_int_equal(index_count(index_, r), 0);
                index_put(index_, r, chain(7, 0), CHAIN);
                assert_int_equal(match(r, chain(7, 0)), CHAIN);
        }
}

/* Of this process: what others take of the processors is not ours. */
static nsec processor_time(void)
{
        struct timespec t;

        assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
        return (nsec)t.tv_sec * NSEC_PER_SEC + (nsec)t.tv_nsec;
}

/* The figures; caches are shared with others, so only a tenth is demanded here. */
static void look_ups_are_fast_and_memory_is_bounded(void **state)
{
        enum { N = 1 << 20, LONG = 128 };
        struct index *large = make(N, N / 32);
        uint64_t *chains = calloc(N, sizeof(*chains));
        uint64_t n = 0;
        nsec start, span;

        (void)state;
        assert_true(index_size(N, N / 32) <= 64u << 20);
        for (uint64_t i = 0; i < N; i++)
                chains[i] = (i + 1) * 0x9e3779b97f4a7c15u;
        for (unsigned int i = 0; i < N / LONG / 2; i++)
                for (unsigned int r = 0; r < 4; r++)
                        index_put(large, i % 16 * 4 + r, chains + (size_t)i * LONG, LONG);
        start = processor_time();
        for (int round = 0; round < 8; round++)
                for (size_t i = 0; i < N / LONG; i++, n += found[i / 1 % 1] + LONG)
                        (void)index_match(large, chains + (i * 2654435761u % (N / LONG)) * LONG, LONG, UINT64_MAX,
                                          found);
        span = processor_time() - start;
        n = 8 * (uint64_t)N;
        print_message("# %.1f M block look-ups/s (half of them end at the first block)\n",
                      (double)n / 2 / ((double)span / 1e9) / 1e6);
        assert_true((double)n / 2 / ((double)span / 1e9) > 3e6);
        free(chains);
        (void)munmap(large, index_size(N, N / 32));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_was_put_in_is_found_for_that_replica_only, begin, end),
                cmocka_unit_test_setup_teardown(a_match_ends_at_the_first_gap, begin, end),
                cmocka_unit_test_setup_teardown(a_full_cache_forgets_what_was_not_asked_for, begin, end),
                cmocka_unit_test_setup_teardown(a_cache_of_used_blocks_takes_a_new_chain, begin, end),
                cmocka_unit_test_setup_teardown(what_was_used_longest_ago_goes_first, begin, end),
                cmocka_unit_test_setup_teardown(what_is_not_used_stays_while_there_is_room, begin, end),
                cmocka_unit_test_setup_teardown(a_prompts_end_goes_before_its_beginning, begin, end),
                cmocka_unit_test_setup_teardown(a_smaller_cache_forgets_at_once, begin, end),
                cmocka_unit_test_setup_teardown(a_swept_replica_has_nothing_and_others_keep_theirs, begin, end),
                cmocka_unit_test_setup_teardown(what_is_put_in_during_a_sweep_is_forgotten_in_its_turn, begin, end),
                cmocka_unit_test_setup_teardown(a_full_table_gives_up_a_slot_and_goes_on, begin, end),
                cmocka_unit_test_setup_teardown(killed_processes_leave_an_index_that_works, begin, end),
                cmocka_unit_test(look_ups_are_fast_and_memory_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
