/* SPDX-License-Identifier: Apache-2.0 */
/* What kubelet calls: who we are, and claims to prepare and to take back. */
#include "kube/dra/dra.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/dra/claim.h"

#include "dra.pb-c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        PATH = 640,
        CDI_NAME = 128,
        REQUEST_NAME = 128,
        HTTP_OK = 200,
        CLAIMS_MAX = 256, /* in one call */
};

/* For messages that are packed and not kept. */
static char *lend(const char *text)
{
        return (char *)(uintptr_t)(text ? text : "");
}

/* ---- registration ---- */

int dra_info(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        const struct dra *dra = context;
        char *versions[] = { lend("v1.DRAPlugin"), lend("v1beta1.DRAPlugin") };
        Dra__PluginInfo info = DRA__PLUGIN_INFO__INIT;

        (void)request;
        (void)err;
        info.type = lend("DRAPlugin");
        info.name = lend(DRA_DRIVER);
        info.endpoint = lend(dra->path);
        info.versions = versions;
        info.n_versions = ARRAY_SIZE(versions);
        return grpc_message_pack(&info.base, ret);
}

int dra_registered(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        Dra__RegistrationStatus *status = dra__registration_status__unpack(NULL, request->size, request->data);
        struct dra *dra = context;

        if (!status)
                return err_say(err, -EINVAL, "NotifyRegistrationStatus: malformed request");
        if (status->is_registered)
                dra->say("registered with kubelet");
        else
                dra->say("kubelet refused: %s", status->error);
        dra->published_at = 0; /* a kubelet that starts takes slices of drivers away that it does not know yet */
        dra__registration_status__free_unpacked(status, NULL);
        *ret = (struct grpc_message){ 0 };
        return 0;
}

/* ---- reading a claim ---- */

static bool is_segment(const char *text)
{
        return *text && strlen(text) < 254 && !strpbrk(text, "/?#% ");
}

/* Any object; its uid must be `uid`. */
static int get(struct dra *dra, const char *path, const char *uid, json_t **ret, struct err *err)
{
        json_t *answer = NULL;
        const char *have;
        long status = 0;
        int r = api_call(dra->api, "GET", path, NULL, NULL, &status, &answer, err);

        if (r < 0)
                return r;
        have = json_string_value(json_object_get(json_object_get(answer, "metadata"), "uid"));
        if (status == HTTP_OK && have && !strcmp(have, uid)) {
                *ret = answer;
                return 0;
        }
        json_decref(answer);
        if (status == HTTP_OK)
                return err_say(err, -ENOENT, "%s is another one than kubelet asks for", path);
        return err_say(err, -ENOENT, "%s: HTTP status %ld", path, status);
}

/* The pods of a claim; *n of them are the caller's also on failure. */
static int get_pods(struct dra *dra, const json_t *claim, const char *namespace, json_t *ret[static CLAIM_PODS],
                    size_t *n, struct err *err)
{
        struct claim_pod pods[CLAIM_PODS];
        char path[PATH];
        int count = claim_pods(claim, pods, err), r = 0;

        for (int i = 0; r == 0 && i < count; i++) {
                if (!is_segment(pods[i].name))
                        return err_say(err, -EINVAL, "the claim is reserved for a pod without a name");
                (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", namespace, pods[i].name);
                r = get(dra, path, pods[i].uid, &ret[i], err);
                *n += r == 0;
        }
        return count < 0 ? count : r;
}

/* -ETIMEDOUT, -ECONNREFUSED, -EIO: no API server. */
static int read_claim(struct dra *dra, const Dra__Claim *asked, json_t **ret, struct err *err)
{
        json_t *claim = NULL, *pods[CLAIM_PODS];
        char path[PATH];
        size_t n = 0;
        int r;

        if (!is_segment(asked->namespace_) || !is_segment(asked->name) || !is_segment(asked->uid))
                return err_say(err, -EINVAL, "a claim without a name");
        (void)snprintf(path, sizeof(path), DRA_API "/namespaces/%s/resourceclaims/%s", asked->namespace_, asked->name);
        r = get(dra, path, asked->uid, &claim, err);
        if (r == 0)
                r = get_pods(dra, claim, asked->namespace_, pods, &n, err);
        if (r == 0)
                r = claim_read(
                        &(struct claim_view){
                                .node = dra->node,
                                .runtime_class = dra->runtime_class,
                                .devices = dra->devices,
                                .claim = claim,
                                .pods = (const json_t *const *)pods,
                                .n_pods = n,
                        },
                        ret, err);
        for (size_t i = 0; i < n; i++)
                json_decref(pods[i]);
        json_decref(claim);
        return r;
}

static int prepare_claim(struct dra *dra, const Dra__Claim *asked, struct err *err)
{
        json_t *claim = NULL;
        int r;

        if (!dra->devices)
                dra_refresh(dra);
        r = dra->devices ? read_claim(dra, asked, &claim, err) : err_say(err, -EAGAIN, "the daemon does not answer");
        if ((r == -ETIMEDOUT || r == -ECONNREFUSED || r == -EIO || r == -EAGAIN) && book_find(&dra->book, asked->uid))
                r = 0; /* D2 */
        else if (r == 0)
                r = book_put(&dra->book, asked->uid, claim, err);
        if (r == 0)
                r = dra_send_table(dra, err); /* D1 */
        return r;
}

/* ---- answers ---- */

/* Of a device: `request` without the alternative of it, which kubelet does not know. */
struct answer_names {
        char request[REQUEST_NAME], cdi[CDI_NAME];
};

/* A claim's answer, with all that it points to. */
struct answer {
        Dra__PreparedClaim entry;
        Dra__Prepared prepared;
        Dra__Device *devices, **list;
        char **requests, **cdi;
        struct answer_names *names;
        struct err err;
};

static void answers_free(struct answer *answers, size_t n)
{
        for (size_t i = 0; answers && i < n; i++) {
                free(answers[i].devices);
                free(answers[i].list);
                free(answers[i].requests);
                free(answers[i].cdi);
                free(answers[i].names);
        }
        free(answers);
}

static int fill_devices(const struct dra *dra, const json_t *devices, struct answer *to)
{
        size_t n = json_array_size(devices);

        to->devices = calloc(n + 1, sizeof(*to->devices));
        to->list = calloc(n + 1, sizeof(*to->list));
        to->requests = calloc(n + 1, sizeof(*to->requests));
        to->cdi = calloc(n + 1, sizeof(*to->cdi));
        to->names = calloc(n + 1, sizeof(*to->names));
        if (!to->devices || !to->list || !to->requests || !to->cdi || !to->names)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                const json_t *one = json_array_get(devices, i);
                Dra__Device *device = &to->devices[i];

                dra__device__init(device);
                to->list[i] = device;
                (void)snprintf(to->names[i].request, REQUEST_NAME, "%s", claim_text(one, "request"));
                to->names[i].request[strcspn(to->names[i].request, "/")] = '\0';
                to->requests[i] = to->names[i].request;
                device->requests = &to->requests[i];
                device->n_requests = 1;
                device->pool = lend(dra->node);
                device->device = lend(claim_text(one, "device"));
                (void)snprintf(to->names[i].cdi, CDI_NAME, "%s=%s", dra->cdi, claim_text(one, "uuid"));
                to->cdi[i] = to->names[i].cdi;
                device->cdi = &to->cdi[i];
                device->n_cdi = *dra->cdi != '\0';
        }
        to->prepared.devices = to->list;
        to->prepared.n_devices = n;
        return 0;
}

static int answer_claim(struct dra *dra, const Dra__Claim *asked, struct answer *to)
{
        dra__prepared_claim__init(&to->entry);
        dra__prepared__init(&to->prepared);
        to->entry.key = asked->uid;
        to->entry.value = &to->prepared;
        if (prepare_claim(dra, asked, &to->err) == 0)
                return fill_devices(dra, json_object_get(book_find(&dra->book, asked->uid), "devices"), to);
        dra->say("claim %.63s/%.253s: %s", asked->namespace_, asked->name, to->err.text);
        to->prepared.error = to->err.text;
        return 0;
}

int dra_prepare(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        Dra__ClaimsRequest *asked = dra__claims_request__unpack(NULL, request->size, request->data);
        Dra__PrepareAnswer message = DRA__PREPARE_ANSWER__INIT;
        struct answer *answers = NULL;
        Dra__PreparedClaim **list = NULL;
        int r = 0;

        if (!asked || asked->n_claims > CLAIMS_MAX) {
                dra__claims_request__free_unpacked(asked, NULL);
                return err_say(err, -EINVAL, "NodePrepareResources: malformed request");
        }
        answers = calloc(asked->n_claims + 1, sizeof(*answers));
        list = calloc(asked->n_claims + 1, sizeof(Dra__PreparedClaim *));
        if (!answers || !list)
                r = -ENOMEM;
        for (size_t i = 0; r == 0 && i < asked->n_claims; i++) {
                r = answer_claim(context, asked->claims[i], &answers[i]);
                list[i] = &answers[i].entry;
        }
        message.claims = list;
        message.n_claims = asked->n_claims;
        if (r == 0)
                r = grpc_message_pack(&message.base, ret);
        answers_free(answers, asked->n_claims);
        free(list);
        dra__claims_request__free_unpacked(asked, NULL);
        return r;
}

/* D3 */
static void take_back(struct dra *dra, const Dra__Claim *asked, Dra__Unprepared *to, struct err *wrong)
{
        struct err err = { 0 };

        if (book_drop(&dra->book, asked->uid, wrong) < 0)
                to->error = wrong->text;
        else if (dra_send_table(dra, &err) < 0)
                dra->say("%s", err.text);
}

int dra_unprepare(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        Dra__ClaimsRequest *asked = dra__claims_request__unpack(NULL, request->size, request->data);
        struct {
                Dra__UnpreparedClaim entry;
                Dra__Unprepared value;
                struct err err;
        } *answers = NULL;
        Dra__UnprepareAnswer message = DRA__UNPREPARE_ANSWER__INIT;
        Dra__UnpreparedClaim **list = NULL;
        int r = -EINVAL;

        if (!asked || asked->n_claims > CLAIMS_MAX) {
                dra__claims_request__free_unpacked(asked, NULL);
                return err_say(err, r, "NodeUnprepareResources: malformed request");
        }
        answers = calloc(asked->n_claims + 1, sizeof(*answers));
        list = calloc(asked->n_claims + 1, sizeof(Dra__UnpreparedClaim *));
        for (size_t i = 0; answers && list && i < asked->n_claims; i++) {
                dra__unprepared_claim__init(&answers[i].entry);
                dra__unprepared__init(&answers[i].value);
                answers[i].entry.key = asked->claims[i]->uid;
                answers[i].entry.value = &answers[i].value;
                take_back(context, asked->claims[i], &answers[i].value, &answers[i].err);
                list[i] = &answers[i].entry;
        }
        message.claims = list;
        message.n_claims = asked->n_claims;
        r = answers && list ? grpc_message_pack(&message.base, ret) : -ENOMEM;
        free(answers);
        free(list);
        dra__claims_request__free_unpacked(asked, NULL);
        return r;
}
