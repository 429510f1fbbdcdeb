/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory that leaves its device by migration: gate/move/ranges.c, and a UVM of two spaces, page by page. */
#include "gate/rig.h"

#include "gate/inside.h"
#include "gate/move/move.h"
#include "gate/request.h"

enum {
        SPACES = 2,
        PAGES = 4096,
        PAGE = 4096,
        ADDRESS_IN_USE = 0x68,
        INVALID_ADDRESS = 0x1e,
};

#define BASE (0x7000000000 - MIB) /* over the end of a GiB */
#define LENGTH ((uint64_t)PAGES * PAGE)

/* ---- the driver ------------------------------------------------------------------------------------------ */

static struct uvm {
        pthread_mutex_t mutex;
        int fds[SPACES];
        struct page {
                bool is_managed, is_on;
        } pages[SPACES][PAGES];
        unsigned int n_migrations, refused_at;
} uvm = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static size_t space_of(int fd)
{
        struct stat a, b;

        for (size_t i = 0; i < SPACES; i++)
                if (fstat(fd, &a) == 0 && fstat(uvm.fds[i], &b) == 0 && a.st_ino == b.st_ino)
                        return i;
        return 0;
}

static size_t n_managed(const struct page *pages, uint64_t base, uint64_t length)
{
        size_t n = 0;

        for (uint64_t at = base; at < base + length; at += PAGE)
                n += at >= BASE && at < BASE + LENGTH && pages[(at - BASE) / PAGE].is_managed;
        return n;
}

static uint32_t uvm_migrate(struct page *pages, uint64_t base, uint64_t length)
{
        if (!length || base % PAGE || length % PAGE || n_managed(pages, base, length) != length / PAGE)
                return INVALID_ADDRESS;
        if (++uvm.n_migrations == uvm.refused_at)
                return RM_STATUS_NO_MEMORY;
        for (uint64_t at = base; at < base + length; at += PAGE)
                pages[(at - BASE) / PAGE].is_on = false;
        return RM_STATUS_OK;
}

static int on_uvm(int fd, uint32_t number, uint8_t *block)
{
        bool has_range = number == 51 || number == 72 || number == 73; /* another's block may be shorter */
        uint64_t base = has_range ? rm_get64(block, 16, 0) : 0, length = has_range ? rm_get64(block, 16, 8) : 0;
        struct page *pages = uvm.pages[space_of(fd)];

        (void)pthread_mutex_lock(&uvm.mutex);
        switch (number) {
        case 51:
                rm_put32(block, 80, 72, uvm_migrate(pages, base, length));
                break;
        case 72: /* is it exactly one range? Its parts are. */
                rm_put32(block, 24, 16, INVALID_ADDRESS);
                break;
        case 73:
                rm_put32(block, 24, 16, n_managed(pages, base, length) ? ADDRESS_IN_USE : RM_STATUS_OK);
                break;
        case 34:
                rm_put32(block, 24, layout_of(580, 159, 4).uvm_free_size - 8, RM_STATUS_OK);
                break;
        }
        (void)pthread_mutex_unlock(&uvm.mutex);
        return 0;
}

static size_t n_on_device(void)
{
        size_t n = 0;

        for (size_t i = 0; i < SPACES; i++)
                for (size_t k = 0; k < PAGES; k++)
                        n += uvm.pages[i][k].is_on;
        return n;
}

static void pages_set(size_t space, size_t first, size_t n, bool is_managed)
{
        (void)pthread_mutex_lock(&uvm.mutex);
        for (size_t i = first; i < first + n; i++)
                uvm.pages[space][i] = (struct page){ is_managed, is_managed };
        (void)pthread_mutex_unlock(&uvm.mutex);
}

/* ---- a copier that nothing is copied by ------------------------------------------------------------------ */

static bool host_is_full;

static int on_spare(void *context, bytes size)
{
        (void)context, (void)size;
        return host_is_full ? -ENOMEM : 0;
}

static void on_end(void *context, unsigned int device, bool is_kept)
{
        (void)context, (void)device, (void)is_kept;
}

static int on_wait(void *context, unsigned int device)
{
        (void)context, (void)device;
        return 0;
}

static const struct gate_copier copier = { .end = on_end, .wait = on_wait, .spare = on_spare };

/* ---- the tenant ------------------------------------------------------------------------------------------ */

static int ends[2];

static void wait_for_the_end(void)
{
        char byte;

        (void)close(ends[1]);
        (void)!read(ends[0], &byte, 1);
}

/* Its books have a range of the first space; UVM has nothing yet. */
static void begin(struct rig *rig)
{
        struct charge charge = { 0 };
        struct ledger_entry *entry;
        uint64_t numbers[SPACES];
        struct gate *gate;

        memset(uvm.pages, 0, sizeof(uvm.pages));
        uvm.n_migrations = uvm.refused_at = 0;
        host_is_full = false;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        for (size_t i = 0; i < SPACES; i++)
                uvm.fds[i] = fake_node_open("nvidia-uvm");
        rig->fake->uvm = on_uvm;
        rig->copier = &copier;
        gate_begin(rig, wait_for_the_end);
        gate = rig->gate;
        for (size_t i = 0; i < SPACES; i++)
                numbers[i] = files_keep(&gate->files, uvm.fds[i]);
        pages_set(0, 0, 1, true); /* so that nobody finds it gone */
        assert_int_equal(quota_take(&rig->lease.devices[0].quota, LENGTH, &charge), QUOTA_OK);
        LOCKED(&gate->ledger_lock);
        assert_int_equal(ledger_entry_new(gate->ledger, &entry), 0);
        ledger_managed_put(gate->ledger, entry, numbers[0], (uint32_t)rig->tenant, BASE, LENGTH, clock_now(), charge);
}

static void end(struct rig *rig)
{
        for (size_t i = 0; i < SPACES; i++)
                pages_set(i, 0, PAGES, false);
        (void)close(ends[1]);
        (void)close(ends[0]);
        (void)finish(rig, NULL);
        for (size_t i = 0; i < SPACES; i++)
                (void)close(uvm.fds[i]);
}

static struct gate_moved out(struct rig *rig)
{
        struct gate_moved moved;

        gate_move_out(rig->gate, false, 250, &moved);
        gate_move_rest(rig->gate);
        return moved;
}

static enum gate_move_outcome in(struct rig *rig)
{
        struct gate_moved moved;

        gate_move_in(rig->gate, &moved);
        gate_move_rest(rig->gate);
        return moved.outcome;
}

/* ---- claims ---------------------------------------------------------------------------------------------- */

static void a_range_leaves_by_one_call_for_each_gib_and_is_charged_nowhere_until_it_is_back(void **state)
{
        struct rig *rig = *state;
        struct gate_moved moved;

        begin(rig);
        pages_set(0, 0, PAGES, true);
        moved = out(rig);
        assert_int_equal(moved.outcome, GATE_MOVE_DONE);
        assert_int_equal(moved.size, LENGTH);
        assert_int_equal(n_on_device(), 0);
        assert_int_equal(uvm.n_migrations, 4); /* and all once more, for faults that were on their way */
        assert_int_equal(gate_held(rig->gate, 0), 0);
        assert_int_equal(in(rig), GATE_MOVE_DONE);
        assert_int_equal(gate_held(rig->gate, 0), LENGTH);
        end(rig);
}

static void what_is_left_of_a_range_leaves_however_it_is_cut_up(void **state)
{
        struct rig *rig = *state;

        begin(rig);
        pages_set(0, 0, PAGES, true);
        for (size_t i = 0; i < PAGES; i += 97)
                pages_set(0, i, 1 + i % 5, false);
        pages_set(0, PAGES / 2, PAGES / 4, false);
        pages_set(0, PAGES - 1, 1, true);
        assert_int_equal(out(rig).outcome, GATE_MOVE_DONE);
        assert_int_equal(n_on_device(), 0);
        assert_in_range(uvm.n_migrations, 2, 1000);
        end(rig);
}

/* Which space a mapping was made in is known only as the descriptor was when it was looked up. */
static void a_range_that_was_made_in_another_space_than_was_seen_leaves_there(void **state)
{
        struct rig *rig = *state;

        begin(rig);
        pages_set(1, 10, PAGES - 10, true);
        assert_int_equal(out(rig).outcome, GATE_MOVE_DONE);
        assert_int_equal(n_on_device(), 0);
        end(rig);
}

static void what_uvm_or_the_host_refuses_is_as_before_and_goes_the_next_time(void **state)
{
        struct rig *rig = *state;
        struct gate_moved moved;

        begin(rig);
        pages_set(0, 0, PAGES, true);
        uvm.refused_at = 2; /* half of it has gone by then */
        moved = out(rig);
        assert_int_equal(moved.outcome, GATE_MOVE_AS_BEFORE);
        assert_non_null(strstr(moved.text, "status 0x51"));
        assert_int_equal(gate_held(rig->gate, 0), LENGTH);
        assert_false(gate_is_moved(rig->gate));
        host_is_full = true;
        moved = out(rig);
        assert_int_equal(moved.outcome, GATE_MOVE_AS_BEFORE);
        assert_non_null(strstr(moved.text, "the host has no memory"));
        host_is_full = false;
        assert_int_equal(out(rig).outcome, GATE_MOVE_DONE);
        assert_int_equal(n_on_device(), 0);
        end(rig);
}

/* Of a space about which nothing but managed memory could be away; 0: of a file without one. */
static int enters(struct rig *rig, uint64_t space)
{
        struct process process = { .id = rig->tenant };
        struct worker worker = { .gate = rig->gate };
        struct request call = { .gate = rig->gate,
                                .worker = &worker,
                                .process = &process,
                                .node = RM_NODE_UVM,
                                .space = space,
                                .verdict.action = GATE_PERFORM };
        int r = move_enter(&call);

        move_leave(&call);
        return r;
}

static void a_call_on_any_space_waits_while_managed_memory_is_away(void **state)
{
        struct rig *rig = *state;

        begin(rig);
        assert_int_equal(enters(rig, SPACES), 0);
        assert_int_equal(out(rig).outcome, GATE_MOVE_DONE);
        assert_int_equal(enters(rig, SPACES), GATE_WAITS);
        assert_int_equal(enters(rig, 0), 0);
        assert_int_equal(in(rig), GATE_MOVE_DONE);
        assert_int_equal(enters(rig, SPACES), 0);
        end(rig);
}

static void who_has_had_copies_made_for_its_readers_stays(void **state)
{
        struct rig *rig = *state;

        begin(rig);
        pages_set(0, 0, PAGES, true);
        rig->gate->moving.may_stay = true;
        assert_int_equal(out(rig).outcome, GATE_MOVE_CANNOT);
        assert_int_equal(n_on_device(), PAGES);
        assert_int_equal(uvm.n_migrations, 0);
        end(rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                gate_test(a_range_leaves_by_one_call_for_each_gib_and_is_charged_nowhere_until_it_is_back),
                gate_test(what_is_left_of_a_range_leaves_however_it_is_cut_up),
                gate_test(a_range_that_was_made_in_another_space_than_was_seen_leaves_there),
                gate_test(what_uvm_or_the_host_refuses_is_as_before_and_goes_the_next_time),
                gate_test(a_call_on_any_space_waits_while_managed_memory_is_away),
                gate_test(who_has_had_copies_made_for_its_readers_stays),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
