/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/exchange.h"

#include "base/cleanup.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
        UNIX_PREFIX = 5, /* "unix:" */
        HEADER = 17 << 10,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void curl_begin(void)
{
        (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

CURL *exchange_curl(void)
{
        (void)pthread_once(&once, curl_begin);
        return curl_easy_init();
}

static size_t on_data(char *data, size_t one, size_t size, void *context)
{
        struct exchange *exchange = context;
        const struct http_request *request = &exchange->request;
        struct http_answer *answer = &exchange->answer;
        bool is_taken;
        long status = 0;

        (void)one; /* is 1 */
        if (exchange->is_cancelled)
                return 0;
        (void)curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status);
        is_taken = request->take && status == 200;
        if (is_taken && !request->is_lines)
                exchange->taken = request->take(request->context, data, size);
        else
                exchange->taken = buffer_add(&answer->body, data, size, request->most ? request->most : HTTP_MOST);
        if (is_taken && request->is_lines && exchange->taken == 0)
                exchange->taken = buffer_lines(&answer->body, request->take, request->context);
        return exchange->taken ? 0 : size;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
        const struct http_request *request = context;

        (void)a, (void)b, (void)c, (void)d;
        for (size_t i = 0; i < ARRAY_SIZE(request->cuts); i++)
                if (request->cuts[i] && atomic_load(request->cuts[i]))
                        return 1;
        return 0;
}

/* Another place than the URL's, whose name still counts. */
static int set_at(struct exchange *exchange, const char *at)
{
        char text[HTTP_URL];

        if (!strncmp(at, "unix:", UNIX_PREFIX)) {
                exchange->is_unix = true;
                return curl_easy_setopt(exchange->curl, CURLOPT_UNIX_SOCKET_PATH, at + UNIX_PREFIX) == CURLE_OK ?
                               0 :
                               -ENOMEM;
        }
        if ((size_t)snprintf(text, sizeof(text), "::%s", at) >= sizeof(text))
                return -ENAMETOOLONG;
        exchange->at = curl_slist_append(NULL, text);
        if (!exchange->at || curl_easy_setopt(exchange->curl, CURLOPT_CONNECT_TO, exchange->at) != CURLE_OK)
                return -ENOMEM;
        return 0;
}

static void set_trust(CURL *curl, const struct http_request *request)
{
        if (request->ca)
                (void)curl_easy_setopt(curl, CURLOPT_CAINFO, request->ca);
        if (request->certificate)
                (void)curl_easy_setopt(curl, CURLOPT_SSLCERT, request->certificate);
        if (request->key)
                (void)curl_easy_setopt(curl, CURLOPT_SSLKEY, request->key);
        if (request->trusts_all) {
                (void)curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
                (void)curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
        }
}

static int set_address(struct exchange *exchange, const struct http_request *request)
{
        char url[HTTP_URL];
        bool is_unix = !strncmp(request->base, "unix:", UNIX_PREFIX);
        int n = snprintf(url, sizeof(url), "%s%s%s", strstr(request->base, "://") ? "" : "http://",
                         is_unix ? "localhost" : request->base, request->path);

        if (n < 0 || (size_t)n >= sizeof(url))
                return -ENAMETOOLONG;
        if (is_unix)
                (void)curl_easy_setopt(exchange->curl, CURLOPT_UNIX_SOCKET_PATH, request->base + UNIX_PREFIX);
        exchange->is_unix = is_unix;
        if (request->at && (n = set_at(exchange, request->at)) < 0)
                return n;
        return curl_easy_setopt(exchange->curl, CURLOPT_URL, url) == CURLE_OK ? 0 : -ENOMEM;
}

/* value NULL: no such header. */
static int add_header(struct exchange *exchange, const char *name, const char *value)
{
        char line[HEADER];
        struct curl_slist *list;
        int n = value ? snprintf(line, sizeof(line), "%s:%s%s", name, *value ? " " : "", value) : 0;

        if (n >= (int)sizeof(line))
                return -ENAMETOOLONG;
        if (!n)
                return 0;
        list = curl_slist_append(exchange->headers, line);
        explicit_bzero(line, (size_t)n);
        if (!list)
                return -ENOMEM;
        exchange->headers = list;
        return 0;
}

static int set_headers(struct exchange *exchange, const struct http_request *request)
{
        char bearer[HEADER - 32];
        int r = 0;

        if (request->token) {
                if ((size_t)snprintf(bearer, sizeof(bearer), "Bearer %s", request->token) >= sizeof(bearer))
                        return -ENAMETOOLONG;
                r = add_header(exchange, "Authorization", bearer);
                explicit_bzero(bearer, sizeof(bearer));
        }
        if (r == 0)
                r = add_header(exchange, "Accept", request->accept);
        if (r == 0)
                r = add_header(exchange, "Expect", ""); /* none: bodies are sent at once */
        if (r == 0 && request->body)
                r = add_header(exchange, "Content-Type", request->type ? request->type : "application/json");
        (void)curl_easy_setopt(exchange->curl, CURLOPT_HTTPHEADER, exchange->headers);
        return r;
}

int exchange_begin(struct exchange *exchange, const struct http_request *request)
{
        CURL *curl = exchange->curl;
        int r = set_address(exchange, request);

        exchange->request = *request;
        exchange->answer.began = clock_now();
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method ? request->method : "GET");
        (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(request->connect / NSEC_PER_MSEC));
        (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(request->limit / NSEC_PER_MSEC));
        (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, request->silence ? 1L : 0L);
        (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)(request->silence / NSEC_PER_SEC));
        set_trust(curl, request);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
        if (request->cuts[0] || request->cuts[1]) {
                (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
                (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &exchange->request);
                (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        }
        if (r == 0 && request->body && curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, request->body) != CURLE_OK)
                r = -ENOMEM;
        return r < 0 ? r : set_headers(exchange, request);
}

static int code_of(const struct exchange *exchange, CURLcode code)
{
        long os_errno = 0;

        switch (code) {
        case CURLE_OK:
                return 0;
        case CURLE_WRITE_ERROR:
                return exchange->taken ? exchange->taken : -EIO;
        case CURLE_COULDNT_CONNECT:
                (void)curl_easy_getinfo(exchange->curl, CURLINFO_OS_ERRNO, &os_errno);
                return exchange->is_unix && (os_errno == EACCES || os_errno == EPERM) ? -EACCES : -ECONNREFUSED;
        case CURLE_OPERATION_TIMEDOUT:
                return -ETIMEDOUT;
        case CURLE_GOT_NOTHING:
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
        case CURLE_PARTIAL_FILE:
                return -ECONNRESET;
        default:
                return -EIO;
        }
}

void exchange_end(struct exchange *exchange, CURLcode code)
{
        struct http_answer *answer = &exchange->answer;
        curl_off_t seconds = 0;
        long n = 0;

        answer->code = code_of(exchange, code);
        answer->why = curl_easy_strerror(code);
        answer->is_stopped = code == CURLE_WRITE_ERROR && exchange->taken;
        (void)curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &answer->status);
        (void)curl_easy_getinfo(exchange->curl, CURLINFO_RETRY_AFTER, &seconds);
        answer->retry_after = seconds > 0 ? (nsec)seconds * NSEC_PER_SEC : 0;
        answer->is_anew = curl_easy_getinfo(exchange->curl, CURLINFO_NUM_CONNECTS, &n) != CURLE_OK || n > 0;
}

void exchange_done(struct exchange *exchange)
{
        curl_slist_free_all(exchange->headers);
        curl_slist_free_all(exchange->at);
        exchange->headers = exchange->at = NULL;
        buffer_done(&exchange->answer.body);
}
