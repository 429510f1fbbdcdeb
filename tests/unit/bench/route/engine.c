/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/engine.h"

#include "base/cleanup.h"

#include "unit.h"

enum {
        N = 64,
};

struct seen {
        struct engine engine;
        nsec now;
        nsec first[N], end[N];
        struct engine_request requests[N];
        uint64_t keys[N][256];
};

static size_t index_of(const struct seen *seen, const struct engine_request *request)
{
        return (size_t)(request - seen->requests);
}

static void on_first(struct engine_request *request, void *context)
{
        struct seen *seen = context;

        seen->first[index_of(seen, request)] = seen->now;
}

static void on_end(struct engine_request *request, void *context)
{
        struct seen *seen = context;

        seen->end[index_of(seen, request)] = seen->now;
}

static const struct engine_calls CALLS = { on_first, on_end };

static void prompt(struct seen *seen, size_t i, uint64_t first_key, uint32_t input, uint32_t output)
{
        for (uint64_t k = 0; k < 256; k++)
                seen->keys[i][k] = first_key + k;
        seen->requests[i] = (struct engine_request){ .keys = seen->keys[i], .input = input, .output = output };
}

static void run(struct seen *seen)
{
        nsec span;

        while ((span = engine_begin(&seen->engine)) > 0) {
                seen->now += span;
                engine_finish(&seen->engine);
        }
}

static struct seen *request_start(uint32_t blocks)
{
        struct seen *seen = calloc(1, sizeof(*seen));

        assert_non_null(seen);
        assert_int_equal(engine_init(&seen->engine, &ENGINE_MODEL_DEFAULT, blocks, &CALLS, seen), 0);
        return seen;
}

static void stop(struct seen *seen)
{
        assert_int_equal(seen->engine.cache.n_pinned, 0);
        assert_int_equal(seen->engine.cache.n_reserved, 0);
        assert_int_equal(seen->engine.n_running, 0);
        assert_int_equal(seen->engine.n_context, 0);
        engine_done(&seen->engine);
        free(seen);
}

static void one_request_takes_as_long_as_in_the_model(void **state)
{
        struct seen *seen = request_start(1000);

        (void)state;
        prompt(seen, 0, 1, 2200, 101);
        engine_submit(&seen->engine, &seen->requests[0]);
        run(seen);
        /* 8 ms + 2200 / 22000 s + 1.6e-9 x 2200^2 / 2 */
        assert_in_range(seen->first[0], 111 * NSEC_PER_MSEC, 113 * NSEC_PER_MSEC);
        /* 100 iterations of 8 ms + 75 us + 2250 x 40 ns */
        assert_in_range(seen->end[0] - seen->first[0], 814 * NSEC_PER_MSEC, 818 * NSEC_PER_MSEC);
        stop(seen);
}

static void half_a_share_takes_twice_as_long(void **state)
{
        struct seen *seen = request_start(1000);

        (void)state;
        seen->engine.speed = 0.5;
        prompt(seen, 0, 1, 2200, 2);
        engine_submit(&seen->engine, &seen->requests[0]);
        run(seen);
        assert_in_range(seen->first[0], 222 * NSEC_PER_MSEC, 226 * NSEC_PER_MSEC);
        stop(seen);
}

static void a_cached_prefix_is_not_computed_again(void **state)
{
        struct seen *seen = request_start(1000);
        nsec cold;

        (void)state;
        prompt(seen, 0, 1, 20480, 2);
        prompt(seen, 1, 1, 20480, 2);
        engine_submit(&seen->engine, &seen->requests[0]);
        run(seen);
        cold = seen->first[0];
        engine_submit(&seen->engine, &seen->requests[1]);
        seen->now = 0;
        run(seen);
        assert_int_equal(seen->requests[1].matched, 20479); /* the last token is always computed */
        assert_true(seen->first[1] < cold / 20);
        stop(seen);
}

static void long_prompts_are_cut_into_chunks_and_decode_goes_on(void **state)
{
        struct seen *seen = request_start(1000);
        uint64_t iterations;

        (void)state;
        prompt(seen, 0, 1, 600, 10000);
        prompt(seen, 1, 1000, 40000, 1);
        engine_submit(&seen->engine, &seen->requests[0]);
        engine_submit(&seen->engine, &seen->requests[1]);
        for (iterations = 0; !seen->first[1]; iterations++) {
                seen->now += engine_begin(&seen->engine);
                engine_finish(&seen->engine);
        }
        assert_int_equal(iterations, 5); /* 600 + 40000 over 8192 */
        engine_abort(&seen->engine, &seen->requests[0]);
        run(seen);
        stop(seen);
}

static void a_request_waits_until_its_blocks_fit(void **state)
{
        struct seen *seen = request_start(30);

        (void)state;
        prompt(seen, 0, 1, 10240, 100);
        prompt(seen, 1, 1000, 10240, 100);
        engine_submit(&seen->engine, &seen->requests[0]);
        engine_submit(&seen->engine, &seen->requests[1]);
        run(seen);
        assert_true(seen->first[1] > seen->end[0]);
        stop(seen);
}

static void a_request_larger_than_the_cache_is_known_before(void **state)
{
        struct seen *seen = request_start(30);

        (void)state;
        prompt(seen, 0, 1, 15000, 400);
        assert_false(engine_fits(&seen->engine, &seen->requests[0]));
        prompt(seen, 0, 1, 15000, 300);
        assert_true(engine_fits(&seen->engine, &seen->requests[0]));
        stop(seen);
}

static void aborting_at_any_moment_leaves_nothing_behind(void **state)
{
        (void)state;
        for (int steps = 0; steps < 30; steps++) {
                struct seen *seen = request_start(200);

                for (size_t i = 0; i < 8; i++) {
                        prompt(seen, i, i < 4 ? 1 : 1000 * i, (uint32_t)(3000 + 900 * i), (uint32_t)(5 + 3 * i));
                        engine_submit(&seen->engine, &seen->requests[i]);
                }
                for (int k = 0; k < steps; k++) {
                        if (!engine_begin(&seen->engine))
                                break;
                        if (k == steps - 1) /* also within an iteration */
                                for (size_t i = 0; i < 8; i += 2)
                                        engine_abort(&seen->engine, &seen->requests[i]);
                        engine_finish(&seen->engine);
                }
                for (size_t i = 0; i < 8; i += 3)
                        engine_abort(&seen->engine, &seen->requests[i]);
                run(seen);
                stop(seen);
        }
}

static void each_request_gives_all_its_tokens_in_any_mixture(void **state)
{
        struct seen *seen = request_start(600);
        uint64_t random = 5;

        (void)state;
        for (size_t i = 0; i < N; i++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                prompt(seen, i, random >> 62, (uint32_t)(1 + (random >> 40) % 20000),
                       (uint32_t)(1 + (random >> 30) % 90));
                engine_submit(&seen->engine, &seen->requests[i]);
                if (i % 7 == 0)
                        (void)engine_begin(&seen->engine), engine_finish(&seen->engine);
        }
        run(seen);
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(seen->requests[i].phase, ENGINE_OVER);
                assert_true(seen->end[i] >= seen->first[i]);
        }
        stop(seen);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_request_takes_as_long_as_in_the_model),
                cmocka_unit_test(half_a_share_takes_twice_as_long),
                cmocka_unit_test(a_cached_prefix_is_not_computed_again),
                cmocka_unit_test(long_prompts_are_cut_into_chunks_and_decode_goes_on),
                cmocka_unit_test(a_request_waits_until_its_blocks_fit),
                cmocka_unit_test(a_request_larger_than_the_cache_is_known_before),
                cmocka_unit_test(aborting_at_any_moment_leaves_nothing_behind),
                cmocka_unit_test(each_request_gives_all_its_tokens_in_any_mixture),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
