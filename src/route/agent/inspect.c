/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/inspect.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "net/http/client.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum {
        LOGS = 4,
        ID_MAX = 64,
};

static void closep_file(FILE **file)
{
        if (*file)
                (void)fclose(*file);
}

static const char *text(const json_t *object, const char *name)
{
        const char *value = json_string_value(json_object_get(object, name));

        return value ? value : "";
}

static long long number(const json_t *object, const char *name)
{
        return (long long)json_number_value(json_object_get(object, name));
}

/* ---- state --------------------------------------------------------------------------------------------------- */

static int fetch_state(const char *dir, json_t **ret, struct err *err)
{
        char base[HTTP_URL];
        const struct http_request request = { .base = base, .path = "/v1/state", .limit = 5 * NSEC_PER_SEC };
        struct http_client *client = NULL;
        struct http_answer answer;
        int r = http_client_new(&client);

        if (r < 0)
                return err_set(err, r, "asking the router");
        (void)snprintf(base, sizeof(base), "unix:%s/api/api.sock", dir);
        *ret = http_call(client, &request, &answer) == 0 && answer.status == 200 ?
                       json_loads(http_text(&answer), 0, NULL) :
                       NULL;
        buffer_done(&answer.body);
        (void)http_client_free(client);
        return *ret ? 0 :
                      err_say(err, -ECONNREFUSED,
                              "no router answers at %s: start it with 'sublet route CONFIG', or name its --dir", dir);
}

static void print_replica(const json_t *entry)
{
        const json_t *models = json_object_get(entry, "models");
        const char *down_for = text(entry, "down_for"), *model = json_string_value(json_array_get(models, 0));
        size_t n = json_array_size(models);

        (void)printf("%-24s %-9s %8lld %9lld %6lld %10lld %10lld %4lld%% %9lld %7lld  %s%s\n", text(entry, "name"),
                     !strcmp(down_for, "failures") || !strcmp(down_for, "hearsay") ? "failing" : text(entry, "state"),
                     number(entry, "inflight"), number(entry, "elsewhere"), number(entry, "wanted"),
                     number(entry, "backlog"), number(entry, "rate_now"), number(entry, "kv_permille") / 10,
                     number(entry, "sent"), number(entry, "failed"), model ? model : "(all)", n > 1 ? ", ..." : "");
}

int route_state(const char *dir, bool is_json, struct err *err)
{
        _cleanup_(json_decrefp) json_t *root = NULL;
        const json_t *list;
        int r = fetch_state(dir, &root, err);

        if (r < 0)
                return r;
        if (is_json) {
                (void)json_dumpf(root, stdout, JSON_INDENT(2));
                (void)putchar('\n');
                return 0;
        }
        list = json_object_get(root, "replicas");
        (void)printf("%-24s %-9s %8s %9s %6s %10s %10s %5s %9s %7s  %s\n", "REPLICA", "STATE", "INFLIGHT", "ELSEWHERE",
                     "HELD", "BACKLOG", "RATE", "KV", "SENT", "FAILED", "MODELS");
        for (size_t i = 0; i < json_array_size(list); i++)
                print_replica(json_array_get(list, i));
        (void)printf("%lld held in all; policy %s; other routers: %lld\n", number(root, "held"),
                     text(json_object_get(root, "settings"), "policy"), number(root, "routers"));
        return 0;
}

/* ---- explain ------------------------------------------------------------------------------------------------- */

static const struct {
        const char *reason, *sentence;
} REASONS[] = {
        { "only", "it was the only replica that could take it" },
        { "cache", "the most of the prompt was cached there, and that outweighed its load" },
        { "load",
          "another replica had more of the prompt cached, but was busier or slower: there it would have taken longer" },
        { "rate", "nothing of the prompt was cached anywhere: this replica would answer first" },
        { "policy", "the policy considers neither load nor cache" },
        { "full", "every better replica was at capacity" },
        { "asleep", "it slept and was still the best choice, so it was woken" },
        { "none", "no replica of this model was up" },
        { "invalid_json", "its body is no JSON object; it was sent to no replica" },
        { "compressed_body", "its body is compressed; it was sent to no replica" },
        { "model_required", "its body names no model; it was sent to no replica" },
        { "model_not_found", "no replica serves this model" },
        { "queue_full", "all replicas were busy, and the queue was full" },
        { "no_replica", "no replica of this model was available" },
        { "deadline", "no replica became free within the time that a request is held" },
        { "replica_failed", "the replica failed before it answered, and no retry helped" },
};

static const char *sentence(const char *reason)
{
        for (size_t i = 0; i < ARRAY_SIZE(REASONS); i++)
                if (!strcmp(REASONS[i].reason, reason))
                        return REASONS[i].sentence;
        return *reason ? reason : "the router answered by itself, without a replica";
}

static void print_line(const json_t *entry)
{
        const char *replica = text(entry, "replica"), *first = text(entry, "first_ms");

        (void)printf("%s  %s %s  from %s%s%s\n", text(entry, "time"), text(entry, "method"), text(entry, "path"),
                     text(entry, "client"), *text(entry, "key") ? ", key " : "", text(entry, "key"));
        (void)printf("  model %s, prompt about %s tokens%s\n", *text(entry, "model") ? text(entry, "model") : "(none)",
                     *text(entry, "prompt") ? text(entry, "prompt") : "0",
                     !strcmp(text(entry, "stream"), "1") ? ", streamed" : "");
        if (*replica)
                (void)printf("  sent to %s: %s\n", replica, sentence(text(entry, "reason")));
        else
                (void)printf("  sent to no replica: %s\n", sentence(text(entry, "reason")));
        if (*replica)
                (void)printf("  %s of its tokens were expected to be cached there; first byte expected after %s ms\n",
                             *text(entry, "matched") ? text(entry, "matched") : "0", text(entry, "expected_ms"));
        if (*text(entry, "held_ms"))
                (void)printf("  held %s ms, first byte after %s%s, %d %s, decided in %s us\n", text(entry, "held_ms"),
                             first, strcmp(first, "-") && *first ? " ms" : "", atoi(text(entry, "tries")),
                             atoi(text(entry, "tries")) == 1 ? "try" : "tries", text(entry, "decision_us"));
        (void)printf("  status %lld after %.3f s, %lld bytes%s%s\n", number(entry, "status"),
                     json_number_value(json_object_get(entry, "seconds")), number(entry, "bytes"),
                     number(entry, "status") == 499 ? ": the client left" : "", "");
        if (strchr(text(entry, "upstream"), ','))
                (void)printf("  tried: %s, which answered %s\n", text(entry, "upstream"),
                             text(entry, "upstream_status"));
}

/* 0: printed; -ENOENT: not in this file. */
static int explain_from(const char *path, const char *id, bool is_json)
{
        _cleanup_(closep_file) FILE *from = fopen(path, "re");
        _cleanup_(freep) char *line = NULL;
        size_t room = 0;

        while (from && getline(&line, &room, from) > 0) {
                _cleanup_(json_decrefp) json_t *entry = strstr(line, id) ? json_loads(line, 0, NULL) : NULL;

                if (!entry || strcmp(text(entry, "id"), id) != 0)
                        continue;
                if (is_json)
                        (void)(json_dumpf(entry, stdout, JSON_INDENT(1)) == 0 && printf("\n"));
                else
                        print_line(entry);
                return 0;
        }
        return -ENOENT;
}

int route_explain(const char *dir, const char *log, const char *id, bool is_json, struct err *err)
{
        char path[1024];

        if (!*id || strlen(id) > ID_MAX)
                return err_say(err, -EINVAL, "expected the X-Request-Id of an answer");
        (void)snprintf(path, sizeof(path), "%s%s", log ? log : dir, log ? "" : "/requests.log");
        for (int i = 0; i <= LOGS; i++) {
                char aside[1040];

                (void)snprintf(aside, sizeof(aside), i ? "%s.%d" : "%s", path, i);
                if (explain_from(aside, id, is_json) == 0)
                        return 0;
        }
        return err_say(err, -ENOENT, "no request %s in %s (nor in the rotated logs)", id, path);
}
