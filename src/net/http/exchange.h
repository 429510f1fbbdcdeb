/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP exchange on a handle of libcurl: what client.c and pool.c share. */
#pragma once

#include "net/http/client.h"

#include <curl/curl.h>

struct exchange {
        CURL *curl;
        struct http_request request; /* its texts are used up by exchange_begin */
        struct curl_slist *headers, *at;
        struct http_answer answer;
        int taken; /* what `take` or the bound said last */
        bool is_cancelled, is_unix;
};

CURL *exchange_curl(void); /* a new handle; NULL: no memory */

/* Sets all options of exchange->curl. The exchange must stay where it is. 0; -ENOMEM; -ENAMETOOLONG. */
int exchange_begin(struct exchange *exchange, const struct http_request *request);

/* Completes exchange->answer, once libcurl has ended. */
void exchange_end(struct exchange *exchange, CURLcode code);

void exchange_done(struct exchange *exchange); /* the handle stays */
