#include "kube/client/api.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
        TOKEN_MAX = 16 << 10,
        TOKEN_SEC = 60,
        PATH_MAX_ = 1024,
        WAIT_SEC = 1, /* after a 429 that does not say how long */
};

struct api {
        struct api_settings settings;
        CURL *curl;
        char authorization[TOKEN_MAX + 32]; /* the header */
        nsec token_at;
        size_t most; /* of an answer */
};

/* The answer of one call, as it arrives. */
struct reply {
        struct api *api;
        char *text;
        size_t size, room, most;
        int (*take)(void *context, char *line, size_t size);
        void *context;
        int taken;
};

static void reply_done(struct reply *reply)
{
        free(reply->text);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin_curl(void)
{
        (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

int api_find(struct api_settings *settings, char url[static API_URL], struct err *err)
{
        const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");

        if (settings->server)
                return 0;
        if (!host || !port)
                return err_say(err, -EINVAL, "no API server: give --server URL outside of a pod");
        (void)snprintf(url, API_URL, strchr(host, ':') ? "https://[%.80s]:%.8s" : "https://%.80s:%.8s", host, port);
        settings->server = url;
        if (!settings->token_file)
                settings->token_file = API_ACCOUNT "/token";
        if (!settings->ca_file)
                settings->ca_file = API_ACCOUNT "/ca.crt";
        return 0;
}

int api_new(const struct api_settings *settings, struct api **ret)
{
        struct api *api = calloc(1, sizeof(*api));

        (void)pthread_once(&once, begin_curl);
        if (!api || !(api->curl = curl_easy_init())) {
                free(api);
                return -ENOMEM;
        }
        api->settings = *settings;
        api->most = API_ANSWER;
        *ret = api;
        return 0;
}

void api_bound(struct api *api, size_t most)
{
        api->most = most;
}

struct api *api_free(struct api *api)
{
        if (!api)
                return NULL;
        curl_easy_cleanup(api->curl);
        free(api);
        return NULL;
}

void api_freep(struct api **api)
{
        (void)api_free(*api);
}

/* Reads the token. If the file cannot be read, or is being replaced, the old one stays. */
static void read_token(struct api *api, bool is_doubted)
{
        char text[TOKEN_MAX];
        nsec now = clock_now();
        _cleanup_(closep) int fd = -1;
        ssize_t n;

        if (!api->settings.token_file ||
            (api->token_at && !is_doubted && now - api->token_at < TOKEN_SEC * NSEC_PER_SEC))
                return;
        fd = open(api->settings.token_file, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return;
        text[n] = '\0';
        text[strcspn(text, "\r\n ")] = '\0';
        (void)snprintf(api->authorization, sizeof(api->authorization), "Authorization: Bearer %s", text);
        explicit_bzero(text, sizeof(text));
        api->token_at = now;
}

static int reply_keep(struct reply *reply, const char *data, size_t size)
{
        if (size > reply->most - reply->size)
                return -EMSGSIZE;
        if (reply->size + size + 1 > reply->room) {
                size_t room = (reply->size + size + 1) * 2;
                char *text = realloc(reply->text, room);

                if (!text)
                        return -ENOMEM;
                reply->text = text;
                reply->room = room;
        }
        memcpy(reply->text + reply->size, data, size);
        reply->size += size;
        reply->text[reply->size] = '\0';
        return 0;
}

/* Hands on the complete lines. */
static int hand_lines(struct reply *reply)
{
        size_t from = 0;
        char *end;
        int r = 0;

        while (r == 0 && (end = memchr(reply->text + from, '\n', reply->size - from)) != NULL) {
                size_t n = (size_t)(end - reply->text) - from;

                *end = '\0';
                if (n)
                        r = reply->take(reply->context, reply->text + from, n);
                from += n + 1;
        }
        memmove(reply->text, reply->text + from, reply->size - from);
        reply->size -= from;
        return r;
}

static size_t on_data(char *data, size_t one, size_t size, void *context)
{
        struct reply *reply = context;
        long status = 0;

        (void)one; /* is 1 */
        reply->taken = reply_keep(reply, data, size);
        (void)curl_easy_getinfo(reply->api->curl, CURLINFO_RESPONSE_CODE, &status);
        if (reply->taken == 0 && reply->take && status == 200)
                reply->taken = hand_lines(reply);
        return reply->taken ? 0 : size;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
        const struct api *api = context;

        (void)a, (void)b, (void)c, (void)d;
        return (api->settings.is_ending && atomic_load(api->settings.is_ending)) ||
               (api->settings.is_cut && atomic_load(api->settings.is_cut));
}

static void options(struct api *api, const char *method, const char *url, struct reply *reply, nsec limit)
{
        CURL *curl = api->curl;

        curl_easy_reset(curl); /* keeps the connection */
        (void)curl_easy_setopt(curl, CURLOPT_URL, url);
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
        (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 2000L);
        (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(limit / NSEC_PER_MSEC));
        if (api->settings.ca_file)
                (void)curl_easy_setopt(curl, CURLOPT_CAINFO, api->settings.ca_file);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply);
        (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
        (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, api);
        (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

static int say_curl(const struct api *api, CURLcode code, const struct reply *reply, struct err *err)
{
        if (code == CURLE_WRITE_ERROR && reply->taken < 0)
                return err_set(err, reply->taken, "what %s answers", api->settings.server);
        return err_say(err,
                       code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT :
                       code == CURLE_COULDNT_CONNECT    ? -ECONNREFUSED :
                                                          -EIO,
                       "asking %s: %s", api->settings.server, curl_easy_strerror(code));
}

/* One exchange. HTTP status; -errno. */
static long exchange(struct api *api, const char *method, const char *path, const char *type, const char *body,
                     nsec limit, struct reply *reply, struct err *err)
{
        char url[PATH_MAX_], header[128];
        struct curl_slist *headers = NULL;
        long status = 0;
        CURLcode code;

        if (snprintf(url, sizeof(url), "%s%s", api->settings.server, path) >= (int)sizeof(url))
                return err_say(err, -ENAMETOOLONG, "asking %s: the path is too long", api->settings.server);
        reply->api = api;
        reply->size = 0;
        options(api, method, url, reply, limit);
        if (api->authorization[0])
                headers = curl_slist_append(headers, api->authorization);
        headers = curl_slist_append(headers, "Accept: application/json");
        headers = curl_slist_append(headers, "Expect:");
        if (body) {
                (void)snprintf(header, sizeof(header), "Content-Type: %s", type ? type : "application/json");
                headers = curl_slist_append(headers, header);
                (void)curl_easy_setopt(api->curl, CURLOPT_POSTFIELDS, body);
        }
        (void)curl_easy_setopt(api->curl, CURLOPT_HTTPHEADER, headers);
        code = curl_easy_perform(api->curl);
        curl_slist_free_all(headers);
        if (code != CURLE_OK)
                return say_curl(api, code, reply, err);
        (void)curl_easy_getinfo(api->curl, CURLINFO_RESPONSE_CODE, &status);
        return status;
}

/* The wait that a 429 asks for. */
static nsec asked_to_wait(const struct api *api)
{
        curl_off_t seconds = 0;

        (void)curl_easy_getinfo(api->curl, CURLINFO_RETRY_AFTER, &seconds);
        return (seconds > 0 ? (nsec)seconds : WAIT_SEC) * NSEC_PER_SEC;
}

static void sleep_for(nsec span)
{
        const struct timespec time = { span / NSEC_PER_SEC, span % NSEC_PER_SEC };

        (void)nanosleep(&time, NULL);
}

int api_call(struct api *api, const char *method, const char *path, const char *type, const json_t *body,
             long *ret_status, json_t **ret, struct err *err)
{
        nsec until = clock_now() + API_SECONDS * NSEC_PER_SEC, wait;
        _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        _cleanup_(reply_done) struct reply reply = { .most = api->most };
        bool is_renewed = false;
        long status;

        if (body && !text)
                return err_set(err, -ENOMEM, "asking %s", api->settings.server);
        read_token(api, false);
        for (;;) {
                nsec left = until - clock_now();

                status = exchange(api, method, path, type, text, left > NSEC_PER_MSEC ? left : NSEC_PER_MSEC, &reply,
                                  err);
                if (status < 0)
                        return (int)status;
                wait = status == 429 ? asked_to_wait(api) : 0;
                if (status == 401 && !is_renewed)
                        read_token(api, true);
                else if (status != 429 || clock_now() + wait + NSEC_PER_SEC / 2 > until)
                        break;
                is_renewed |= status == 401;
                sleep_for(wait);
        }
        *ret_status = status;
        *ret = reply.text ? json_loadb(reply.text, reply.size, 0, NULL) : NULL;
        return 0;
}

int api_stream(struct api *api, const char *path, nsec limit, int (*take)(void *context, char *line, size_t size),
               void *context, long *ret_status, struct err *err)
{
        _cleanup_(reply_done) struct reply reply = { .most = API_LINE, .take = take, .context = context };
        long status;

        read_token(api, false);
        status = exchange(api, "GET", path, NULL, NULL, limit, &reply, err);
        if (status == 401) {
                read_token(api, true);
                status = exchange(api, "GET", path, NULL, NULL, limit, &reply, err);
        }
        if (status < 0)
                return (int)status;
        *ret_status = status;
        return 0;
}
