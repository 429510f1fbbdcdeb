/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/exchange.h"

#include "base/cleanup.h"

#include <errno.h>

struct http_client {
        CURL *curl; /* keeps the connection */
};

int http_client_new(struct http_client **ret)
{
        struct http_client *client = calloc(1, sizeof(*client));

        if (!client || !(client->curl = exchange_curl())) {
                free(client);
                return -ENOMEM;
        }
        *ret = client;
        return 0;
}

struct http_client *http_client_free(struct http_client *client)
{
        if (client)
                curl_easy_cleanup(client->curl);
        free(client);
        return NULL;
}

int http_call(struct http_client *client, const struct http_request *request, struct http_answer *ret)
{
        struct exchange exchange = { .curl = client->curl };
        int r;

        curl_easy_reset(client->curl);
        r = exchange_begin(&exchange, request);
        if (r == 0)
                exchange_end(&exchange, curl_easy_perform(client->curl));
        else
                exchange.answer = (struct http_answer){ .code = r, .why = "the request is too large" };
        *ret = exchange.answer;
        exchange.answer.body = (struct buffer){ 0 };
        exchange_done(&exchange);
        return ret->code;
}
