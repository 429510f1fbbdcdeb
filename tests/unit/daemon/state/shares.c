/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pace and turns together on a simulated device whose steering takes as long as on the real one: shares, caps, and
 * what is lent. What is judged is the work that was done, not what the meter says; so the meter is judged, too.
 */
#include "fake_tenants.h"

#include <pthread.h>
#include <sys/resource.h>

#define KERNEL 770 /* usec */

enum {
        WORKERS_MAX = 4,
        DEEP = 16, /* launches in flight */
};

/* ---- a program that works ---------------------------------------------------------------------- */

struct worker {
        struct fake_tenant fake_tenant;
        pthread_t thread;
        size_t depth; /* launches in flight; 1: synchronous */
        uint64_t usec;
        const uint8_t *ring; /* where its positions stand */
        uint32_t put;        /* at the latest look */
        _Atomic uint64_t n_done;
        _Atomic bool is_over;
};

static void *work(void *context)
{
        struct worker *worker = context;
        struct fake_tenant *fake = &worker->fake_tenant;
        uint64_t reached = 0;

        while (!worker->is_over) {
                while (fake->value < reached + worker->depth)
                        launch(fake, worker->usec);
                if (sim_gpu_wait(fake->rig.ctl, fake->rig.client, CHANNEL, reached + 1, 20000000, &reached) == 0)
                        worker->n_done = reached;
        }
        return NULL;
}

struct bench {
        bool is_watched;
        struct rig *rig;
        struct sched *sched;
        struct worker workers[WORKERS_MAX];
        _Atomic size_t n;
        pthread_t shim;
        _Atomic bool is_over;
};

/* ---- a shim that sets slices, and perhaps looks at the rings ------------------------------------ */

enum {
        RING = 1024, /* entries */
        RING_AT = 0x3000,
        RING_GET = 0x88,
        RING_PUT = 0x8c,
};

/* As rig_channel, and with a ring whose positions can be read. */
static void fake_tenant_begin_with_ring(struct worker *worker, const struct rig *rig, uint64_t id)
{
        struct fake_tenant *fake = &worker->fake_tenant;
        unsigned char params[368] = { 0 }, schedule[3] = { 1 };

        *fake = (struct fake_tenant){ .rig = *rig, .id = id };
        rig_begin(&fake->rig, 0);
        assert_int_equal(rig_memory(&fake->rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        rm_put32(params, 20, 12, 1);
        assert_int_equal(rig_alloc(&fake->rig, DEVICE, GROUP, RM_CLASS_GROUP, params), RM_STATUS_OK);
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 16, RING);
        rm_put32(params, sizeof(params), 32, MEMORY);
        rm_put64(params, sizeof(params), 64, RING_AT);
        assert_int_equal(rig_alloc(&fake->rig, GROUP, CHANNEL, 0xc86f, params), RM_STATUS_OK);
        assert_int_equal(rig_control(&fake->rig, GROUP, 0xa06c0101, schedule, sizeof(schedule)), RM_STATUS_OK);
        fake->cid = rm_get32(params, sizeof(params), 132);
        worker->ring = (const uint8_t *)rig_map(&fake->rig, MEMORY, 2 * MIB) + RING_AT;
        fake_tenant_control_block(fake, fake->rig.client);
}

static void worker_read(struct worker *worker)
{
        struct control_device *device = &worker->fake_tenant.control->devices[0];
        uint32_t put = rm_get32(worker->ring, 512, RING_PUT), get = rm_get32(worker->ring, 512, RING_GET);
        nsec now = clock_now();

        if (put != worker->put)
                device->launched_at = now;
        worker->put = put;
        device->n_pending = put != get;
        device->checked_at = now;
        device->can_watch = 1;
}

static void set_slice(struct worker *worker)
{
        struct control_device *device = &worker->fake_tenant.control->devices[0];
        nsec desired = device->slice;
        uint8_t params[8] = { 0 };

        if (device->slice_set == desired)
                return;
        rm_put64(params, sizeof(params), 0, (uint64_t)(desired ? desired / NSEC_PER_USEC : 2048));
        (void)rig_control(&worker->fake_tenant.rig, GROUP, RM_SET_TIMESLICE, params, sizeof(params));
        device->slice_set = desired;
}

static void *keep(void *context)
{
        struct bench *bench = context;

        while (!bench->is_over) {
                for (size_t i = 0; i < bench->n; i++) {
                        set_slice(&bench->workers[i]);
                        if (bench->is_watched)
                                worker_read(&bench->workers[i]);
                }
                (void)usleep(1000);
        }
        return NULL;
}

/* ---- set-up ------------------------------------------------------------------------------------ */

/* It outlives a test that fails, as its threads do. */
static struct bench *bench_start(struct rig *rig, bool is_watched)
{
        struct bench *bench = calloc(1, sizeof(*bench));

        assert_non_null(bench);
        bench->rig = rig;
        bench->is_watched = is_watched;
        rig_order(rig, "real-time=1");
        bench->sched = fake_sched(rig, TURNS_POLICY_AUTO);
        assert_int_equal(pthread_create(&bench->shim, NULL, keep, bench), 0);
        return bench;
}

static struct worker *bench_join(struct bench *bench, permille share, permille cap, size_t depth, uint64_t usec)
{
        struct worker *worker = &bench->workers[bench->n];
        struct sched_tenant tenant = { .id = bench->n + 1, .share = share, .cap = cap };

        worker->depth = depth;
        worker->usec = usec;
        fake_tenant_begin_with_ring(worker, bench->rig, tenant.id);
        bench->n++;
        tenant.control = worker->fake_tenant.control;
        assert_int_equal(sched_add(bench->sched, &tenant), 0);
        if (depth)
                assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
        return worker;
}

static void bench_stop(struct bench *bench)
{
        for (size_t i = 0; i < bench->n; i++)
                bench->workers[i].is_over = true;
        for (size_t i = 0; i < bench->n; i++)
                if (bench->workers[i].depth)
                        (void)pthread_join(bench->workers[i].thread, NULL);
        bench->is_over = true;
        (void)pthread_join(bench->shim, NULL);
        assert_null(sched_stop(bench->sched));
        for (size_t i = 0; i < bench->n; i++) {
                (void)munmap((void *)(uintptr_t)(bench->workers[i].ring - RING_AT), 2 * MIB);
                fake_tenant_end(&bench->workers[i].fake_tenant);
        }
        free(bench);
}

/* ---- what is done in a span --------------------------------------------------------------------- */

struct tally {
        double done[WORKERS_MAX]; /* of a device that does nothing else */
        double used[WORKERS_MAX];
        double sum;
};

static struct tally measure(struct bench *bench)
{
        struct tally tally = { 0 };
        uint64_t before[WORKERS_MAX];
        nsec used[WORKERS_MAX], span, began = clock_now();

        for (size_t i = 0; i < bench->n; i++) {
                before[i] = bench->workers[i].n_done;
                used[i] = row_of(bench->sched, i + 1).used;
        }
        (void)usleep(1200000);
        span = clock_now() - began;
        for (size_t i = 0; i < bench->n; i++) {
                struct worker *worker = &bench->workers[i];

                tally.done[i] = (double)(worker->n_done - before[i]) * (double)worker->usec * 1000 / (double)span;
                tally.used[i] = (double)(row_of(bench->sched, i + 1).used - used[i]) / (double)span;
                tally.sum += tally.done[i];
        }
        return tally;
}

static void tally_print(const char *what, const struct bench *bench, const struct tally *tally)
{
        print_message("# %-26s %s sum %.3f", what, bench->is_watched ? "watched  " : "unwatched", tally->sum);
        for (size_t i = 0; i < bench->n; i++)
                print_message("  %.1f%% (metered %.1f%%)", tally->done[i] / tally->sum * 100, tally->used[i] * 100);
        print_message("\n");
}

/* ---- how quiet the machine is ------------------------------------------------------------------- */

/* Of a thread that only sleeps: by how much of the time it was kept from the processor. A synchronous tenant that is
 * kept from it as much wants nothing meanwhile, and its time is lent, as it should be: this says nothing of shares. */
struct sleeper {
        pthread_t thread;
        _Atomic nsec late;
        _Atomic bool is_over;
};

static void *sleep_on(void *context)
{
        const nsec nap = NSEC_PER_MSEC, usual = NSEC_PER_MSEC / 6; /* by which every sleep is longer */
        struct sleeper *sleeper = context;

        while (!sleeper->is_over) {
                nsec began = clock_now(), late;

                (void)usleep((useconds_t)(nap / NSEC_PER_USEC));
                late = clock_now() - began - nap - usual;
                if (late > 0)
                        sleeper->late += late;
        }
        return NULL;
}

/* A machine that is busy with something else does no work here, whoever shares how. So a promise is kept if it is seen
 * kept within some measurements; one that is not kept counts only where the machine was quiet. */
typedef bool promise(const struct tally *tally);

enum verdict { KEPT, BROKEN, NEVER_QUIET };

static enum verdict judge(struct bench *bench, const char *what, promise *is_kept)
{
        enum {
                MEASUREMENTS = 8,
        };
        static int n_disturbed_left = 40; /* of all tests: together they end within the program's time limit */
        struct sleeper sleeper = { 0 };
        int n_left = MEASUREMENTS;
        bool is_seen = false;

        assert_int_equal(pthread_create(&sleeper.thread, NULL, sleep_on, &sleeper), 0);
        (void)usleep(500000);
        while (!is_seen && n_left > 0 && n_disturbed_left > 0) {
                nsec before = sleeper.late, began = clock_now();
                struct tally tally = measure(bench);
                double late = (double)(sleeper.late - before) / (double)(clock_now() - began);

                tally_print(what, bench, &tally);
                is_seen = is_kept(&tally);
                if (is_seen)
                        break;
                print_message("#   not kept; who slept was kept from the processor for %.1f%% of the time\n",
                              late * 100);
                if (late > 0.015)
                        n_disturbed_left--;
                else
                        n_left--;
        }
        sleeper.is_over = true;
        (void)pthread_join(sleeper.thread, NULL);
        return is_seen ? KEPT : n_left == 0 ? BROKEN : NEVER_QUIET;
}

static void expect(struct bench *bench, const char *what, promise *is_kept)
{
        switch (judge(bench, what, is_kept)) {
        case KEPT:
                bench_stop(bench);
                return;
        case BROKEN:
                fail_msg("%s: not kept on a quiet machine", what);
                return;
        case NEVER_QUIET:
                bench_stop(bench);
                print_message("# %s: this machine was never quiet enough to judge it\n", what);
                skip();
        }
}

static bool is_near(double is, double wanted, double tolerance)
{
        return is >= wanted - tolerance && is <= wanted + tolerance;
}

/* ---- tests ------------------------------------------------------------------------------------ */

static bool is_70_to_30(const struct tally *tally)
{
        return is_near(tally->done[0] / tally->sum, 0.70, 0.02) && tally->sum > 0.95;
}

static void deep_queues_get_their_shares(struct rig *rig, bool is_watched)
{
        struct bench *bench = bench_start(rig, is_watched);

        (void)bench_join(bench, 700, TURNS_WHOLE, DEEP, KERNEL);
        (void)bench_join(bench, 300, TURNS_WHOLE, DEEP, KERNEL);
        expect(bench, "deep 70:30", is_70_to_30);
}

/* Its round trips on a busy machine are its own loss: its time is what it was promised. */
static bool is_half_used(const struct tally *tally)
{
        return is_near(tally->used[0], 0.5, 0.03) && tally->done[1] > 0.46;
}

static void a_synchronous_tenant_gets_its_share_beside_a_deep_one(struct rig *rig, bool is_watched)
{
        struct bench *bench = bench_start(rig, is_watched);

        (void)bench_join(bench, 500, TURNS_WHOLE, 1, KERNEL);
        (void)bench_join(bench, 500, TURNS_WHOLE, DEEP, KERNEL);
        expect(bench, "synchronous, deep, 50:50", is_half_used);
}

static bool is_all_the_first(const struct tally *tally)
{
        return tally->done[0] > 0.95;
}

static void what_an_idle_tenant_does_not_want_is_lent(struct rig *rig, bool is_watched)
{
        struct bench *bench = bench_start(rig, is_watched);

        (void)bench_join(bench, 500, TURNS_WHOLE, DEEP, KERNEL);
        (void)bench_join(bench, 500, TURNS_WHOLE, 0, KERNEL);
        expect(bench, "deep, idle, 50:50", is_all_the_first);
}

static bool is_capped(const struct tally *tally)
{
        return tally->done[0] > 0.27 && tally->used[0] < 0.31;
}

static void a_cap_holds_for_who_is_alone(struct rig *rig, bool is_watched)
{
        struct bench *bench = bench_start(rig, is_watched);

        (void)bench_join(bench, 500, 300, DEEP, KERNEL);
        expect(bench, "cap 30 %, alone", is_capped);
}

static bool has_second_its_half(const struct tally *tally)
{
        return tally->done[1] > 0.45;
}

static void a_kernel_without_end_takes_nothing_from_others(struct rig *rig, bool is_watched)
{
        struct bench *bench = bench_start(rig, is_watched);

        (void)bench_join(bench, 500, TURNS_WHOLE, 1, 100000000);
        (void)bench_join(bench, 500, TURNS_WHOLE, DEEP, KERNEL);
        expect(bench, "endless, deep, 50:50", has_second_its_half);
}

static bool are_quarters(const struct tally *tally)
{
        for (size_t i = 0; i < 4; i++)
                if (!is_near(tally->done[i] / tally->sum, 0.25, 0.02))
                        return false;
        return true;
}

static void four_get_a_quarter_each(struct rig *rig, bool is_watched)
{
        struct bench *bench = bench_start(rig, is_watched);

        for (size_t i = 0; i < 4; i++)
                (void)bench_join(bench, 250, TURNS_WHOLE, DEEP, KERNEL);
        expect(bench, "deep 4 x 25", are_quarters);
}

/* Each as it is when the shim sees launches, and when it cannot. */
#define TIMED_TEST(name)                                                                                               \
        static void name##_watched(void **state)                                                                       \
        {                                                                                                              \
                name(*state, true);                                                                                    \
        }                                                                                                              \
        static void name##_unwatched(void **state)                                                                     \
        {                                                                                                              \
                name(*state, false);                                                                                   \
        }
TIMED_TEST(deep_queues_get_their_shares)
TIMED_TEST(a_synchronous_tenant_gets_its_share_beside_a_deep_one)
TIMED_TEST(what_an_idle_tenant_does_not_want_is_lent)
TIMED_TEST(a_cap_holds_for_who_is_alone)
TIMED_TEST(a_kernel_without_end_takes_nothing_from_others)
TIMED_TEST(four_get_a_quarter_each)
#undef TIMED_TEST

int main(void)
{
#define TIMED_TEST(name) RIG_TEST(name##_watched), RIG_TEST(name##_unwatched)
        const struct CMUnitTest tests[] = {
                TIMED_TEST(deep_queues_get_their_shares),
                TIMED_TEST(a_synchronous_tenant_gets_its_share_beside_a_deep_one),
                TIMED_TEST(what_an_idle_tenant_does_not_want_is_lent),
                TIMED_TEST(a_cap_holds_for_who_is_alone),
                TIMED_TEST(a_kernel_without_end_takes_nothing_from_others),
                TIMED_TEST(four_get_a_quarter_each),
        };

        /* Before other programs, if we may: what is judged is the turns, not who gets this machine's processors. */
        (void)setpriority(PRIO_PROCESS, 0, -15);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
