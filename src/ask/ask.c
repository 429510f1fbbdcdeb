#include "ask/ask.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define DIR_DEFAULT "/run/sublet"

struct ask {
        CURL *curl;
        char socket[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
};

enum {
        ANSWER_MAX = 64 << 20, /* of one JSON answer */
};

/* What has come of one answer. */
struct answer {
        CURL *curl;
        char *text;
        size_t size, room;
        int (*take)(void *context, const char *data, size_t size);
        void *context;
        int taken; /* what `take` said last */
        nsec limit;
};

static void answer_done(struct answer *answer)
{
        free(answer->text);
}

static int answer_more(struct answer *answer, const char *data, size_t size)
{
        if (answer->size + size + 1 > answer->room) {
                size_t room = (answer->size + size + 1) * 2;
                char *text = room > ANSWER_MAX ? NULL : realloc(answer->text, room);

                if (!text)
                        return -ENOMEM;
                answer->text = text;
                answer->room = room;
        }
        memcpy(answer->text + answer->size, data, size);
        answer->size += size;
        answer->text[answer->size] = '\0';
        return 0;
}

/* curl's write function: a success is streamed to whom it is for, all else is kept. */
static size_t on_data(char *data, size_t one, size_t size, void *context)
{
        struct answer *answer = context;
        long status = 0;

        (void)one; /* is 1 */
        (void)curl_easy_getinfo(answer->curl, CURLINFO_RESPONSE_CODE, &status);
        if (answer->take && status == 200)
                answer->taken = answer->take(answer->context, data, size);
        else
                answer->taken = answer_more(answer, data, size);
        return answer->taken < 0 ? 0 : size;
}

int ask_new(const char *dir, struct ask **ret, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = calloc(1, sizeof(*ask));
        int n;

        if (!ask)
                return err_set(err, -ENOMEM, "asking the daemon");
        if (!dir)
                dir = getenv("SUBLET_DIR");
        if (!dir || !*dir)
                dir = DIR_DEFAULT;
        n = snprintf(ask->socket, sizeof(ask->socket), "%s/sublet.sock", dir);
        if (n < 0 || (size_t)n >= sizeof(ask->socket))
                return err_say(err, -ENAMETOOLONG, "%s: too long for a socket's directory", dir);
        ask->curl = curl_easy_init();
        if (!ask->curl)
                return err_set(err, -ENOMEM, "asking the daemon");
        *ret = TAKE(ask);
        return 0;
}

struct ask *ask_free(struct ask *ask)
{
        if (!ask)
                return NULL;
        curl_easy_cleanup(ask->curl);
        free(ask);
        return NULL;
}

void ask_freep(struct ask **ask)
{
        (void)ask_free(*ask);
}

/* What curl says, in our words. */
static int say_curl(const struct ask *ask, CURLcode code, struct err *err)
{
        long os_errno = 0;

        (void)curl_easy_getinfo(ask->curl, CURLINFO_OS_ERRNO, &os_errno);
        switch (code) {
        case CURLE_COULDNT_CONNECT:
                if (os_errno == EACCES || os_errno == EPERM)
                        return err_say(err, -EACCES, "%s: not yours to ask: its directory or the socket keeps you out",
                                       ask->socket);
                return err_say(err, -ECONNREFUSED, "no daemon answers at %s: start it with 'sublet daemon'",
                               ask->socket);
        case CURLE_OPERATION_TIMEDOUT:
                return err_say(err, -ETIMEDOUT, "the daemon at %s does not answer in time", ask->socket);
        case CURLE_GOT_NOTHING:
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
        case CURLE_PARTIAL_FILE:
                return err_say(err, -EIO, "the daemon at %s went away in the middle of an answer", ask->socket);
        default:
                return err_say(err, -EIO, "asking %s: %s", ask->socket, curl_easy_strerror(code));
        }
}

/* A failure that the daemon reports: its own line, {"error": "..."}. */
static int say_status(long status, const struct answer *answer, struct err *err)
{
        json_t *root = answer->text ? json_loads(answer->text, 0, NULL) : NULL;
        const char *line = json_string_value(json_object_get(root, "error"));
        int code = status == 404 ? -ENOENT :
                   status == 403 ? -EACCES :
                   status == 409 ? -EBUSY :
                   status == 400 ? -EINVAL :
                                   -EIO;

        if (line)
                code = err_say(err, code, "%s", line);
        else
                code = err_say(err, code, "the daemon answered with HTTP status %ld and no reason", status);
        json_decref(root);
        return code;
}

static void options(struct ask *ask, const char *method, const char *url, struct answer *answer)
{
        long limit = answer->take ? (long)(answer->limit / NSEC_PER_MSEC) : ASK_SECONDS * 1000L;
        CURL *curl = ask->curl;

        curl_easy_reset(curl); /* keeps the connection */
        (void)curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, ask->socket);
        (void)curl_easy_setopt(curl, CURLOPT_URL, url);
        (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
        (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
        (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)ASK_SECONDS);
        (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, limit);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
        answer->curl = curl;
}

/* The whole question; 0 and an answer of status 2xx, or err says it. */
static int question(struct ask *ask, const char *method, const char *path, const json_t *body, struct answer *answer,
                    struct err *err)
{
        _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        struct curl_slist *headers = NULL;
        char url[ASK_PATH + 32];
        long status = 0;
        CURLcode code;

        if (body && !text)
                return err_set(err, -ENOMEM, "asking the daemon");
        (void)snprintf(url, sizeof(url), "http://localhost%s", path);
        options(ask, method, url, answer);
        if (text) {
                headers = curl_slist_append(NULL, "Content-Type: application/json");
                (void)curl_easy_setopt(ask->curl, CURLOPT_HTTPHEADER, headers);
                (void)curl_easy_setopt(ask->curl, CURLOPT_POSTFIELDS, text);
        }
        code = curl_easy_perform(ask->curl);
        curl_slist_free_all(headers);
        if (code == CURLE_WRITE_ERROR && answer->taken < 0)
                return err_set(err, answer->taken, "writing what the daemon answered");
        if (code != CURLE_OK)
                return say_curl(ask, code, err);
        (void)curl_easy_getinfo(ask->curl, CURLINFO_RESPONSE_CODE, &status);
        return status >= 200 && status < 300 ? 0 : say_status(status, answer, err);
}

static int question_json(struct ask *ask, const char *method, const char *path, const json_t *body, json_t **ret,
                         struct err *err)
{
        _cleanup_(answer_done) struct answer answer = { 0 };
        json_t *root;
        int r;

        r = question(ask, method, path, body, &answer, err);
        if (r < 0)
                return r;
        root = answer.text ? json_loads(answer.text, 0, NULL) : NULL;
        if (!root)
                return err_say(err, -EPROTO, "%s: what answers there is not a daemon of Sublet", ask->socket);
        *ret = root;
        return 0;
}

int ask_get(struct ask *ask, const char *path, json_t **ret, struct err *err)
{
        return question_json(ask, "GET", path, NULL, ret, err);
}

int ask_patch(struct ask *ask, const char *path, const json_t *body, json_t **ret, struct err *err)
{
        return question_json(ask, "PATCH", path, body, ret, err);
}

int ask_put(struct ask *ask, const char *path, const json_t *body, json_t **ret, struct err *err)
{
        return question_json(ask, "PUT", path, body, ret, err);
}

int ask_delete(struct ask *ask, const char *path, struct err *err)
{
        _cleanup_(answer_done) struct answer answer = { 0 };

        return question(ask, "DELETE", path, NULL, &answer, err);
}

int ask_stream(struct ask *ask, const char *path, nsec limit, int (*take)(void *context, const char *data, size_t size),
               void *context, struct err *err)
{
        _cleanup_(answer_done) struct answer answer = { .take = take, .context = context, .limit = limit };

        return question(ask, "GET", path, NULL, &answer, err);
}

bool ask_is_anew(const struct ask *ask)
{
        long n = 0;

        return curl_easy_getinfo(ask->curl, CURLINFO_NUM_CONNECTS, &n) != CURLE_OK || n > 0;
}

/* Appends text, with all but letters, digits and "-_." as %XX. */
static int append_quoted(char *path, const char *text)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
        size_t n = strlen(path);

        for (; *text; text++) {
                bool is_plain = strchr(plain, *text) != NULL;

                if (n + 4 > ASK_PATH)
                        return -ENAMETOOLONG;
                n += (size_t)snprintf(path + n, 4, is_plain ? "%c" : "%%%02X", (unsigned char)*text);
        }
        return 0;
}

int ask_path(char *path, const char *prefix, const char *name)
{
        (void)snprintf(path, ASK_PATH, "%s", prefix);
        return append_quoted(path, name);
}

int ask_query(char *path, const char *key, const char *value)
{
        size_t n = strlen(path);

        if (n + strlen(key) + 3 > ASK_PATH)
                return -ENAMETOOLONG;
        (void)snprintf(path + n, ASK_PATH - n, "%c%s=", strchr(path, '?') ? '&' : '?', key);
        return append_quoted(path, value);
}
