#include "route/agent/fetch.h"

#include "base/cleanup.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct fetch_call {
        struct fetch_call *next;
        CURL *curl;
        struct curl_slist *headers;
        struct fetch_ask ask; /* its texts are not used after the start */
        char *body, *text;
        size_t size, room;
        nsec began;
        bool is_cancelled;
};

struct fetch {
        CURLM *multi;
        struct fetch_call *calls;
        bool is_inside; /* of curl, where handles must not be removed */
};

int fetch_new(struct fetch **ret)
{
        struct fetch *fetch = calloc(1, sizeof(*fetch));

        if (fetch)
                fetch->multi = curl_multi_init();
        if (!fetch || !fetch->multi) {
                free(fetch);
                return -ENOMEM;
        }
        *ret = fetch;
        return 0;
}

static void call_free(struct fetch *fetch, struct fetch_call *call)
{
        struct fetch_call **at = &fetch->calls;

        while (*at && *at != call)
                at = &(*at)->next;
        if (*at)
                *at = call->next;
        if (call->curl)
                (void)curl_multi_remove_handle(fetch->multi, call->curl);
        curl_easy_cleanup(call->curl);
        curl_slist_free_all(call->headers);
        free(call->body);
        free(call->text);
        free(call);
}

struct fetch *fetch_free(struct fetch *fetch)
{
        if (!fetch)
                return NULL;
        while (fetch->calls)
                call_free(fetch, fetch->calls);
        (void)curl_multi_cleanup(fetch->multi);
        free(fetch);
        return NULL;
}

void fetch_cancel(struct fetch *fetch, struct fetch_call *call)
{
        if (call && fetch->is_inside)
                call->is_cancelled = true;
        else if (call)
                call_free(fetch, call);
}

static int more(struct fetch_call *call, const char *data, size_t size)
{
        if (call->size + size + 1 > call->room) {
                size_t room = (call->size + size + 1) * 2;
                char *text = call->size + size > FETCH_MAX ? NULL : realloc(call->text, room);

                if (!text)
                        return -ENOMEM;
                call->text = text;
                call->room = room;
        }
        memcpy(call->text + call->size, data, size);
        call->size += size;
        call->text[call->size] = '\0';
        return 0;
}

static void tell_lines(struct fetch_call *call)
{
        size_t begin = 0;

        for (char *end; !call->is_cancelled && (end = memchr(call->text + begin, '\n', call->size - begin)) != NULL;) {
                size_t at = (size_t)(end - call->text);

                *end = '\0';
                if (at > begin)
                        call->ask.line(call->ask.context, call->text + begin, at - begin);
                begin = at + 1;
        }
        memmove(call->text, call->text + begin, call->size - begin + 1);
        call->size -= begin;
}

static size_t on_data(char *data, size_t one, size_t size, void *context)
{
        struct fetch_call *call = context;
        long status = 0;

        (void)one; /* is 1 */
        if (call->is_cancelled || more(call, data, size) < 0)
                return 0;
        (void)curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &status);
        if (call->ask.line && status == 200)
                tell_lines(call);
        return call->is_cancelled ? 0 : size;
}

static int set_address(struct fetch_call *call)
{
        const struct fetch_ask *ask = &call->ask;
        char url[FETCH_URL];
        bool is_unix = !strncmp(ask->base, "unix:", 5);
        int n = snprintf(url, sizeof(url), "%s%s%s", strstr(ask->base, "://") ? "" : "http://",
                         is_unix ? "localhost" : ask->base, ask->path);

        if (n < 0 || (size_t)n >= sizeof(url))
                return -EINVAL;
        if (is_unix)
                (void)curl_easy_setopt(call->curl, CURLOPT_UNIX_SOCKET_PATH, ask->base + 5);
        return curl_easy_setopt(call->curl, CURLOPT_URL, url) == CURLE_OK ? 0 : -EINVAL;
}

static int add_header(struct fetch_call *call, const char *name, const char *value)
{
        char line[8192];
        struct curl_slist *list;
        int n = snprintf(line, sizeof(line), "%s%s", name, value);

        list = n > 0 && (size_t)n < sizeof(line) ? curl_slist_append(call->headers, line) : NULL;
        if (!list)
                return -EINVAL;
        call->headers = list;
        return 0;
}

static int set_options(struct fetch_call *call)
{
        const struct fetch_ask *ask = &call->ask;
        CURL *curl = call->curl;
        int r = set_address(call);

        (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, ask->method);
        (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(ask->limit / NSEC_PER_MSEC));
        (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, call);
        (void)curl_easy_setopt(curl, CURLOPT_PRIVATE, call);
        if (ask->ca)
                (void)curl_easy_setopt(curl, CURLOPT_CAINFO, ask->ca);
        if (r == 0 && ask->token)
                r = add_header(call, "Authorization: Bearer ", ask->token);
        if (r == 0 && ask->body) {
                call->body = strdup(ask->body);
                r = call->body ? add_header(call, "Content-Type: ", "application/json") : -ENOMEM;
                (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
        }
        (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, call->headers);
        return r;
}

int fetch_start(struct fetch *fetch, const struct fetch_ask *ask, struct fetch_call **ret_call)
{
        struct fetch_call *call = calloc(1, sizeof(*call));
        int r;

        if (!call)
                return -ENOMEM;
        call->ask = *ask;
        call->began = clock_now();
        call->curl = curl_easy_init();
        r = call->curl ? set_options(call) : -ENOMEM;
        if (r == 0 && curl_multi_add_handle(fetch->multi, call->curl) != CURLM_OK)
                r = -ENOMEM;
        if (r < 0) {
                call_free(fetch, call);
                return r;
        }
        call->next = fetch->calls;
        fetch->calls = call;
        if (ret_call)
                *ret_call = call;
        return 0;
}

static int errno_of(CURLcode code)
{
        return code == CURLE_OK                 ? 0 :
               code == CURLE_COULDNT_CONNECT    ? -ECONNREFUSED :
               code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT :
                                                  -EIO;
}

static void finish(struct fetch *fetch, struct fetch_call *call, CURLcode code)
{
        struct fetch_answer answer = { .code = errno_of(code), .size = call->size, .began = call->began };

        answer.text = call->text ? call->text : "";
        (void)curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &answer.status);
        if (!call->is_cancelled)
                call->ask.done(call->ask.context, &answer);
        call_free(fetch, call);
}

static void drop_cancelled(struct fetch *fetch)
{
        for (struct fetch_call *call = fetch->calls, *next; call; call = next) {
                next = call->next;
                if (call->is_cancelled)
                        call_free(fetch, call);
        }
}

static int perform(struct fetch *fetch)
{
        int running = 0;
        CURLMcode code;

        fetch->is_inside = true;
        code = curl_multi_perform(fetch->multi, &running);
        fetch->is_inside = false;
        drop_cancelled(fetch);
        return code == CURLM_OK ? 0 : -EIO;
}

int fetch_wait(struct fetch *fetch, int fd, nsec until)
{
        struct curl_waitfd extra = { .fd = fd, .events = CURL_WAIT_POLLIN };
        nsec left = until - clock_now();
        int n = 0;
        CURLMsg *message;

        if (perform(fetch) < 0)
                return -EIO;
        if (curl_multi_poll(fetch->multi, &extra, 1, left <= 0 ? 0 : (int)(left / NSEC_PER_MSEC) + 1, &n) != CURLM_OK)
                return -EIO;
        if (perform(fetch) < 0)
                return -EIO;
        while ((message = curl_multi_info_read(fetch->multi, &n)) != NULL) {
                struct fetch_call *call = NULL;

                if (message->msg != CURLMSG_DONE)
                        continue;
                (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
                finish(fetch, call, message->data.result);
        }
        return 0;
}
