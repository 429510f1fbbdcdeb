/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes: of a tenant's lease, or its end.
 *
 * A change is prepared on a copy of the lease, which must fit beside the others; then it takes effect everywhere or
 * nowhere. Share, cap and class go to the scheduler at once; a quota goes to the shim, and the answer waits for the
 * shim's.
 */
#include "daemon/api/api.h"

#include "base/err.h"
#include "base/text.h"
#include "base/when.h"
#include "gate/gate.h"
#include "daemon/state/goals.h"
#include "daemon/state/mig.h"
#include "daemon/store/store.h"
#include "daemon/state/events.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        SHIM_ANSWER_SEC = 2, /* usually a millisecond */
};

static int parse_size(const struct daemon *daemon, const json_t *value, unsigned int device, bytes *ret,
                      struct err *err)
{
        const char *text = json_is_string(value) ? json_string_value(value) : "";
        char wrong[BYTES_WRONG];
        bytes size;

        if (json_is_integer(value) && json_integer_value(value) > 0)
                size = (bytes)json_integer_value(value);
        else if (bytes_parse(text, daemon->tenants.totals[device], &size) < 0)
                return err_say(err, -EINVAL, "mem: %s",
                               bytes_wrong(text, "a size such as \"8G\" or \"25%\", or a number of bytes", wrong));
        *ret = size;
        return 0;
}

static int change_one(const struct daemon *daemon, const char *index, const json_t *value, struct message_lease *lease,
                      struct err *err)
{
        uint64_t device;

        if (number_parse(index, &device) < 0 || device >= daemon->n_devices || !lease->devices[device].is_granted)
                return err_say(err, -EINVAL, "mem: the tenant does not have a device '%.20s'", index);
        return parse_size(daemon, value, (unsigned int)device, &lease->devices[device].quota, err);
}

/* One size for all its devices, or an object of sizes by device. */
static int change_mem(const struct daemon *daemon, const json_t *value, struct message_lease *lease, struct err *err)
{
        const char *index;
        json_t *size;
        int r = 0;

        if (!json_is_object(value)) {
                for (unsigned int i = 0; i < daemon->n_devices && r == 0; i++)
                        if (lease->devices[i].is_granted)
                                r = parse_size(daemon, value, i, &lease->devices[i].quota, err);
                return r;
        }
        json_object_foreach ((json_t *)value, index, size)
                if (r == 0)
                        r = change_one(daemon, index, size, lease, err);
        return r;
}

static int change_permille(const char *key, const json_t *value, int64_t least, permille *ret, struct err *err)
{
        int64_t number = json_is_null(value) ? least : json_integer_value(value);

        if ((!json_is_integer(value) && !json_is_null(value)) || number < least || number > TURNS_WHOLE)
                return err_say(err, -EINVAL, "%s: a number from %lld to 1000", key, (long long)least);
        *ret = (permille)number;
        return 0;
}

static int change_class(const json_t *value, enum turns_class *ret, struct err *err)
{
        if (!json_is_string(value) || turns_class_parse(json_string_value(value), ret) < 0)
                return err_say(err, -EINVAL, "class: latency, normal or batch");
        return 0;
}

/* The goal of a step's p99; 0, null: none. */
static int change_goal(const json_t *value, nsec *ret, struct err *err)
{
        int64_t us = json_integer_value(value);

        if ((!json_is_integer(value) && !json_is_null(value)) || us < 0 || us > TURNS_GOAL_MOST / NSEC_PER_USEC)
                return err_say(err, -EINVAL, "latency_us: microseconds, at most 10 s, or null for no goal");
        *ret = us * NSEC_PER_USEC;
        return 0;
}

/* Idle for so long, it is suspended; 0, null: never. */
static int change_sleep(const json_t *value, nsec *ret, struct err *err)
{
        int64_t us = json_integer_value(value);

        if ((!json_is_integer(value) && !json_is_null(value)) || (us && us < MESSAGE_SLEEP_LEAST / NSEC_PER_USEC) ||
            us > MESSAGE_SLEEP_MOST / NSEC_PER_USEC)
                return err_say(err, -EINVAL, "sleep_after_us: microseconds, 1 s to 7 days, or null for never");
        *ret = us * NSEC_PER_USEC;
        return 0;
}

/* Bytes; 0, null: as much as it has of the devices. */
static int change_host_swap(const json_t *value, bytes *ret, struct err *err)
{
        if ((!json_is_integer(value) && !json_is_null(value)) || json_integer_value(value) < 0)
                return err_say(err, -EINVAL, "host_swap_bytes: bytes, or null for as much as its quota");
        *ret = (bytes)json_integer_value(value);
        return 0;
}

static int change_key(const struct daemon *daemon, const char *key, const json_t *value, struct message_lease *lease,
                      struct err *err)
{
        if (!strcmp(key, "mem"))
                return change_mem(daemon, value, lease, err);
        if (!strcmp(key, "sleep_after_us"))
                return change_sleep(value, &lease->sleep_after, err);
        if (!strcmp(key, "host_swap_bytes"))
                return change_host_swap(value, &lease->host_swap, err);
        if (message_lease_is_spatial(lease))
                return err_say(err, -EINVAL,
                               "%.*s of a tenant of --mode spatial is set when it starts: its CUDA context has it",
                               (int)strcspn(key, "_"), key);
        if (message_lease_is_mig(lease))
                return err_say(err, -EINVAL, "%.20s: a tenant of --mode mig has multiprocessors of its own", key);
        if (!strcmp(key, "share_permille")) /* 0, null: an equal part of the rest */
                return change_permille(key, value, 0, &lease->share, err);
        if (!strcmp(key, "cap_permille") && lease->group[0])
                return err_say(err, -EINVAL,
                               "cap of a tenant of --group is one of multiprocessors, set when it starts: its CUDA "
                               "context has it");
        if (!strcmp(key, "cap_permille") && json_is_null(value)) {
                lease->cap = TURNS_WHOLE;
                return 0;
        }
        if (!strcmp(key, "cap_permille"))
                return change_permille(key, value, 1, &lease->cap, err);
        if (!strcmp(key, "class"))
                return change_class(value, &lease->class, err);
        if (!strcmp(key, "latency_us"))
                return change_goal(value, &lease->goal, err);
        return err_say(err, -EINVAL,
                       "'%.40s' is none of mem, share_permille, cap_permille, class, latency_us, sleep_after_us and "
                       "host_swap_bytes",
                       key);
}

static int change_lease(const struct daemon *daemon, const struct api_request *request, struct message_lease *lease,
                        struct err *err)
{
        json_t *body = json_loadb(request->body ? request->body : "", request->body_size, JSON_REJECT_DUPLICATES, NULL);
        const char *key;
        json_t *value;
        int r = 0;

        if (!json_is_object(body) || !json_object_size(body))
                r = err_say(err, -EINVAL,
                            "the body must be a JSON object of mem, share_permille, cap_permille, class, "
                            "latency_us, sleep_after_us, host_swap_bytes");
        else
                json_object_foreach (body, key, value)
                        if (r == 0)
                                r = change_key(daemon, key, value, lease, err);
        json_decref(body);
        return r;
}

static void emit_changed(struct daemon *daemon, const struct tenant *tenant, const struct message_lease *was,
                         const struct api_request *request)
{
        const struct message_lease *is = &tenant->lease;
        char text[232] = "", part[80], size[BYTES_TEXT], share[WHEN_TEXT], cap[WHEN_TEXT];

        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (is->devices[i].quota != was->devices[i].quota) {
                        (void)snprintf(part, sizeof(part), "memory of device %u %s, ", i,
                                       bytes_format(is->devices[i].quota, size));
                        (void)strncat(text, part, sizeof(text) - strlen(text) - 1);
                }
        if (is->goal != was->goal) {
                (void)snprintf(part, sizeof(part), "latency %lld us, ", (long long)(is->goal / NSEC_PER_USEC));
                (void)strncat(text, part, sizeof(text) - strlen(text) - 1);
        }
        if (is->sleep_after != was->sleep_after) {
                (void)snprintf(part, sizeof(part), "sleep after %lld s, ", (long long)(is->sleep_after / NSEC_PER_SEC));
                (void)strncat(text, part, sizeof(text) - strlen(text) - 1);
        }
        if (is->host_swap != was->host_swap) {
                (void)snprintf(part, sizeof(part), "host-swap %s, ",
                               is->host_swap ? bytes_format(is->host_swap, size) : "as its quota");
                (void)strncat(text, part, sizeof(text) - strlen(text) - 1);
        }
        event_emit(daemon, EVENT_TENANT_CHANGED, tenant, -1, "%sshare %s, cap %s, class %s, by user %u", text,
                   is->share ? permille_format(is->share, share) : "equal",
                   is->cap < TURNS_WHOLE ? permille_format(is->cap, cap) : "none", turns_class_name(is->class),
                   request->uid);
}

static json_t *notes_json(const struct daemon *daemon, const struct tenant *tenant)
{
        char text[200], holds[BYTES_TEXT], quota[BYTES_TEXT], over[BYTES_TEXT];
        json_t *notes = json_array();

        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                bytes held = tenant_held(tenant, i), size = tenant->lease.devices[i].quota;

                if (!tenant_has(tenant, i) || held <= size)
                        continue;
                (void)snprintf(text, sizeof(text),
                               "holds %s on device %u, above its quota of %s: new memory is refused until it frees %s",
                               bytes_format(held, holds), i, bytes_format(size, quota),
                               bytes_format(held - size, over));
                (void)json_array_append_new(notes, json_string(text));
        }
        if (tenant->state == TENANT_AWAITED)
                (void)json_array_append_new(
                        notes, json_string("its shim is awaited: the change takes effect when it is back"));
        return notes;
}

void api_change_end(struct daemon *daemon, struct api_response *response, struct tenant *tenant)
{
        json_t *body;

        if (response->serial && tenant->set_done == response->serial && tenant->set_text[0]) {
                api_error(response, API_FAILED, "%s", tenant->set_text);
                return;
        }
        body = api_tenant_json(daemon, tenant);
        (void)json_object_set_new(body, "notes", notes_json(daemon, tenant));
        api_json(response, API_OK, body);
}

/* Commits a lease that fits. The shim comes first: if it cannot be reached, nothing has changed. */
static void commit_change(struct daemon *daemon, const struct api_request *request, struct tenant *tenant,
                          const struct message_lease *lease, struct api_response *ret)
{
        bool has_shim = tenant->source.fd >= 0 && tenant->state != TENANT_ASKED;
        struct message_lease was = tenant->lease;

        tenant->lease = *lease;
        if (has_shim && shims_set(tenant) < 0) {
                tenant->lease = was;
                api_error(ret, API_UNAVAILABLE, "the shim of '%s' (process %d) cannot be reached", was.tenant,
                          tenant->shim);
                return;
        }
        daemon_divide(daemon);
        if (daemon->store)
                daemon_store_result(daemon, store_tenant_set(daemon->store, &tenant->lease, tenant->shim));
        emit_changed(daemon, tenant, &was, request);
        ret->tenant = tenant->lease.id;
        if (!has_shim) {
                api_change_end(daemon, ret, tenant);
                return;
        }
        ret->serial = tenant->set_asked;
        ret->wait = API_WAIT_SET;
        ret->deadline = clock_now() + SHIM_ANSWER_SEC * NSEC_PER_SEC;
}

void api_tenant_change(struct daemon *daemon, const struct api_request *request, const char *name,
                       struct api_response *ret)
{
        struct tenant *tenant = api_tenant_of(daemon, request, name, ret);
        struct message_lease lease;
        struct err err = { 0 };

        if (!tenant || api_suspend(daemon, request, tenant, ret))
                return;
        if (tenant->lease.enforcement == ENFORCEMENT_PRELOAD) {
                api_error(ret, API_CONFLICT,
                          "'%s' keeps its quota inside its programs (plane preload), in a descriptor that nobody can "
                          "change: "
                          "end it, and lease again",
                          name);
                return;
        }
        lease = tenant->lease;
        if (change_lease(daemon, request, &lease, &err) < 0 || goals_check(daemon, &lease, &err) < 0 ||
            sleep_check(&lease, &err) < 0 || swap_fit_bound(&lease, &err) < 0)
                api_error(ret, API_BAD_REQUEST, "%s", err.text);
        else if (goals_fit(&daemon->tenants, &lease, tenant, &err) != 0)
                api_error(ret, API_CONFLICT, "%s", err.text);
        else
                commit_change(daemon, request, tenant, &lease, ret);
}

void api_tenant_end(struct daemon *daemon, const struct api_request *request, const char *name,
                    struct api_response *ret)
{
        struct tenant *tenant = api_tenant_of(daemon, request, name, ret);

        if (!tenant)
                return;
        if (preloads_end(tenant) < 0)
                api_error(ret, API_UNAVAILABLE, "the shim of '%s' (process %d) cannot be reached", name, tenant->shim);
        else
                api_json(ret, API_OK, json_pack("{s:s, s:s}", "tenant", name, "state", "ending"));
}
