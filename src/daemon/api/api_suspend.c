/* SPDX-License-Identifier: Apache-2.0 */
/* PATCH {"suspended": true} or false: the answer comes when the tenant is there, or has failed to get there. */
#include "daemon/api/api.h"

#include "base/err.h"
#include "daemon/state/shims.h"

#include <string.h>

enum {
        WAIT_SEC = 2 * SUSPEND_SEC + 10, /* for a helper, and one that reverts what the first has done */
};

/* Of what is asked for there may be no more: a lease is changed at once, a tenant is moved in minutes. */
static bool wants(const struct api_request *request, struct api_response *ret, bool *ret_suspends)
{
        json_t *body = json_loadb(request->body ? request->body : "", request->body_size, JSON_REJECT_DUPLICATES, NULL);
        const json_t *value = json_object_get(body, "suspended");
        bool is_good = json_is_boolean(value) && json_object_size(body) == 1, is_ours = value;

        *ret_suspends = json_is_true(value);
        json_decref(body);
        if (is_ours && !is_good)
                api_error(ret, API_BAD_REQUEST, "suspended: true or false, and nothing else in the same change");
        return is_ours;
}

static uint64_t times_there(const struct tenant *tenant, bool suspends)
{
        return suspends ? tenant->suspension.n_out : tenant->suspension.n_in;
}

/* Who came there and has gone again was there: a busy program wakes before this is asked. */
bool api_suspend_is_over(struct daemon *daemon, struct api_response *response)
{
        struct tenant *tenant = tenants_find_id(&daemon->tenants, response->tenant);
        bool is_there, has_been;

        if (!tenant) {
                api_error(response, API_NOT_FOUND, "the tenant has ended");
                return true;
        }
        is_there = (tenant->suspension.state == SUSPENSION_SUSPENDED) == response->suspends;
        has_been = times_there(tenant, response->suspends) != response->serial;
        if (!has_been &&
            (!suspension_is_settled(tenant->suspension.state) || (!response->suspends && swap_is_asked(tenant))) &&
            clock_now() < response->deadline)
                return false;
        if (has_been || (is_there && suspension_is_settled(tenant->suspension.state)))
                api_json(response, API_OK, api_tenant_json(daemon, tenant));
        else
                api_error(response, API_CONFLICT, "'%s' is %s: %s%s", tenant->lease.tenant, tenant_state_name(tenant),
                          swap_waits_for(tenant) ? "it waits for " : "",
                          swap_waits_for(tenant) ? swap_waits_for(tenant) : tenant->suspension.text);
        return true;
}

bool api_suspend(struct daemon *daemon, const struct api_request *request, struct tenant *tenant,
                 struct api_response *ret)
{
        struct err err = { 0 };
        bool suspends = false;
        uint64_t before;

        if (!wants(request, ret, &suspends))
                return false;
        if (ret->status)
                return true;
        before = times_there(tenant, suspends);
        if (suspend_ask(daemon, tenant, suspends, request->uid, &err) < 0) {
                api_error(ret, API_CONFLICT, "%s", err.text);
                return true;
        }
        *ret = (struct api_response){ .wait = API_WAIT_MOVED,
                                      .tenant = tenant->lease.id,
                                      .serial = before,
                                      .suspends = suspends,
                                      .deadline = clock_now() + WAIT_SEC * NSEC_PER_SEC };
        if (api_suspend_is_over(daemon, ret))
                ret->wait = API_WAIT_NOT;
        return true;
}
