/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/api.h"

#include "base/cleanup.h"
#include "base/when.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef void handler(struct daemon *daemon, const struct api_request *request, const char *name,
                     struct api_response *ret);

static const struct route {
        const char *method, *path;
        handler *handler;
} routes[] = {
#define API_ROUTE(method, path, handler, meaning) { method, path, api_##handler },
#include "daemon/api/api.def"
#undef API_ROUTE
};

const char *api_argument(const struct api_request *request, const char *name)
{
        for (size_t i = 0; i < request->n_arguments; i++)
                if (!strcmp(request->arguments[i].name, name))
                        return request->arguments[i].value ? request->arguments[i].value : "";
        return NULL;
}

bool api_sees(const struct api_request *request, const struct tenant *tenant)
{
        return request->sees_all || tenant->lease.owner == request->uid;
}

void api_text(struct api_response *ret, const char *type, char *text, size_t size)
{
        api_done(ret);
        *ret = (struct api_response){ .status = text ? API_OK : API_FAILED, .type = type, .body = text, .size = size };
}

void api_json(struct api_response *ret, int status, json_t *body)
{
        char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

        json_decref(body);
        api_text(ret, "application/json", text, text ? strlen(text) : 0);
        if (text)
                ret->status = status;
}

void api_error(struct api_response *ret, int status, const char *format, ...)
{
        char text[600];
        va_list args;

        va_start(args, format);
        (void)vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        api_json(ret, status, json_pack("{s:s}", "error", text));
        if (!ret->body) /* the text quotes the caller, who may send no UTF-8 */
                api_json(ret, status, json_pack("{s:s}", "error", "the request is not understood"));
}

void api_done(struct api_response *response)
{
        free(response->body);
        response->body = NULL;
}

bool api_time(const struct api_request *request, const char *name, nsec otherwise, nsec *ret_time,
              struct api_response *ret)
{
        const char *text = api_argument(request, name);

        *ret_time = otherwise;
        if (!text || !*text || since_parse(text, clock_realtime(), ret_time) == 0)
                return true;
        api_error(ret, API_BAD_REQUEST, "%s=%.60s: a span (1h, 2d), a date (2026-11-21), or seconds since 1970", name,
                  text);
        return false;
}

/* The part of the path that "*" stands for, or ""; NULL: no match. */
static const char *match_path(const char *pattern, const char *path)
{
        size_t n = strcspn(pattern, "*");

        if (strncmp(pattern, path, n) != 0)
                return NULL;
        if (!pattern[n])
                return path[n] ? NULL : "";
        return path[n] && !strchr(path + n, '/') ? path + n : NULL;
}

static void answer_asset(const struct api_request *request, struct api_response *ret)
{
        const struct page_asset *asset = page_asset_find(request->path);

        if (asset && !strcmp(request->method, "GET"))
                *ret = (struct api_response){ .status = API_OK, .type = asset->type, .asset = asset };
        else
                api_error(ret, API_NOT_FOUND, "there is nothing at %.200s (docs/api.md)", request->path);
}

void api_answer(struct daemon *daemon, const struct api_request *request, struct api_response *ret)
{
        bool has_path = false;

        *ret = (struct api_response){ 0 };
        if (request->may_only_ask && strcmp(request->method, "GET") != 0) {
                api_error(ret, API_NOT_ALLOWED, "over TCP only GET is answered: use the socket for changes");
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
                const char *name = match_path(routes[i].path, request->path);

                has_path |= name != NULL;
                if (!name || strcmp(routes[i].method, request->method) != 0)
                        continue;
                routes[i].handler(daemon, request, name, ret);
                return;
        }
        if (has_path)
                api_error(ret, API_NOT_ALLOWED, "%.20s is not for %.200s (docs/api.md)", request->method,
                          request->path);
        else
                answer_asset(request, ret);
}

static bool set_is_over(struct daemon *daemon, struct api_response *response)
{
        struct tenant *tenant = tenants_find_id(&daemon->tenants, response->tenant);

        if (!tenant)
                api_error(response, API_NOT_FOUND, "the tenant ended before it could be changed");
        else if (tenant->set_done >= response->serial)
                api_change_end(daemon, response, tenant);
        else if (clock_now() >= response->deadline)
                api_error(response, API_TIMEOUT, "the shim of '%s' (process %d) does not answer", tenant->lease.tenant,
                          tenant->shim);
        else
                return false;
        return true;
}

bool api_continue(struct daemon *daemon, struct api_response *response)
{
        switch (response->wait) {
        case API_WAIT_SET:
                return set_is_over(daemon, response);
        case API_WAIT_MOVED:
                return api_suspend_is_over(daemon, response);
        case API_WAIT_TIME:
                if (clock_now() < response->deadline)
                        return false;
                api_trace_end(daemon, response);
                return true;
        default:
                return true;
        }
}
