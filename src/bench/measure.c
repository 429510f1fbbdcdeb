/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates count the kernels that ended in one span, the same for all processes, so the sum of two tenants is exact to a
 * kernel or two. "Alone" is measured natively, once for all rows that need it, before anything else.
 */
#include "bench/measure.h"

#include "ask/ask.h"
#include "ask/field.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define DEEP "deep --kernel 770"
#define SYNC "sync --kernel 100"
#define HALF "sync --kernel 100 --part 50"
#define REQUESTS "periodic --kernel 1000 --period 5000"
#define BATCH "deep --kernel 5000"
#define LAUNCH "sync --kernel 1"
#define ALLOC "alloc --size 4"
#define HOLDER "/v1/tenants/bench-1" /* the first of a team */
#define ROOM_MOST (60 * NSEC_PER_SEC)
#define MOVE_MOST (300 * NSEC_PER_SEC)
#define TENANT "-q --gpu 0 --mem 2G"

enum {
        DRIVER_SLICE_US = 2048, /* measured, H200, 580.159.04: docs/time.md */
        SUSPEND_MIB = 4096,
};

/* Runs the loads together. run_a, run_b: options of `sublet run`, NULL: natively; b NULL: only one load. */
static int together(struct measure *m, const char *run_a, const char *a, const char *run_b, const char *b,
                    struct err *err)
{
        int r;

        team_begin(m->team);
        r = team_add(m->team, run_a, a, err);
        if (r == 0 && b)
                r = team_add(m->team, run_b, b, err);
        return r < 0 ? r : team_gather(m->team, err);
}

/* One load alone, natively; kept in *cache. */
static int alone(struct measure *m, double *cache, const char *load, const char *what, struct err *err)
{
        int r;

        if (*cache > 0)
                return 0;
        if ((r = team_daemon(m->team, "", err)) < 0 || (r = together(m, NULL, load, NULL, NULL, err)) < 0)
                return r;
        *cache = team_figure(m->team, 0, what);
        return *cache > 0 ? 0 : err_say(err, -EIO, "a load did nothing in its time");
}

static double sum(const struct measure *m)
{
        return team_figure(m->team, 0, "per_second") + team_figure(m->team, 1, "per_second");
}

static double not_negative(double value)
{
        return value > 0 ? value : 0;
}

/* ---- time ---------------------------------------------------------------------------------------- */

static int driver_sum(struct measure *m, double *ret, struct err *err)
{
        int r = alone(m, &m->deep, DEEP, "per_second", err);

        if (r < 0 || (r = team_daemon(m->team, "", err)) < 0 || (r = together(m, NULL, DEEP, NULL, DEEP, err)) < 0)
                return r;
        *ret = m->driver_sum = sum(m) / m->deep;
        return 0;
}

static int switch_cost(struct measure *m, double *ret, struct err *err)
{
        double found;
        int r = m->driver_sum > 0 ? 0 : driver_sum(m, &found, err);

        if (r == 0)
                *ret = DRIVER_SLICE_US * not_negative(1 / m->driver_sum - 1);
        return r;
}

static int loss(struct measure *m, const char *policy, double *ret, struct err *err)
{
        int r = alone(m, &m->deep, DEEP, "per_second", err);

        if (r < 0 || (r = team_daemon(m->team, policy, err)) < 0 ||
            (r = together(m, TENANT " --share 50", DEEP, TENANT " --share 50", DEEP, err)) < 0)
                return r;
        *ret = not_negative(1 - sum(m) / m->deep);
        return 0;
}

static int turn_loss(struct measure *m, double *ret, struct err *err)
{
        return loss(m, "auto", ret, err);
}

static int slice_loss(struct measure *m, double *ret, struct err *err)
{
        return loss(m, "slices", ret, err);
}

/* The p99 wait of requests beside batch work. requests, batch: options of the two tenants, or NULL: natively. */
static int beside(struct measure *m, const char *requests, const char *batch, double *ret_ms, struct err *err)
{
        int r = alone(m, &m->latency, REQUESTS, "p99_us", err);

        if (r == 0)
                r = team_daemon(m->team, requests ? "auto" : "", err);
        if (r < 0 || (r = together(m, requests, REQUESTS, batch, BATCH, err)) < 0)
                return r;
        *ret_ms = not_negative(team_figure(m->team, 0, "p99_us") - m->latency) / 1000;
        return 0;
}

static int driver_wait(struct measure *m, double *ret, struct err *err)
{
        return beside(m, NULL, NULL, ret, err);
}

static int latency_wait(struct measure *m, double *ret, struct err *err)
{
        return beside(m, TENANT " --share 40 --class latency", TENANT " --share 60 --class batch", ret, err);
}

static int window(struct measure *m, double *ret, struct err *err)
{
        return beside(m, TENANT " --share 40", TENANT " --share 60", ret, err);
}

/* ---- space --------------------------------------------------------------------------------------- */

static int gain(struct measure *m, double *cache, const char *load, double *ret, struct err *err)
{
        int r = alone(m, cache, load, "per_second", err);

        if (r < 0 || (r = team_daemon(m->team, "auto", err)) < 0 ||
            (r = together(m, TENANT " --mode spatial", load, TENANT " --mode spatial", load, err)) < 0)
                return r;
        *ret = sum(m) / *cache;
        return 0;
}

static int spatial_gain(struct measure *m, double *ret, struct err *err)
{
        return gain(m, &m->sync, SYNC, ret, err);
}

static int spatial_half(struct measure *m, double *ret, struct err *err)
{
        return gain(m, &m->half, HALF, ret, err);
}

/* A kernel has a block for each multiprocessor that its process sees, so the work is kernels times multiprocessors. */
static int sms_half(struct measure *m, double *ret, struct err *err)
{
        double all;
        int r;

        if ((r = team_daemon(m->team, "", err)) < 0 || (r = together(m, NULL, DEEP, NULL, NULL, err)) < 0)
                return r;
        all = team_figure(m->team, 0, "per_second") * team_figure(m->team, 0, "sms");
        r = together(m, TENANT " --no-daemon --preload --sms 50%", DEEP, NULL, NULL, err);
        if (r < 0)
                return r;
        if (all <= 0)
                return err_say(err, -EIO, "a load did nothing in its time");
        *ret = 2 * team_figure(m->team, 0, "per_second") * team_figure(m->team, 0, "sms") / all;
        return 0;
}

static int mig_efficiency(struct measure *m, double *ret, struct err *err)
{
        (void)m;
        (void)ret;
        return err_say(err, -ENOTSUP, "a device has either its whole or its instances, and changing that is not ours");
}

/* ---- memory -------------------------------------------------------------------------------------- */

static int holder_read(struct ask *ask, const char *field, uint64_t *ret, struct err *err)
{
        json_t *tenant = NULL;
        int r = ask_get(ask, HOLDER, &tenant, err);

        if (r == 0)
                *ret = field_number(tenant, field);
        json_decref(tenant);
        return r;
}

/* Host memory for it, which the daemon has made in the background. */
static int wait_for_room(struct ask *ask, struct err *err)
{
        nsec limit = clock_now() + ROOM_MOST;
        uint64_t ready = 0;
        int r;

        while ((r = holder_read(ask, "ready_bytes", &ready, err)) == 0 && ready < SUSPEND_MIB * MIB)
                if (clock_now() > limit)
                        return err_say(err, -ETIMEDOUT, "host memory for it was not ready in time");
                else
                        (void)usleep(50000);
        return r;
}

static int holder_move_once(struct ask *ask, bool suspends, nsec *slowest, struct err *err)
{
        _cleanup_(json_decrefp) json_t *body = json_pack("{s:b}", "suspended", (int)suspends), *after = NULL;
        nsec since = clock_now(), took;
        int r = ask_patch_within(ask, HOLDER, body, MOVE_MOST, &after, err);

        took = clock_now() - since;
        if (took > *slowest)
                *slowest = took;
        return r;
}

/* Out and back. *ret: GB/s of the slower way. */
static int holder_move(struct ask *ask, double *ret, struct err *err)
{
        uint64_t moved = 0;
        nsec slowest = 0;
        int r = wait_for_room(ask, err);

        if (r < 0 || (r = holder_move_once(ask, true, &slowest, err)) < 0 ||
            (r = holder_read(ask, "swapped_bytes", &moved, err)) < 0 ||
            (r = holder_move_once(ask, false, &slowest, err)) < 0)
                return r;
        *ret = (double)moved / 1e9 / ((double)slowest / NSEC_PER_SEC);
        return moved ? 0 : err_say(err, -EIO, "nothing of it has left the device");
}

/* A tenant holds memory, and its daemon suspends and resumes it: twice, since the host's memory is there with the
 * first time for sure. */
static int suspend_rate(struct measure *m, double *ret, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        char words[64], dir[TEAM_PATH];
        int r;

        if ((r = team_daemon(m->team, "auto --suspend-by copies --swap 8G", err)) < 0)
                return r;
        team_begin(m->team);
        (void)snprintf(words, sizeof(words), "grab --size %d", SUSPEND_MIB);
        (void)snprintf(dir, sizeof(dir), "%s/node", m->team->dir);
        if ((r = team_add(m->team, "-q --gpu 0 --mem 6G --sleep-after 1h", words, err)) < 0 ||
            (r = team_ready(m->team, err)) < 0 || (r = ask_new(dir, &ask, err)) < 0 ||
            (r = holder_move(ask, ret, err)) < 0)
                return r;
        return holder_move(ask, ret, err);
}

/* The memory that a tenant without a limit cannot reach; its own context counts as reached. */
static int reserve(struct measure *m, double *ret, struct err *err)
{
        char path[TEAM_PATH], words[256];
        json_t *report, *device;
        double peak;
        int r;

        if ((r = team_daemon(m->team, "", err)) < 0)
                return r;
        (void)snprintf(path, sizeof(path), "%s/report", m->team->dir);
        (void)snprintf(words, sizeof(words), "--no-daemon --gpu 0 --mem 100%% --json --report %s", path);
        r = together(m, words, "grab --size 1000000", NULL, NULL, err);
        if (r < 0)
                return r;
        report = json_load_file(path, 0, NULL);
        device = json_array_get(json_object_get(report, "devices"), 0);
        peak = json_number_value(json_object_get(device, "peak_bytes"));
        m->total_mib = json_number_value(json_object_get(device, "total_bytes")) / (double)MIB;
        json_decref(report);
        if (peak <= 0 || m->total_mib <= 0)
                return err_say(err, -EIO, "the summary of the tenant does not say what it had");
        *ret = not_negative(m->total_mib - peak / (double)MIB);
        return 0;
}

/* ---- the price of being a tenant --------------------------------------------------------------------- */

static int under(struct measure *m, const char *run, const char *load, double *ret_us, struct err *err)
{
        int r;

        if ((r = team_daemon(m->team, "", err)) < 0 || (r = together(m, run, load, NULL, NULL, err)) < 0)
                return r;
        *ret_us = team_figure(m->team, 0, "p50_us");
        return 0;
}

static int launch_under(struct measure *m, const char *run, double *ret, struct err *err)
{
        int r = alone(m, &m->launch, LAUNCH, "p50_us", err);

        if (r == 0 && (r = under(m, run, LAUNCH, ret, err)) == 0)
                *ret /= m->launch;
        return r;
}

static int alloc_under(struct measure *m, const char *run, double *ret, struct err *err)
{
        int r = alone(m, &m->alloc, ALLOC, "p50_us", err);

        if (r == 0 && (r = under(m, run, ALLOC, ret, err)) == 0)
                *ret = not_negative(*ret - m->alloc);
        return r;
}

static int gate_launch(struct measure *m, double *ret, struct err *err)
{
        return launch_under(m, TENANT " --no-daemon", ret, err);
}

static int gate_alloc(struct measure *m, double *ret, struct err *err)
{
        return alloc_under(m, TENANT " --no-daemon", ret, err);
}

static int preload_launch(struct measure *m, double *ret, struct err *err)
{
        return launch_under(m, TENANT " --no-daemon --preload", ret, err);
}

static int preload_alloc(struct measure *m, double *ret, struct err *err)
{
        return alloc_under(m, TENANT " --no-daemon --preload", ret, err);
}

int measure_row(struct measure *measure, enum measure_row row, double *ret, struct err *err)
{
        static int (*const rows[MEASURE_N])(struct measure * measure, double *ret, struct err *err) = {
#define ROW(name, unit, meaning) [MEASURE_##name] = name,
#include "bench/rows.def"
#undef ROW
        };

        return rows[row](measure, ret, err);
}
