/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/api.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "net/http/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
        TOKEN_MAX = 16 << 10,
        TOKEN_SEC = 60,
        WAIT_SEC = 1, /* after a 429 that does not say how long */
        CONNECT_SEC = 2,
};

struct api {
        struct api_settings settings;
        struct http_client *client;
        char token[TOKEN_MAX];
        nsec token_at;
        size_t most; /* of an answer */
        bool lists;
};

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

        if (!api || http_client_new(&api->client) < 0) {
                free(api);
                return -ENOMEM;
        }
        api->settings = *settings;
        api->most = API_ANSWER;
        *ret = api;
        return 0;
}

void api_lists(struct api *api, size_t most)
{
        api->most = most;
        api->lists = true;
}

struct api *api_free(struct api *api)
{
        if (api)
                (void)http_client_free(api->client);
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
        memcpy(api->token, text, sizeof(text));
        explicit_bzero(text, sizeof(text));
        api->token_at = now;
}

/* One exchange with the token of now. 0; or what went wrong with nothing answered. The answer's body is the
 * caller's. */
static int exchange(struct api *api, struct http_request *request, nsec limit, struct http_answer *ret, struct err *err)
{
        request->base = api->settings.server;
        request->accept = "application/json";
        request->token = api->token[0] ? api->token : NULL;
        request->ca = api->settings.ca_file;
        request->connect = CONNECT_SEC * NSEC_PER_SEC;
        request->limit = limit > NSEC_PER_MSEC ? limit : NSEC_PER_MSEC;
        request->cuts[0] = api->settings.is_ending;
        request->cuts[1] = api->settings.is_cut;
        if (http_call(api->client, request, ret) == 0)
                return 0;
        if (ret->is_stopped)
                return err_set(err, ret->code, "what %s answers", api->settings.server);
        return err_say(err, ret->code, "asking %s: %s", api->settings.server, ret->why);
}

static void sleep_for(nsec span)
{
        const struct timespec time = { span / NSEC_PER_SEC, span % NSEC_PER_SEC };

        (void)nanosleep(&time, NULL);
}

/* Whether the call is to be repeated: after a 401, once, with the token of now; after a 429 when the server says. */
static bool is_to_be_repeated(struct api *api, const struct http_answer *answer, nsec until, bool *is_renewed)
{
        nsec wait = answer->retry_after ? answer->retry_after : WAIT_SEC * NSEC_PER_SEC;

        if (answer->status == 401 && !*is_renewed) {
                read_token(api, true);
                return *is_renewed = true;
        }
        if (answer->status != 429 || clock_now() + wait + NSEC_PER_SEC / 2 > until)
                return false;
        sleep_for(wait);
        return true;
}

int api_call(struct api *api, const char *method, const char *path, const char *type, const json_t *body,
             long *ret_status, json_t **ret, struct err *err)
{
        nsec until = clock_now() + (api->lists ? API_LIST_SECONDS : API_SECONDS) * NSEC_PER_SEC;
        _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        struct http_request request = { .method = method,
                                        .path = path,
                                        .type = type,
                                        .body = text,
                                        .most = api->most,
                                        .silence = api->lists ? API_LIST_SILENCE * NSEC_PER_SEC : 0 };
        struct http_answer answer = { 0 };
        bool is_renewed = false;
        int r;

        if (body && !text)
                return err_set(err, -ENOMEM, "asking %s", api->settings.server);
        read_token(api, false);
        do {
                buffer_done(&answer.body);
                r = exchange(api, &request, until - clock_now(), &answer, err);
        } while (r == 0 && is_to_be_repeated(api, &answer, until, &is_renewed));
        if (r == 0) {
                *ret_status = answer.status;
                *ret = json_loads(http_text(&answer), 0, NULL);
        }
        buffer_done(&answer.body);
        return r;
}

int api_stream(struct api *api, const char *path, nsec limit, int (*take)(void *context, char *line, size_t size),
               void *context, long *ret_status, struct err *err)
{
        struct http_request request = {
                .path = path, .most = API_LINE, .take = take, .is_lines = true, .context = context
        };
        struct http_answer answer = { 0 };
        bool is_renewed = false;
        int r;

        read_token(api, false);
        do {
                buffer_done(&answer.body);
                r = exchange(api, &request, limit, &answer, err);
        } while (r == 0 && answer.status == 401 && is_to_be_repeated(api, &answer, 0, &is_renewed));
        *ret_status = answer.status;
        buffer_done(&answer.body);
        return r;
}
