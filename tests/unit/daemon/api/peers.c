/* SPDX-License-Identifier: Apache-2.0 */
/* Connections by user. */
#include "unit.h"

#include "base/cleanup.h"
#include "daemon/api/peers.h"

static void a_user_has_so_many_and_another_is_let_in(void **state)
{
        struct peers peers = { 0 };
        struct peer *all[PEERS_A_USER + 1], *other, *root;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                assert_int_equal(peers_come(&peers, 1000, false, &all[i]), i < PEERS_A_USER);
        assert_true(peers_come(&peers, 1001, false, &other));
        for (size_t i = 0; i < 2; i++)
                peers_go(&peers, all[i]);
        assert_true(peers_come(&peers, 1000, false, &all[0]));
        peers_go(&peers, all[0]);
        for (size_t i = 2; i < ARRAY_SIZE(all); i++)
                peers_go(&peers, all[i]);
        peers_go(&peers, other);
        assert_int_equal(peers.n, 0);
        assert_null(peers.first);
        for (size_t i = 0; i < 2 * PEERS_A_USER; i++)
                assert_true(peers_come(&peers, 0, true, &root));
        for (size_t i = 0; i < 2 * PEERS_A_USER; i++)
                peers_go(&peers, root);
}

static void many_users_together_leave_room_for_root(void **state)
{
        struct peers peers = { 0 };
        struct peer *all[PEERS_MAX];
        size_t n_in = 0;

        (void)state;
        for (size_t i = 0; i < PEERS_MAX - 1; i++)
                n_in += peers_come(&peers, (uid_t)(1000 + i / 10), false, &all[i]);
        assert_int_equal(n_in, PEERS_MAX - PEERS_SPARE);
        assert_true(peers_come(&peers, 0, true, &all[PEERS_MAX - 1]));
        for (size_t i = 0; i < PEERS_MAX; i++)
                peers_go(&peers, all[i]);
        assert_null(peers.first);
        peers_go(&peers, NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_user_has_so_many_and_another_is_let_in),
                cmocka_unit_test(many_users_together_leave_room_for_root),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
