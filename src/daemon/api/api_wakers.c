/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/wakers {"tenants": [...]}: the caller resumes them when there is work. Else nobody is put to sleep. */
#include "daemon/api/api.h"

#include "daemon/state/shims.h"

enum {
        NAMES_MOST = 1024, /* of a call: each is looked for among all tenants, while nobody else is served */
};

/* Tenants that are gone, or another user's, are left out: a router lists what it had a moment ago. */
static unsigned int note_wakers(struct daemon *daemon, const struct api_request *request, const json_t *names)
{
        unsigned int n = 0;

        for (size_t i = 0; i < json_array_size(names); i++) {
                const char *name = json_string_value(json_array_get(names, i));
                struct tenant *tenant = name ? tenants_find(&daemon->tenants, name) : NULL;

                if (!tenant || !api_sees(request, tenant))
                        continue;
                sleep_waker(tenant);
                n++;
        }
        return n;
}

void api_wakers(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        json_t *body = json_loadb(request->body ? request->body : "", request->body_size, JSON_REJECT_DUPLICATES, NULL);
        const json_t *names = json_object_get(body, "tenants");

        (void)name;
        if (!json_is_array(names) || json_object_size(body) != 1)
                api_error(ret, API_BAD_REQUEST, "the body must be {\"tenants\": [NAME...]}");
        else if (json_array_size(names) > NAMES_MOST)
                api_error(ret, API_TOO_LARGE, "more than %d tenants in a call", NAMES_MOST);
        else
                api_json(ret, API_OK,
                         json_pack("{s:i, s:i}", "tenants", (int)note_wakers(daemon, request, names), "seconds",
                                   (int)SLEEP_WAKER_SEC));
        json_decref(body);
}
