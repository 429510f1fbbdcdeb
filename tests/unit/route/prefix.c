/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "route/prefix.h"

#include <stdlib.h>
#include <string.h>

static struct prefix a, b;

static char *text_of(size_t size)
{
        char *text = malloc(size);

        assert_non_null(text);
        for (size_t i = 0; i < size; i++)
                text[i] = (char)(i * 7 + i / 251);
        return text;
}

static void the_chain_does_not_depend_on_how_the_text_comes(void **state)
{
        enum { SIZE = 50000 };
        char *text = text_of(SIZE);
        unsigned int seed = 3;

        (void)state;
        prefix_begin(&a);
        prefix_text(&a, text, SIZE);
        for (int round = 0; round < 50; round++) {
                prefix_begin(&b);
                for (size_t at = 0, n; at < SIZE; at += n) {
                        n = (size_t)rand_r(&seed) % 3000;
                        n = n < SIZE - at ? n : SIZE - at;
                        prefix_text(&b, text + at, n);
                }
                assert_int_equal(a.n_blocks, b.n_blocks);
                assert_memory_equal(a.chain, b.chain, a.n_blocks * sizeof(a.chain[0]));
                assert_int_equal(b.size, SIZE);
        }
        free(text);
}

static void equal_beginnings_have_equal_chains_up_to_the_difference(void **state)
{
        char *text = text_of(20000);

        (void)state;
        prefix_begin(&a);
        prefix_text(&a, text, 20000);
        text[5000] ^= 1;
        prefix_begin(&b);
        prefix_text(&b, text, 20000);
        for (uint32_t i = 0; i < a.n_blocks; i++)
                assert_int_equal(a.chain[i] == b.chain[i], prefix_bytes(i + 1) <= 5000);
        free(text);
}

static void only_whole_blocks_count(void **state)
{
        char *text = text_of(5000);
        static const struct {
                size_t size;
                uint32_t n;
        } cases[] = { { 255, 0 }, { 256, 1 }, { 2047, 7 }, { 2048, 8 }, { 3071, 8 }, { 3072, 9 } };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                prefix_begin(&a);
                prefix_text(&a, text, cases[i].size);
                assert_int_equal(a.n_blocks, cases[i].n);
                assert_true(prefix_bytes(a.n_blocks) <= cases[i].size);
        }
        free(text);
}

static uint64_t first_hash(const char *model, const char *salt, const char *text)
{
        prefix_begin(&a);
        prefix_text(&a, text, 300);
        prefix_bind(&a, model, strlen(model), salt, strlen(salt));
        return a.chain[0];
}

static void another_model_or_salt_shares_nothing(void **state)
{
        char *text = text_of(300);

        (void)state;
        assert_int_equal(first_hash("m", "", text), first_hash("m", "", text));
        assert_int_not_equal(first_hash("m", "", text), first_hash("n", "", text));
        assert_int_not_equal(first_hash("m", "", text), first_hash("m", "salt", text));
        free(text);
}

static void beyond_the_last_block_only_the_size_grows(void **state)
{
        size_t size = (size_t)prefix_bytes(PREFIX_BLOCKS) + 5000;
        char *text = text_of(size);

        (void)state;
        prefix_begin(&a);
        prefix_text(&a, text, size);
        assert_int_equal(a.n_blocks, PREFIX_BLOCKS);
        assert_int_equal(a.size, size);
        free(text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_chain_does_not_depend_on_how_the_text_comes),
                cmocka_unit_test(equal_beginnings_have_equal_chains_up_to_the_difference),
                cmocka_unit_test(only_whole_blocks_count),
                cmocka_unit_test(another_model_or_salt_shares_nothing),
                cmocka_unit_test(beyond_the_last_block_only_the_size_grows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
