/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant whose memory leaves its device and comes back: gate/move. The copies themselves are others' (gpu/copy). */
#include "gate/rig.h"

#include "gate/inside.h"
#include "gate/move/inside.h"
#include "gate/move/move.h"

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/resource.h>

enum {
        PIECES = 3,
        MANY = 700, /* more than a gate has threads */
};

/* ---- a copier that has room for everything --------------------------------------------------------------- */

static int on_begin(void *context, unsigned int device, bytes size)
{
        (void)context, (void)device, (void)size;
        return 0;
}

static int on_take(void *context, unsigned int device, uint32_t client, uint32_t object, struct gate_piece *piece)
{
        (void)context, (void)device, (void)client;
        piece->handle = object;
        return 0;
}

static int on_give(void *context, unsigned int device, const struct gate_piece *piece)
{
        (void)context, (void)device, (void)piece;
        return 0;
}

static int on_copy(void *context, unsigned int device, bool is_out, const struct gate_piece *piece, bytes host)
{
        (void)context, (void)device, (void)is_out, (void)piece, (void)host;
        return 0;
}

static int on_wait(void *context, unsigned int device)
{
        (void)context, (void)device;
        return 0;
}

static void on_end(void *context, unsigned int device, bool is_kept)
{
        (void)context, (void)device, (void)is_kept;
}

static bytes made_ready;

static int on_ready(void *context, unsigned int device, bytes size, bool *ret_is_all)
{
        (void)context, (void)device;
        made_ready += STEP;
        *ret_is_all = made_ready >= size;
        return 0;
}

static int on_spare(void *context, bytes size)
{
        (void)context, (void)size;
        return 0;
}

static const struct gate_copier copier = { NULL,    on_begin, on_take,  on_give, on_copy,
                                           on_wait, on_end,   on_ready, on_spare };

/* ---- the tenant ------------------------------------------------------------------------------------------ */

static struct shared {
        atomic_int n_asked; /* whether it is to go on */
        atomic_int n_done;  /* threads */
} * shared;

static struct handles client;

static void pieces_take(void)
{
        uint32_t handle;

        client = client_start(2);
        for (int i = 0; i < PIECES; i++)
                NEED(memory_take(&client, STEP, &handle) == RM_STATUS_OK);
        while (!shared->n_asked)
                fake_wait(1);
}

static void *one_more(void *context)
{
        uint32_t handle = 0x5d000000u + (uint32_t)(uintptr_t)context;

        NEED(memory_take(&client, MIB, &handle) == RM_STATUS_OK);
        shared->n_done++;
        return NULL;
}

static void pieces_and_many_threads(void)
{
        pthread_t threads[MANY];

        pieces_take();
        for (uintptr_t i = 0; i < MANY; i++)
                NEED(pthread_create(&threads[i], NULL, one_more, (void *)i) == 0);
        for (int i = 0; i < MANY; i++)
                NEED(pthread_join(threads[i], NULL) == 0);
}

static void begin(struct rig *rig, void (*tenant)(void))
{
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(shared != MAP_FAILED);
        rig->copier = &copier;
        gate_begin(rig, tenant);
        while (gate_held(rig->gate, 0) < PIECES * STEP)
                fake_wait(1);
        fake_wait(20); /* the answer of the last */
}

static void end(struct rig *rig)
{
        shared->n_asked = 1;
        (void)finish(rig, NULL);
        (void)munmap(shared, sizeof(*shared));
}

static enum gate_move_outcome out(struct rig *rig)
{
        struct gate_moved moved;

        gate_move_out(rig->gate, false, 0, &moved);
        gate_move_rest(rig->gate);
        return moved.outcome;
}

static enum gate_move_outcome in(struct rig *rig)
{
        struct gate_moved moved;

        gate_move_in(rig->gate, &moved);
        gate_move_rest(rig->gate);
        return moved.outcome;
}

/* ---- claims ---------------------------------------------------------------------------------------------- */

static long n_switches(void)
{
        struct rusage usage;

        assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
        return usage.ru_nvcsw;
}

/* A look each 2 ms by each of them would be 175000 of them in half a second. */
static void many_calls_that_wait_sleep_until_memory_is_back_and_then_go_on_at_once(void **state)
{
        struct rig *rig = *state;
        nsec since;
        long before;

        begin(rig, pieces_and_many_threads);
        assert_int_equal(out(rig), GATE_MOVE_DONE);
        assert_int_equal(rig->fake->held, 0);
        shared->n_asked = 1;
        while (rig->n_waiting < MANY)
                fake_wait(1);
        before = n_switches();
        fake_wait(500);
        assert_in_range(n_switches() - before, 0, 2000);
        assert_int_equal(shared->n_done, 0);
        assert_int_equal(in(rig), GATE_MOVE_DONE);
        since = clock_now();
        while (!shared->n_done)
                fake_wait(1);
        assert_in_range(clock_now() - since, 0, 250 * NSEC_PER_MSEC);
        while (shared->n_done < MANY)
                fake_wait(1);
        assert_in_range(clock_now() - since, 0, 5 * NSEC_PER_SEC);
        end(rig);
}

/* The second piece cannot be freed, and the first, which was, cannot be made again. */
static void what_is_lost_on_the_way_out_is_lost_to_whoever_asks_later(void **state)
{
        struct rig *rig = *state;

        begin(rig, pieces_take);
        rig->fake->free_refused_at = 2;
        rig->fake->alloc_refused_at = 1;
        assert_int_equal(out(rig), GATE_MOVE_LOST);
        assert_int_equal(in(rig), GATE_MOVE_LOST);
        assert_int_equal(out(rig), GATE_MOVE_LOST);
        assert_true(gate_is_moved(rig->gate));
        end(rig);
}

/* The second piece cannot be made, and the first, which was, cannot be freed again. */
static void what_is_lost_on_the_way_back_is_lost_to_whoever_asks_later(void **state)
{
        struct rig *rig = *state;

        begin(rig, pieces_take);
        assert_int_equal(out(rig), GATE_MOVE_DONE);
        rig->fake->alloc_refused_at = 2;
        rig->fake->free_refused_at = 1;
        assert_int_equal(in(rig), GATE_MOVE_LOST);
        assert_int_equal(in(rig), GATE_MOVE_LOST);
        end(rig);
}

static void what_fails_on_a_way_is_as_before_and_goes_the_next_time(void **state)
{
        struct rig *rig = *state;

        begin(rig, pieces_take);
        rig->fake->free_refused_at = 3;
        assert_int_equal(out(rig), GATE_MOVE_AS_BEFORE);
        assert_int_equal(gate_held(rig->gate, 0), PIECES * STEP);
        assert_int_equal(out(rig), GATE_MOVE_DONE);
        rig->fake->alloc_refused_at = 3;
        assert_int_equal(in(rig), GATE_MOVE_AS_BEFORE);
        assert_int_equal(rig->fake->held, 0);
        assert_int_equal(in(rig), GATE_MOVE_DONE);
        assert_int_equal(rig->fake->held, PIECES * STEP);
        end(rig);
}

static void host_memory_is_made_ready_for_what_is_held_and_no_more_than_it_may_have(void **state)
{
        struct rig *rig = *state;

        begin(rig, pieces_take);
        made_ready = 0;
        gate_move_ready(rig->gate, GIB);
        assert_int_equal(made_ready, PIECES * STEP);
        made_ready = 0;
        gate_move_ready(rig->gate, STEP);
        assert_int_equal(made_ready, STEP);
        assert_int_equal(out(rig), GATE_MOVE_DONE);
        made_ready = 0;
        gate_move_ready(rig->gate, GIB); /* it holds nothing */
        assert_int_equal(made_ready, 0);
        assert_int_equal(in(rig), GATE_MOVE_DONE);
        end(rig);
}

/* ---- a list in the parameters that comes late ------------------------------------------------------------- */

enum {
        PAGE = 4096,
        GR_GET_INFO = 0x20801201, /* params: n@0, a pointer to pairs that are read and written @8 */
};

static void *late_page(void *context)
{
        struct uffd_msg message;
        static char page[PAGE];
        struct uffdio_copy copy = { .src = (uintptr_t)page, .len = PAGE };
        int faults = *(int *)context;

        NEED(read(faults, &message, sizeof(message)) == sizeof(message));
        shared->n_done = 1;
        while (!shared->n_asked)
                fake_wait(1);
        copy.dst = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
        NEED(ioctl(faults, UFFDIO_COPY, &copy) == 0);
        return NULL;
}

static void ask_with_a_late_list(void)
{
        struct uffdio_api api = { .api = UFFD_API };
        struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
        char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
        uint8_t params[16] = { 4 }, block[32] = { 0 };
        pthread_t thread;

        client = client_start(2);
        range.range.start = (uintptr_t)page;
        range.range.len = PAGE;
        NEED(faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0 && ioctl(faults, UFFDIO_REGISTER, &range) == 0);
        NEED(pthread_create(&thread, NULL, late_page, &faults) == 0);
        rm_put64(params, sizeof(params), 8, (uintptr_t)page);
        rm_put32(block, sizeof(block), 0, client.client);
        rm_put32(block, sizeof(block), 4, client.subdevice);
        rm_put32(block, sizeof(block), 8, GR_GET_INFO);
        rm_put64(block, sizeof(block), 16, (uintptr_t)params);
        rm_put32(block, sizeof(block), 24, sizeof(params));
        NEED(request(client.ctl, RM_NR_CONTROL, block, sizeof(block)) == 0);
        NEED(rm_get32(block, sizeof(block), 28) == RM_STATUS_NO_MEMORY);
        NEED(pthread_join(thread, NULL) == 0);
}

/* It had begun when memory began to leave, and cannot wait: there are too many that do. libcuda knows no errno. */
static void a_call_that_has_begun_and_may_not_wait_is_told_so_by_the_driver(void **state)
{
        int probe = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
        struct rig *rig = *state;
        struct gate_stats stats;

        (void)close(probe);
        if (probe < 0)
                skip();
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(shared != MAP_FAILED);
        rig->copier = &copier;
        gate_begin(rig, ask_with_a_late_list);
        while (!shared->n_done)
                fake_wait(1);
        rig->gate->n_waiting += GATE_WAITING_MAX;
        move_state_set(rig->gate, MOVE_LEAVING);
        shared->n_asked = 1;
        do {
                fake_wait(1);
                gate_stats(rig->gate, &stats);
        } while (!stats.n_events[EVENT_NOT_WOKEN]);
        rig->gate->n_waiting -= GATE_WAITING_MAX;
        move_state_set(rig->gate, MOVE_HERE);
        assert_int_equal(finish(rig, NULL), 0);
        (void)munmap(shared, sizeof(*shared));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                gate_test(many_calls_that_wait_sleep_until_memory_is_back_and_then_go_on_at_once),
                gate_test(host_memory_is_made_ready_for_what_is_held_and_no_more_than_it_may_have),
                gate_test(what_fails_on_a_way_is_as_before_and_goes_the_next_time),
                gate_test(what_is_lost_on_the_way_out_is_lost_to_whoever_asks_later),
                gate_test(what_is_lost_on_the_way_back_is_lost_to_whoever_asks_later),
                gate_test(a_call_that_has_begun_and_may_not_wait_is_told_so_by_the_driver),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
