/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between a device and the room in host memory, and what becomes of the room when it cannot be made whole. */
#include "gpu/bench.h"

#include "gpu/copy.h"
#include "gpu/copy_inside.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        SMALL = 4 << 20,
        TOTAL_GIB = 64,
};

#define TWO_PIECES (GIB + SMALL)

static struct gpu_copy *copy_of(const struct rig *rig, struct gpu_backend *backend)
{
        struct gpu_copy *copy;

        *backend = bench_backend(rig);
        assert_int_equal(gpu_copy_new(backend, 0, &copy), 0);
        return copy;
}

/* A memory of the tenant's, which in this test is we. */
static struct gpu_copy_piece taken(const struct rig *rig, struct gpu_copy *copy)
{
        struct gpu_copy_piece piece = { .size = SMALL };

        assert_int_equal(rig_memory(rig, MEMORY, SMALL), RM_STATUS_OK);
        assert_int_equal(gpu_copy_take(copy, rig->client, MEMORY, &piece), 0);
        return piece;
}

static void fill(struct gpu_copy *copy, int byte)
{
        uint64_t at;
        bytes length;

        assert_int_equal(room_at(copy, 0, &at, &length), 0);
        assert_true(length >= SMALL);
        memset(copy->room.pieces[0].memory, byte, SMALL);
}

static bool is_filled(const struct gpu_copy *copy, char byte)
{
        const char *memory = copy->room.pieces[0].memory;

        return memory[0] == byte && !memcmp(memory, memory + 1, SMALL - 1);
}

static void what_goes_to_the_device_comes_back(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_copy *copy = copy_of(rig, &backend);
        struct gpu_copy_piece piece;

        assert_int_equal(gpu_copy_begin(copy, SMALL), 0);
        piece = taken(rig, copy);
        fill(copy, 'a');
        assert_int_equal(gpu_copy_ask(copy, false, &piece, 0), 0);
        assert_int_equal(gpu_copy_wait(copy), 0);
        fill(copy, 'b');
        assert_int_equal(gpu_copy_ask(copy, true, &piece, 0), 0);
        assert_int_equal(gpu_copy_wait(copy), 0);
        assert_true(is_filled(copy, 'a'));
        gpu_copy_give(copy, &piece);
        assert_null(gpu_copy_free(copy));
}

/* Where a room is kept the client stays, and the handles below those of the room's pieces are so many only. */
static void no_way_takes_handles_that_the_next_one_cannot_have(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_copy *copy = copy_of(rig, &backend);
        uint32_t first = 0;

        assert_int_equal(rig_memory(rig, MEMORY, SMALL), RM_STATUS_OK);
        for (int way = 0; way < 3; way++) {
                struct gpu_copy_piece piece = { .size = SMALL };

                assert_int_equal(gpu_copy_begin(copy, SMALL), 0);
                assert_int_equal(gpu_copy_take(copy, rig->client, MEMORY, &piece), 0);
                first = first ? first : piece.handle;
                assert_int_equal(piece.handle, first);
                fill(copy, 'a');
                assert_int_equal(gpu_copy_ask(copy, false, &piece, 0), 0);
                assert_int_equal(gpu_copy_wait(copy), 0);
                gpu_copy_give(copy, &piece);
                gpu_copy_end(copy, true);
        }
        assert_null(gpu_copy_free(copy));
}

/* The last piece, which nothing needed after all, cannot be registered: what is in the first one is not lost. */
static void a_room_is_kept_although_its_last_piece_could_not_be_made(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_copy *copy = copy_of(rig, &backend);
        struct gpu_copy_piece piece;
        uint64_t at;
        bytes length;

        rig_order(rig, "pin-refused-at=2");
        assert_int_equal(gpu_copy_begin(copy, TWO_PIECES), 0);
        piece = taken(rig, copy);
        fill(copy, 'a');
        assert_int_equal(gpu_copy_ask(copy, false, &piece, 0), 0);
        assert_int_equal(gpu_copy_wait(copy), 0);
        gpu_copy_give(copy, &piece);
        room_wait(copy);
        assert_true(room_at(copy, GIB, &at, &length) < 0);
        gpu_copy_end(copy, true);
        assert_int_equal(gpu_copy_begin(copy, SMALL), 0);
        assert_true(is_filled(copy, 'a'));
        assert_int_equal(gpu_copy_begin(copy, TWO_PIECES), 0); /* and what is missing is made now */
        assert_int_equal(room_at(copy, GIB, &at, &length), 0);
        assert_true(is_filled(copy, 'a'));
        assert_null(gpu_copy_free(copy));
}

static unsigned int n_asked, n_enough;

/* Others take what there was after so many questions. */
static bytes available(bytes *ret_total)
{
        *ret_total = TOTAL_GIB * GIB;
        return n_asked++ < n_enough ? *ret_total : *ret_total / 16;
}

static void host_memory_that_others_have_taken_meanwhile_is_not_taken_from_them(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_copy *copy = copy_of(rig, &backend);
        uint64_t at;
        bytes length;

        copy->room.host_available = available;
        n_asked = 0;
        n_enough = 2; /* for all, and for the first piece */
        assert_int_equal(gpu_copy_begin(copy, TWO_PIECES), 0);
        assert_int_equal(room_at(copy, GIB, &at, &length), -ENOMEM);
        room_wait(copy);
        assert_non_null(copy->room.pieces[0].memory);
        assert_null(copy->room.pieces[1].memory);
        n_asked = n_enough = 0;
        assert_int_equal(gpu_copy_begin(copy, TWO_PIECES), -ENOMEM); /* now it is known at once */
        n_enough = 9;
        assert_int_equal(gpu_copy_begin(copy, TWO_PIECES), 0);
        assert_int_equal(room_at(copy, GIB, &at, &length), 0);
        assert_null(gpu_copy_free(copy));
}

static int first_node(const struct rm_device *device)
{
        (void)device;
        return 0; /* each machine with nodes has it */
}

static int policy_at(const char *memory)
{
        int policy = -1;

        return syscall(SYS_get_mempolicy, &policy, NULL, 0ul, memory, MPOL_F_ADDR) < 0 ? -errno : policy;
}

static void host_memory_comes_from_the_device_s_own_node_where_it_has_one(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_copy *copy = copy_of(rig, &backend);

        if (policy_at((const char *)&backend) < 0) {
                assert_null(gpu_copy_free(copy));
                skip(); /* no nodes, or not ours to ask for */
        }
        assert_int_equal(gpu_copy_ready(copy, SMALL), 0);
        assert_int_equal(policy_at(copy->room.pieces[0].memory), MPOL_DEFAULT); /* a simulated slot has none */
        assert_null(gpu_copy_free(copy));
        copy = copy_of(rig, &backend);
        copy->room.node_of = first_node;
        assert_int_equal(gpu_copy_ready(copy, SMALL), 0);
        assert_int_equal(policy_at(copy->room.pieces[0].memory), MPOL_PREFERRED);
        assert_null(gpu_copy_free(copy));
}

static void a_room_is_made_ahead_of_need_and_given_back_by_pieces(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend;
        struct gpu_copy *copy = copy_of(rig, &backend);
        struct gpu_copy_piece piece;

        assert_int_equal(gpu_copy_ready(copy, TWO_PIECES), 0);
        assert_int_equal(gpu_copy_room(copy), TWO_PIECES);
        gpu_copy_shrink(copy, TWO_PIECES - 1);
        assert_int_equal(gpu_copy_room(copy), GIB);
        assert_int_equal(gpu_copy_begin(copy, TWO_PIECES), 0); /* what is gone is made again, as ever */
        piece = taken(rig, copy);
        fill(copy, 'a');
        assert_int_equal(gpu_copy_ask(copy, false, &piece, 0), 0);
        assert_int_equal(gpu_copy_ask(copy, true, &piece, GIB), 0);
        assert_int_equal(gpu_copy_wait(copy), 0);
        assert_memory_equal(copy->room.pieces[1].memory, copy->room.pieces[0].memory, SMALL);
        gpu_copy_give(copy, &piece);
        gpu_copy_end(copy, true);
        gpu_copy_shrink(copy, 0);
        assert_int_equal(gpu_copy_room(copy), 0);
        assert_int_equal(gpu_copy_begin(copy, SMALL), 0);
        assert_null(gpu_copy_free(copy));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(what_goes_to_the_device_comes_back),
                RIG_TEST(no_way_takes_handles_that_the_next_one_cannot_have),
                RIG_TEST(a_room_is_kept_although_its_last_piece_could_not_be_made),
                RIG_TEST(a_room_is_made_ahead_of_need_and_given_back_by_pieces),
                RIG_TEST(host_memory_that_others_have_taken_meanwhile_is_not_taken_from_them),
                RIG_TEST(host_memory_comes_from_the_device_s_own_node_where_it_has_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
