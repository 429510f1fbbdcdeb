/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/exchange.h"

#include "base/cleanup.h"

#include <errno.h>

struct http_pool_call {
        struct http_pool_call *next;
        struct exchange exchange;
};

struct http_pool {
        CURLM *multi;
        struct http_pool_call *calls;
        bool is_inside; /* libcurl: its handles must not be removed then */
};

int http_pool_new(struct http_pool **ret)
{
        struct http_pool *pool = calloc(1, sizeof(*pool));

        if (!pool || !(pool->multi = curl_multi_init())) {
                free(pool);
                return -ENOMEM;
        }
        *ret = pool;
        return 0;
}

static void call_free(struct http_pool *pool, struct http_pool_call *call)
{
        struct http_pool_call **at = &pool->calls;

        while (*at && *at != call)
                at = &(*at)->next;
        if (*at)
                *at = call->next;
        if (call->exchange.curl)
                (void)curl_multi_remove_handle(pool->multi, call->exchange.curl);
        curl_easy_cleanup(call->exchange.curl);
        exchange_done(&call->exchange);
        free(call);
}

struct http_pool *http_pool_free(struct http_pool *pool)
{
        if (!pool)
                return NULL;
        while (pool->calls)
                call_free(pool, pool->calls);
        (void)curl_multi_cleanup(pool->multi);
        free(pool);
        return NULL;
}

void http_pool_cancel(struct http_pool *pool, struct http_pool_call *call)
{
        if (call && pool->is_inside)
                call->exchange.is_cancelled = true;
        else if (call)
                call_free(pool, call);
}

int http_pool_start(struct http_pool *pool, const struct http_request *request, struct http_pool_call **ret)
{
        struct http_pool_call *call = calloc(1, sizeof(*call));
        int r;

        if (!call)
                return -ENOMEM;
        call->exchange.curl = exchange_curl();
        r = call->exchange.curl ? exchange_begin(&call->exchange, request) : -ENOMEM;
        if (r == 0 && (curl_easy_setopt(call->exchange.curl, CURLOPT_PRIVATE, call) != CURLE_OK ||
                       curl_multi_add_handle(pool->multi, call->exchange.curl) != CURLM_OK))
                r = -ENOMEM;
        if (r < 0) {
                call_free(pool, call);
                return r;
        }
        call->next = pool->calls;
        pool->calls = call;
        if (ret)
                *ret = call;
        return 0;
}

static void drop_cancelled(struct http_pool *pool)
{
        for (struct http_pool_call *call = pool->calls, *next; call; call = next) {
                next = call->next;
                if (call->exchange.is_cancelled)
                        call_free(pool, call);
        }
}

static int pool_perform(struct http_pool *pool)
{
        int running = 0;
        CURLMcode code;

        pool->is_inside = true;
        code = curl_multi_perform(pool->multi, &running);
        pool->is_inside = false;
        drop_cancelled(pool);
        return code == CURLM_OK ? 0 : -EIO;
}

static void call_end(struct http_pool *pool, CURL *curl, CURLcode code)
{
        struct http_pool_call *call = NULL;

        (void)curl_easy_getinfo(curl, CURLINFO_PRIVATE, (char **)&call);
        exchange_end(&call->exchange, code);
        call->exchange.request.done(call->exchange.request.context, &call->exchange.answer);
        call_free(pool, call);
}

int http_pool_wait(struct http_pool *pool, int fd, nsec until)
{
        struct curl_waitfd extra = { .fd = fd, .events = CURL_WAIT_POLLIN };
        nsec left = until - clock_now();
        int n = 0;
        CURLMsg *message;

        if (pool_perform(pool) < 0)
                return -EIO;
        if (curl_multi_poll(pool->multi, &extra, 1, left <= 0 ? 0 : (int)(left / NSEC_PER_MSEC) + 1, &n) != CURLM_OK)
                return -EIO;
        if (pool_perform(pool) < 0)
                return -EIO;
        while ((message = curl_multi_info_read(pool->multi, &n)) != NULL)
                if (message->msg == CURLMSG_DONE)
                        call_end(pool, message->easy_handle, message->data.result);
        return 0;
}
