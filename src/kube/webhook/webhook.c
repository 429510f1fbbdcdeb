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

static int read_words(const struct flag *flag, const char *words, struct err *err)
{
        struct translate_settings *translate = flag->to;

        translate->words = 0;
        if (!strcmp(words, "none"))
                return 0;
        while (*words) {
                size_t size = strcspn(words, ",");

                if (size == 6 && !strncmp(words, "aliyun", size))
                        translate->words |= TRANSLATE_ALIYUN;
                else if (size == 4 && !strncmp(words, "hami", size))
                        translate->words |= TRANSLATE_HAMI;
                else
                        return flag_refuse(flag, words, "aliyun, hami, or none", err);
                words += size + (words[size] == ',');
        }
        return 0;
}

static int read_unit(const struct flag *flag, const char *text, struct err *err)
{
        bytes *unit = flag->to;

        if (bytes_parse(text, 0, unit) < 0 || *unit % MIB)
                return flag_refuse(flag, text, "a size of whole MiB, as 1G", err);
        return 0;
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
        struct webhook webhook = { .listen = "0.0.0.0:8443",
                                   .review = { .runtime_class = "sublet",
                                               .translate = { TRANSLATE_ALIYUN | TRANSLATE_HAMI, .unit = GIB } },
                                   .life = SERVER_LIFE };
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
                { "translate", 0, read_words, &webhook.review.translate, "WORDS",
                  "whose pods are translated: aliyun (gpushare's), hami, separated by commas, or none\n"
                  "(default: aliyun,hami)",
                  NULL },
                { "unit", 0, read_unit, &webhook.review.translate.unit, "SIZE",
                  "size of one sublet.dev/gpu-mem, as device plugins have it; default 1G", NULL },
                { "device-memory", 0, flag_bytes, &webhook.review.translate.device, "SIZE",
                  "memory of a GPU, for HAMi's pods that ask for a percentage of it", NULL },
        };
        int code;

        if (flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code) < 0)
                return code;
        webhook.review.translate.scheduler = webhook.review.scheduler;
        return webhook_run(&webhook);
}
