/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/webhook/answer.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static json_t *base64(const char *text)
{
        size_t n = strlen(text), at = 0;
        _cleanup_(freep) char *to = malloc(n / 3 * 4 + 5);

        if (!to)
                return NULL;
        for (size_t i = 0; i < n; i += 3) {
                unsigned int left = (unsigned int)(n - i), a = (unsigned char)text[i],
                             b = left > 1 ? (unsigned char)text[i + 1] : 0,
                             c = left > 2 ? (unsigned char)text[i + 2] : 0;

                to[at++] = digits[a >> 2];
                to[at++] = digits[(a & 3) << 4 | b >> 4];
                to[at++] = left > 1 ? digits[(b & 15) << 2 | c >> 6] : '=';
                to[at++] = left > 2 ? digits[c & 63] : '=';
        }
        return json_stringn(to, at);
}

static json_t *wrap(const json_t *request, json_t *response)
{
        const char *uid = json_string_value(json_object_get(request, "uid"));

        (void)json_object_set_new(response, "uid", json_string(uid ? uid : ""));
        return json_pack("{s:s,s:s,s:o}", "apiVersion", "admission.k8s.io/v1", "kind", "AdmissionReview", "response",
                         response);
}

json_t *answer_refuse(const json_t *request, const char *why)
{
        return wrap(request, json_pack("{s:b,s:{s:s,s:i}}", "allowed", 0, "status", "message", why, "code", 403));
}

json_t *answer_allow(const json_t *request, json_t *patches)
{
        json_t *response = json_pack("{s:b}", "allowed", 1);
        _cleanup_(freep) char *text = json_array_size(patches) ? json_dumps(patches, JSON_COMPACT) : NULL;

        if (text) {
                (void)json_object_set_new(response, "patchType", json_string("JSONPatch"));
                (void)json_object_set_new(response, "patch", base64(text));
        }
        json_decref(patches);
        return wrap(request, response);
}
