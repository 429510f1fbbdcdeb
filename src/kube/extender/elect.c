/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/elect.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
        PATH = 512,
};

bool elect_is_holder(const struct elect *elect)
{
        return !elect->lease || clock_now() < atomic_load(&elect->held_until);
}

enum elect_step elect_step(struct elect *elect, const json_t *lease, nsec now)
{
        const json_t *spec = json_object_get(lease, "spec");
        const char *holder = json_string_value(json_object_get(spec, "holderIdentity")),
                   *version = json_string_value(json_object_get(json_object_get(lease, "metadata"), "resourceVersion"));
        char seen[sizeof(elect->seen)];

        if (!holder || !*holder)
                return ELECT_TAKE;
        (void)snprintf(seen, sizeof(seen), "%.150s %.60s", holder, version ? version : "");
        if (strcmp(seen, elect->seen) != 0) {
                (void)snprintf(elect->seen, sizeof(elect->seen), "%s", seen);
                elect->seen_at = now;
        }
        if (!strcmp(holder, elect->self))
                return ELECT_RENEW_IT;
        return now - elect->seen_at > ELECT_LEASE ? ELECT_TAKE : ELECT_WAIT;
}

static void format_time(char *to, size_t size)
{
        nsec now = clock_realtime();
        time_t seconds = now / NSEC_PER_SEC;
        struct tm tm;
        size_t n;

        (void)gmtime_r(&seconds, &tm);
        n = strftime(to, size, "%Y-%m-%dT%H:%M:%S", &tm);
        (void)snprintf(to + n, size - n, ".%06dZ", (int)(now % NSEC_PER_SEC / NSEC_PER_USEC));
}

/* The lease to write; it fails unless the lease still has the version of `old`. */
static json_t *lease_json(const json_t *old, const char *name, const char *holder)
{
        char now[48];
        json_t *lease = json_pack("{s:s,s:s,s:{s:s},s:{s:s,s:i}}", "apiVersion", "coordination.k8s.io/v1", "kind",
                                  "Lease", "metadata", "name", name, "spec", "holderIdentity", holder,
                                  "leaseDurationSeconds", (int)(ELECT_LEASE / NSEC_PER_SEC));
        json_t *version = json_object_get(json_object_get(old, "metadata"), "resourceVersion");

        format_time(now, sizeof(now));
        if (version)
                (void)json_object_set(json_object_get(lease, "metadata"), "resourceVersion", version);
        (void)json_object_set_new(json_object_get(lease, "spec"), "renewTime", json_string(now));
        return lease;
}

/* true: written. holder: "" gives it up. */
static bool lease_write(struct elect *elect, struct api *api, const json_t *old, const char *holder)
{
        char path[PATH];
        const char *slash = strchr(elect->lease, '/');
        json_t *lease = lease_json(old, slash + 1, holder), *answer = NULL;
        long status = 0;
        int r;

        (void)snprintf(path, sizeof(path), "/apis/coordination.k8s.io/v1/namespaces/%.*s/leases%s%s",
                       (int)(slash - elect->lease), elect->lease, old ? "/" : "", old ? slash + 1 : "");
        r = api_call(api, old ? "PUT" : "POST", path, NULL, lease, &status, &answer, NULL);
        json_decref(lease);
        json_decref(answer);
        return r == 0 && (status == 200 || status == 201);
}

static json_t *lease_read(struct elect *elect, struct api *api, long *ret_status)
{
        char path[PATH];
        const char *slash = strchr(elect->lease, '/');
        json_t *answer = NULL;

        (void)snprintf(path, sizeof(path), "/apis/coordination.k8s.io/v1/namespaces/%.*s/leases/%s",
                       (int)(slash - elect->lease), elect->lease, slash + 1);
        *ret_status = 0;
        (void)api_call(api, "GET", path, NULL, NULL, ret_status, &answer, NULL);
        return answer;
}

/* Whether the API server answered. */
static bool elect_round(struct elect *elect, struct api *api)
{
        nsec now = clock_now();
        long status;
        json_t *lease = lease_read(elect, api, &status);
        bool was = elect_is_holder(elect);

        if (status == 404 || (status == 200 && elect_step(elect, lease, now) != ELECT_WAIT)) {
                if (lease_write(elect, api, status == 404 ? NULL : lease, elect->self)) {
                        if (!was) {
                                atomic_fetch_add(&elect->n_won, 1);
                                elect->won(elect->context);
                        }
                        atomic_store(&elect->held_until, now + ELECT_HOLD);
                }
        } else if (status == 200)
                atomic_store(&elect->held_until, 0);
        json_decref(lease);
        return status && status < 500;
}

static bool is_ending(const struct elect *elect)
{
        return elect->api.is_ending && atomic_load(elect->api.is_ending);
}

static void *elect_run(void *context)
{
        struct elect *elect = context;
        _cleanup_(api_freep) struct api *api = NULL;
        const struct timespec while_ = { 0, 50 * NSEC_PER_MSEC };

        if (api_new(&elect->api, &api) < 0)
                return NULL;
        while (!is_ending(elect)) {
                nsec began = clock_now(), next = began + (elect_round(elect, api) ? ELECT_RENEW : ELECT_RETRY);

                while (clock_now() < next && !is_ending(elect))
                        (void)nanosleep(&while_, NULL);
        }
        return NULL;
}

/* So that the next holder need not wait for ELECT_LEASE. */
static void give_up(struct elect *elect)
{
        struct api_settings last = elect->api;
        _cleanup_(api_freep) struct api *api = NULL;
        json_t *lease;
        long status;

        last.is_ending = NULL;
        if (!elect_is_holder(elect) || api_new(&last, &api) < 0)
                return;
        atomic_store(&elect->held_until, 0);
        lease = lease_read(elect, api, &status);
        if (status == 200 && elect_step(elect, lease, clock_now()) == ELECT_RENEW_IT)
                (void)lease_write(elect, api, lease, "");
        json_decref(lease);
}

int elect_start(struct elect *elect)
{
        int r;

        if (!elect->lease)
                return 0;
        if (!strchr(elect->lease, '/') || strlen(elect->lease) > PATH / 4)
                return -EINVAL;
        r = pthread_create(&elect->thread, NULL, elect_run, elect);
        elect->is_started = r == 0;
        return -r;
}

void elect_end(struct elect *elect)
{
        if (!elect->is_started)
                return;
        (void)pthread_join(elect->thread, NULL);
        elect->is_started = false;
        give_up(elect);
}
