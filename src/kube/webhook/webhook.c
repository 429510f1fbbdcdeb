/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet webhook`: the API server asks about pods over HTTPS; review.c decides. */
#include "kube/webhook/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/webhook/review.h"
#include "kube/client/server.h"
#include "base/flags.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BODIES ((size_t)256 << 20)       /* below the manifest's memory limit */
#define REFRESH_EVERY (2 * NSEC_PER_SEC) /* of the certificate */

static const char usage[] =
        "usage: sublet webhook --cert FILE --key FILE [OPTION...]\n"
        "Answers the API server about pods. POST /mutate sets what a pod that rents GPU memory must have, and removes\n"
        "what only Sublet may write; POST /validate refuses what would bypass the gate. GET /healthz.\n\n";

struct webhook {
        struct review_settings review;
        struct server *server;
        const char *listen, *cert, *key, *host;
        nsec life; /* of a certificate for `host` */
        bool is_plain;
};

static void webhook_handle(void *context, const struct server_call *call, struct server_answer *answer)
{
        struct webhook *webhook = context;
        bool is_mutating = !strcmp(call->path, "/mutate");
        json_t *review, *response;

        if (!strcmp(call->method, "GET") && !strcmp(call->path, "/healthz")) {
                server_say(answer, 200, "text/plain", "ok\n");
                return;
        }
        if (strcmp(call->method, "POST") != 0 || (!is_mutating && strcmp(call->path, "/validate") != 0)) {
                server_say(answer, 404, NULL, "{\"error\":\"no such path\"}\n");
                return;
        }
        review = json_loadb(call->body, call->size, 0, NULL);
        response = review_answer(&webhook->review, review, is_mutating);
        json_decref(review);
        answer->body = response ? json_dumps(response, JSON_COMPACT) : NULL;
        answer->size = answer->body ? strlen(answer->body) : 0;
        answer->status = answer->body ? 200 : 500;
        json_decref(response);
}

static void webhook_refresh(void *context)
{
        struct webhook *webhook = context;
        struct err err = { 0 };
        int r = server_refresh(webhook->server, &err);

        if (r)
                (void)fprintf(stderr, "sublet webhook: %s\n", r < 0 ? err.text : "loaded the new certificate");
}

static int webhook_run(struct webhook *webhook)
{
        const struct server_settings settings = { .listen = webhook->listen,
                                                  .cert_file = webhook->cert,
                                                  .key_file = webhook->key,
                                                  .host = webhook->host,
                                                  .life = webhook->life,
                                                  .bodies = BODIES,
                                                  .handle = webhook_handle,
                                                  .context = webhook };
        struct err err = { 0 };
        unsigned int port;
        int r;

        server_block_signals();
        if (!webhook->is_plain && (!webhook->cert || !webhook->key))
                r = err_say(&err, -EINVAL, "webhook needs --cert and --key: the API server speaks HTTPS only");
        else
                r = server_new(&settings, &webhook->server, &port, &err);
        if (r < 0) {
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return r == -EINVAL ? 2 : 1;
        }
        (void)fprintf(stderr, "sublet webhook: listening on %s (port %u)\n", webhook->listen, port);
        server_wait(webhook_refresh, webhook, REFRESH_EVERY);
        (void)server_free(webhook->server);
        return 0;
}

int webhook_main(int argc, char **argv)
{
        struct webhook webhook = { .listen = "0.0.0.0:8443", .review.runtime_class = "sublet", .life = SERVER_LIFE };
        const struct flag flags[] = {
                { "listen", 0, flag_text, &webhook.listen, "ADDR:PORT", "default 0.0.0.0:8443", "SUBLET_LISTEN" },
                { "cert", 0, flag_text, &webhook.cert, "FILE", "certificate, PEM; loaded again when it changes", NULL },
                { "key", 0, flag_text, &webhook.key, "FILE", "its private key", NULL },
                { "host", 0, flag_text, &webhook.host, "NAME",
                  "--cert and --key are an authority: make certificates for NAME from it, and renew them", NULL },
                { "life", 0, flag_span, &webhook.life, "TIME", "of such a certificate; default 30d", NULL },
                { "plain", 0, flag_is, &webhook.is_plain, NULL, "plain HTTP, behind a proxy that speaks HTTPS", NULL },
                { "scheduler", 0, flag_text, &webhook.review.scheduler, "NAME", "schedulerName for pods that rent",
                  "SUBLET_SCHEDULER" },
                { "runtime-class", 0, flag_text, &webhook.review.runtime_class, "NAME",
                  "runtimeClassName for them; default sublet", "SUBLET_RUNTIME_CLASS" },
                { "profile", 0, flag_text, &webhook.review.profile, "PATH", "localhostProfile for their containers",
                  "SUBLET_PROFILE" },
                { "trusted", 0, flag_text, &webhook.review.trusted, "USERS",
                  "users that may write Sublet's annotations", "SUBLET_TRUSTED" },
        };
        int code;

        if (flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code) < 0)
                return code;
        return webhook_run(&webhook);
}
