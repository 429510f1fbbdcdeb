/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/ask.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "net/http/client.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIR_DEFAULT "/run/sublet"
#define UNIX "unix:"

enum {
        ANSWER_MAX = 64 << 20, /* of one JSON answer */
};

struct ask {
        struct http_client *client;
        char base[sizeof(UNIX) - 1 + SOCKET_PATH]; /* "unix:" and the socket */
        bool is_anew, is_named;                    /* is_named: who asks said the directory */
};

static const char *socket_of(const struct ask *ask)
{
        return ask->base + sizeof(UNIX) - 1;
}

int ask_new(const char *dir, struct ask **ret, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = calloc(1, sizeof(*ask));
        int n;

        if (!ask || http_client_new(&ask->client) < 0)
                return err_set(err, -ENOMEM, "asking the daemon");
        ask->is_named = dir && *dir;
        if (!dir)
                dir = getenv("SUBLET_DIR");
        if (!dir || !*dir)
                dir = DIR_DEFAULT;
        n = snprintf(ask->base, sizeof(ask->base), UNIX "%s/sublet.sock", dir);
        if (n < 0 || (size_t)n >= sizeof(ask->base))
                return err_say(err, -ENAMETOOLONG, "%s: too long for a socket's directory", dir);
        *ret = TAKE(ask);
        return 0;
}

struct ask *ask_free(struct ask *ask)
{
        if (ask)
                (void)http_client_free(ask->client);
        free(ask);
        return NULL;
}

void ask_freep(struct ask **ask)
{
        (void)ask_free(*ask);
}

/* A call without an answer, in words that name the next step. */
static int failure_say(const struct ask *ask, const struct http_answer *answer, struct err *err)
{
        const char *path = socket_of(ask);

        if (answer->is_stopped)
                return err_set(err, answer->code, "writing what the daemon answered");
        switch (answer->code) {
        case -EACCES:
                return socket_refusal_say(path, err);
        case -ECONNREFUSED:
                return err_say(err, -ECONNREFUSED, "no daemon answers at %s: start it with 'sublet daemon%s%.*s'", path,
                               ask->is_named ? " --dir " : "",
                               ask->is_named ? (int)(strlen(path) - strlen("/sublet.sock")) : 0, path);
        case -ETIMEDOUT:
                return err_say(err, -ETIMEDOUT, "the daemon at %s does not answer in time", path);
        case -ECONNRESET:
                return err_say(err, -EIO, "the daemon at %s went away in the middle of an answer", path);
        default:
                return err_say(err, -EIO, "asking %s: %s", path, answer->why);
        }
}

/* A failure that the daemon reports: its own line, {"error": "..."}. */
static int status_say(const struct http_answer *answer, struct err *err)
{
        json_t *root = json_loads(http_text(answer), 0, NULL);
        const char *line = json_string_value(json_object_get(root, "error"));
        int code = answer->status == 404 ? -ENOENT :
                   answer->status == 403 ? -EACCES :
                   answer->status == 409 ? -EBUSY :
                   answer->status == 400 ? -EINVAL :
                                           -EIO;

        if (line)
                code = err_say(err, code, "%s", line);
        else
                code = err_say(err, code, "the daemon answered with HTTP status %ld and no reason", answer->status);
        json_decref(root);
        return code;
}

/* 0 and an answer of status 2xx, or err says what is wrong; the answer's body is the caller's. */
static int ask_call(struct ask *ask, struct http_request *request, struct http_answer *answer, struct err *err)
{
        request->base = ask->base;
        request->connect = ASK_SECONDS * NSEC_PER_SEC;
        request->most = ANSWER_MAX;
        if (http_call(ask->client, request, answer) < 0)
                return failure_say(ask, answer, err);
        ask->is_anew = answer->is_anew;
        return answer->status >= 200 && answer->status < 300 ? 0 : status_say(answer, err);
}

/* ret NULL: an answer without a body will do. */
static int ask_json_within(struct ask *ask, const char *method, const char *path, const json_t *body, nsec limit,
                           json_t **ret, struct err *err)
{
        _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        struct http_request request = { .method = method, .path = path, .body = text, .limit = limit };
        struct http_answer answer;
        int r;

        if (body && !text)
                return err_set(err, -ENOMEM, "asking the daemon");
        r = ask_call(ask, &request, &answer, err);
        if (r == 0 && ret && !(*ret = json_loads(http_text(&answer), 0, NULL)))
                r = err_say(err, -EPROTO, "%s: what answers there is not a daemon of Sublet", socket_of(ask));
        buffer_done(&answer.body);
        return r;
}

static int ask_json(struct ask *ask, const char *method, const char *path, const json_t *body, json_t **ret,
                    struct err *err)
{
        return ask_json_within(ask, method, path, body, ASK_SECONDS * NSEC_PER_SEC, ret, err);
}

int ask_get(struct ask *ask, const char *path, json_t **ret, struct err *err)
{
        return ask_json(ask, "GET", path, NULL, ret, err);
}

int ask_patch(struct ask *ask, const char *path, const json_t *body, json_t **ret, struct err *err)
{
        return ask_json(ask, "PATCH", path, body, ret, err);
}

int ask_patch_within(struct ask *ask, const char *path, const json_t *body, nsec limit, json_t **ret, struct err *err)
{
        return ask_json_within(ask, "PATCH", path, body, limit, ret, err);
}

int ask_put(struct ask *ask, const char *path, const json_t *body, json_t **ret, struct err *err)
{
        return ask_json(ask, "PUT", path, body, ret, err);
}

int ask_delete(struct ask *ask, const char *path, struct err *err)
{
        return ask_json(ask, "DELETE", path, NULL, NULL, err);
}

static int ask_take(struct ask *ask, struct http_request *request, struct err *err)
{
        struct http_answer answer;
        int r = ask_call(ask, request, &answer, err);

        buffer_done(&answer.body);
        return r;
}

int ask_stream(struct ask *ask, const char *path, nsec limit, ask_taker *take, void *context, struct err *err)
{
        return ask_take(ask, &(struct http_request){ .path = path, .limit = limit, .take = take, .context = context },
                        err);
}

int ask_lines(struct ask *ask, const char *path, ask_taker *take, void *context, struct err *err)
{
        return ask_take(ask, &(struct http_request){ .path = path, .take = take, .is_lines = true, .context = context },
                        err);
}

bool ask_is_anew(const struct ask *ask)
{
        return ask->is_anew;
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
