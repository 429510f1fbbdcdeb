/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/objects/handles.h"

struct journal {
        struct handles handles;
        struct client *client;
        uint32_t gone[64];
        size_t n_gone;
};

static void gone(void *context, struct object *object)
{
        struct journal *journal = context;

        assert_null(map_get(&object->client->objects, object->handle)); /* T2 */
        if (journal->n_gone < 64)
                journal->gone[journal->n_gone++] = object->handle;
}

static int set_up(void **state)
{
        static struct journal journal;

        journal = (struct journal){ 0 };
        handles_init(&journal.handles, gone, &journal);
        *state = &journal;
        return handles_client_new(&journal.handles, 100, 0, &journal.client);
}

static int tear_down(void **state)
{
        handles_done(&((struct journal *)*state)->handles);
        return 0;
}

static struct object *object_put(struct journal *journal, uint32_t parent, uint32_t handle)
{
        struct object *object;

        assert_int_equal(handles_put(journal->client, parent, handle, 0x80, &object), HANDLES_OK);
        return object;
}

static void client_handles_only_grow(void **state)
{
        struct journal *journal = *state;
        struct client *second, *third;
        uint32_t freed;

        assert_int_equal(journal->client->top.handle, 0xc1d00001);
        assert_int_equal(handles_client_new(&journal->handles, 1, 0, &second), 0);
        freed = second->top.handle;
        handles_client_free(&journal->handles, second);
        assert_null(handles_client(&journal->handles, freed));
        assert_int_equal(handles_client_new(&journal->handles, 1, 0, &third), 0);
        assert_true(third->top.handle > freed);
}

static void a_handle_in_use_is_refused_and_nothing_changes(void **state)
{
        struct journal *journal = *state;
        struct object *first = object_put(journal, journal->client->top.handle, 5), *second = NULL;

        assert_int_equal(handles_put(journal->client, journal->client->top.handle, 5, 0x41, &second), HANDLES_E_HANDLE);
        assert_null(second);
        assert_ptr_equal(handles_get(journal->client, 5), first);
        assert_int_equal(handles_put(journal->client, 5, journal->client->top.handle, 0x41, &second), HANDLES_E_HANDLE);
}

static void a_parent_must_be_there(void **state)
{
        struct journal *journal = *state;
        struct object *object;

        assert_int_equal(handles_put(journal->client, 77, 5, 0x80, &object), HANDLES_E_PARENT);
        assert_null(handles_get(journal->client, 5));
}

static void handle_0_picks_one_that_is_free(void **state)
{
        struct journal *journal = *state;
        struct object *first = object_put(journal, journal->client->top.handle, 0);
        struct object *second = object_put(journal, journal->client->top.handle, 0);
        uint32_t handle = second->handle;

        assert_true(first->handle && first->handle != handle);
        handles_free(&journal->handles, first); /* now the count would name the second */
        assert_int_not_equal(object_put(journal, journal->client->top.handle, 0)->handle, handle);
}

static void freeing_takes_descendants_leaves_first(void **state)
{
        struct journal *journal = *state;

        (void)object_put(journal, journal->client->top.handle, 1);
        (void)object_put(journal, 1, 2);
        (void)object_put(journal, 2, 3);
        (void)object_put(journal, journal->client->top.handle, 9);
        handles_free(&journal->handles, handles_get(journal->client, 1));
        assert_int_equal(journal->n_gone, 3);
        assert_int_equal(journal->gone[0], 3);
        assert_int_equal(journal->gone[1], 2);
        assert_int_equal(journal->gone[2], 1);
        assert_non_null(handles_get(journal->client, 9));
}

static void freeing_takes_what_depends_on_it(void **state)
{
        struct journal *journal = *state;

        (void)object_put(journal, journal->client->top.handle, 1);
        (void)object_put(journal, journal->client->top.handle, 2);
        handles_depend(object_put(journal, 2, 3), 1);
        handles_free(&journal->handles, handles_get(journal->client, 1));
        assert_null(handles_get(journal->client, 3));
        assert_non_null(handles_get(journal->client, 2));
}

static void a_dependant_that_is_a_child_too_goes_once(void **state)
{
        struct journal *journal = *state;

        (void)object_put(journal, journal->client->top.handle, 1);
        handles_depend(object_put(journal, 1, 2), 1);
        handles_free(&journal->handles, handles_get(journal->client, 1));
        assert_int_equal(journal->n_gone, 2);
}

static void a_freed_dependant_is_forgotten(void **state)
{
        struct journal *journal = *state;
        struct object *on = object_put(journal, journal->client->top.handle, 1);

        handles_depend(object_put(journal, journal->client->top.handle, 2), 1);
        handles_free(&journal->handles, handles_get(journal->client, 2));
        assert_int_equal(on->n_dependants, 0);
        handles_depend(object_put(journal, journal->client->top.handle, 3), 77); /* nobody */
        assert_int_equal(handles_get(journal->client, 3)->depends[0], 0);
}

static void a_chain_of_parents_has_an_end(void **state)
{
        struct journal *journal = *state;
        uint32_t parent = journal->client->top.handle;
        struct object *object;
        int r = HANDLES_OK;
        uint32_t n = 0;

        for (; n < 1000 && r == HANDLES_OK; n++) {
                r = handles_put(journal->client, parent, n + 1, 0x80, &object);
                parent = n + 1;
        }
        assert_int_equal(r, HANDLES_E_PARENT);
        assert_in_range(n, 8, 100);
}

static void a_client_takes_all_its_objects_along(void **state)
{
        struct journal *journal = *state;
        struct client *other;
        struct object *object;

        assert_int_equal(handles_client_new(&journal->handles, 1, 0, &other), 0);
        for (uint32_t i = 1; i <= 20; i++)
                assert_int_equal(handles_put(other, i % 3 ? other->top.handle : i - 1, i, 1, &object), HANDLES_OK);
        handles_client_free(&journal->handles, other);
        assert_int_equal(journal->n_gone, 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(client_handles_only_grow),
                TEST(a_handle_in_use_is_refused_and_nothing_changes),
                TEST(a_parent_must_be_there),
                TEST(handle_0_picks_one_that_is_free),
                TEST(freeing_takes_descendants_leaves_first),
                TEST(freeing_takes_what_depends_on_it),
                TEST(a_dependant_that_is_a_child_too_goes_once),
                TEST(a_freed_dependant_is_forgotten),
                TEST(a_chain_of_parents_has_an_end),
                TEST(a_client_takes_all_its_objects_along),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
