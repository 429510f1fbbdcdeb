/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "route/routers/news.h"

#include <pthread.h>
#include <string.h>

static struct news news;

enum {
        WRITERS = 4,
        CHAINS = 20000,
};

static int set_up(void **state)
{
        (void)state;
        memset(&news, 0, sizeof(news));
        return 0;
}

static void a_chain_comes_in_pieces_and_once(void **state)
{
        uint64_t chain[2 * NEWS_BLOCKS + 5];
        struct news_piece piece;
        size_t n = 0;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(chain); i++)
                chain[i] = 1000 + i;
        assert_false(news_next(&news, &piece));
        news_put(&news, 7, chain, ARRAY_SIZE(chain));
        news_put(&news, 7, chain, 0);
        while (news_next(&news, &piece)) {
                assert_int_equal(piece.replica, 7);
                for (size_t i = 0; i < piece.n; i++)
                        assert_true(piece.block[i] == chain[n++]);
        }
        assert_int_equal(n, ARRAY_SIZE(chain));
        assert_false(news_next(&news, &piece));
}

static void who_reads_late_has_the_latest(void **state)
{
        struct news_piece piece;
        uint64_t n = 0;

        (void)state;
        for (uint64_t i = 0; i < NEWS_PIECES + 10; i++)
                news_put(&news, 1, &i, 1);
        while (news_next(&news, &piece))
                assert_true(piece.block[0] == 10 + n++);
        assert_int_equal(n, NEWS_PIECES);
}

/* As a writer that was killed leaves it. */
static void a_piece_that_is_not_whole_is_passed_over(void **state)
{
        struct news_piece piece;

        (void)state;
        for (uint64_t i = 0; i < 3; i++)
                news_put(&news, 1, &i, 1);
        news.slots[1].order = UINT64_MAX;
        assert_true(news_next(&news, &piece) && piece.block[0] == 0);
        assert_true(news_next(&news, &piece) && piece.block[0] == 2);
        assert_false(news_next(&news, &piece));
        for (uint64_t i = 0; i < NEWS_PIECES; i++)
                news_put(&news, 1, &i, 1);
        for (uint64_t i = 0; i < NEWS_PIECES - 1; i++)
                assert_true(news_next(&news, &piece)); /* all but that slot's */
        assert_false(news_next(&news, &piece));
}

/* Each chain: one number, so that a piece of two writers shows. */
static void *write_chains(void *context)
{
        unsigned int who = (unsigned int)(uintptr_t)context;
        uint64_t chain[NEWS_BLOCKS];

        for (uint64_t i = 0; i < CHAINS; i++) {
                for (size_t k = 0; k < NEWS_BLOCKS; k++)
                        chain[k] = (uint64_t)who << 32 | i;
                news_put(&news, who, chain, NEWS_BLOCKS);
        }
        return NULL;
}

static void what_is_read_is_one_writers(void **state)
{
        pthread_t threads[WRITERS];
        struct news_piece piece;
        size_t n = 0;

        (void)state;
        for (uintptr_t i = 0; i < WRITERS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, write_chains, (void *)i), 0);
        while (news.head < (uint64_t)WRITERS * CHAINS || news.read < news.head) {
                if (!news_next(&news, &piece))
                        continue;
                n++;
                assert_int_equal(piece.n, NEWS_BLOCKS);
                for (size_t k = 0; k < piece.n; k++)
                        assert_true(piece.block[k] == piece.block[0] && piece.block[k] >> 32 == piece.replica);
        }
        for (size_t i = 0; i < WRITERS; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(n > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(a_chain_comes_in_pieces_and_once, set_up),
                cmocka_unit_test_setup(who_reads_late_has_the_latest, set_up),
                cmocka_unit_test_setup(a_piece_that_is_not_whole_is_passed_over, set_up),
                cmocka_unit_test_setup(what_is_read_is_one_writers, set_up),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
