/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "lease/sound.h"

#include <string.h>

enum {
        N = 4096,
};

static struct tree_key key(uint64_t high, uint64_t low)
{
        return (struct tree_key){ high, low };
}

static size_t depth_of(const struct tree_node *node)
{
        size_t depth = 0;

        for (; node; node = node->parent)
                depth++;
        return depth;
}

static void an_empty_tree_has_nothing(void **state)
{
        struct tree tree = { 0 };

        (void)state;
        assert_null(tree_from(&tree, key(0, 0)));
        assert_true(tree_is_sound(&tree));
}

static void from_finds_the_first_that_is_not_below(void **state)
{
        struct tree tree = { 0 };
        struct tree_node a, b, c;

        (void)state;
        tree_put(&tree, &b, key(1, 20), 0);
        tree_put(&tree, &c, key(2, 0), 0);
        tree_put(&tree, &a, key(1, 10), 0);
        assert_ptr_equal(tree_from(&tree, key(0, UINT64_MAX)), &a);
        assert_ptr_equal(tree_from(&tree, key(1, 10)), &a);
        assert_ptr_equal(tree_from(&tree, key(1, 11)), &b);
        assert_ptr_equal(tree_from(&tree, key(1, 21)), &c);
        assert_null(tree_from(&tree, key(2, 1)));
        assert_ptr_equal(tree_next(&a), &b);
        assert_ptr_equal(tree_next(&b), &c);
        assert_null(tree_next(&c));
}

static void of_equal_keys_the_newest_is_first(void **state)
{
        struct tree tree = { 0 };
        struct tree_node nodes[9];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
                tree_put(&tree, &nodes[i], key(7, 7), 0);
                assert_ptr_equal(tree_from(&tree, key(7, 7)), &nodes[i]);
        }
        assert_true(tree_is_sound(&tree));
        for (size_t i = ARRAY_SIZE(nodes); i-- > 0;) {
                assert_ptr_equal(tree_from(&tree, key(7, 0)), &nodes[i]);
                tree_take(&tree, &nodes[i]);
        }
        assert_null(tree.root);
}

/* Every order a tenant could choose, among them the ones that make a plain tree a list. */
static void no_order_of_keys_makes_it_deep(void **state)
{
        static struct tree_node nodes[N];

        (void)state;
        for (unsigned int order = 0; order < 4; order++) {
                struct tree tree = { 0 };
                size_t deepest = 0;

                for (size_t i = 0; i < N; i++) {
                        size_t at[] = { i, N - i, i % 2 ? i : N - i, 5 };

                        tree_put(&tree, &nodes[i], key(1, at[order]), 0);
                }
                assert_true(tree_is_sound(&tree));
                for (size_t i = 0; i < N; i++)
                        deepest = depth_of(&nodes[i]) > deepest ? depth_of(&nodes[i]) : deepest;
                assert_in_range(deepest, 12, 60);
        }
}

static void random_puts_and_takes_agree_with_an_array(void **state)
{
        static struct tree_node nodes[64];
        bool is_there[64] = { 0 };
        struct tree tree = { 0 };
        uint64_t random = 1;

        (void)state;
        for (size_t i = 0; i < 20000; i++) {
                size_t n, expected;

                random = random * 6364136223846793005u + 1442695040888963407u;
                n = random >> 58;
                if (is_there[n])
                        tree_take(&tree, &nodes[n]);
                else
                        tree_put(&tree, &nodes[n], key(n / 8, n % 8), 0);
                is_there[n] = !is_there[n];
                assert_true(tree_is_sound(&tree));

                n = random >> 40 & 63;
                for (expected = n; expected < 64 && !is_there[expected]; expected++)
                        ;
                assert_ptr_equal(tree_from(&tree, key(n / 8, n % 8)), expected < 64 ? &nodes[expected] : NULL);
        }
}

/* The first of an array of spans that tree_over would name, by a look at each. */
static struct tree_node *over_by_hand(struct tree_node *nodes, const bool *is_there, size_t n, struct tree_key from,
                                      uint64_t first, uint64_t last)
{
        struct tree_node *found = NULL;

        for (size_t i = 0; i < n; i++)
                if (is_there[i] && nodes[i].key.high == from.high && nodes[i].key.low >= from.low &&
                    nodes[i].key.low <= last && nodes[i].last >= first && (!found || nodes[i].key.low < found->key.low))
                        found = &nodes[i];
        return found;
}

static void spans_over_an_address_agree_with_an_array(void **state)
{
        static struct tree_node nodes[64];
        bool is_there[64] = { 0 };
        struct tree tree = { 0 };
        uint64_t random = 3;

        (void)state;
        for (size_t i = 0; i < 40000; i++) {
                uint64_t first, last, low;
                struct tree_key from;
                size_t n;

                random = random * 6364136223846793005u + 1442695040888963407u;
                n = random >> 58;
                low = n % 16 * 64 + n / 16; /* no two nodes have the same */
                if (is_there[n])
                        tree_take(&tree, &nodes[n]);
                else
                        tree_put(&tree, &nodes[n], key(n % 2, low), random >> 20 & 1 ? random >> 50 & 255 : 1);
                is_there[n] = !is_there[n];
                assert_true(tree_is_sound(&tree));
                first = random >> 30 & 1023;
                last = first + (random >> 40 & 63);
                from = key(random >> 22 & 1, random >> 21 & 1 ? 0 : random >> 10 & 1023);
                assert_ptr_equal(tree_over(&tree, from, first, last),
                                 over_by_hand(nodes, is_there, ARRAY_SIZE(nodes), from, first, last));
        }
}

static void a_span_ends_at_the_last_number(void **state)
{
        struct tree tree = { 0 };
        struct tree_node node;

        (void)state;
        tree_put(&tree, &node, key(1, UINT64_MAX - 1), 100);
        assert_true(node.last == UINT64_MAX);
        assert_ptr_equal(tree_over(&tree, key(1, 0), UINT64_MAX, UINT64_MAX), &node);
        assert_null(tree_over(&tree, key(0, 0), UINT64_MAX, UINT64_MAX));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_empty_tree_has_nothing),
                cmocka_unit_test(from_finds_the_first_that_is_not_below),
                cmocka_unit_test(of_equal_keys_the_newest_is_first),
                cmocka_unit_test(no_order_of_keys_makes_it_deep),
                cmocka_unit_test(random_puts_and_takes_agree_with_an_array),
                cmocka_unit_test(spans_over_an_address_agree_with_an_array),
                cmocka_unit_test(a_span_ends_at_the_last_number),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
