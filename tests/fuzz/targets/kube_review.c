/* SPDX-License-Identifier: Apache-2.0 */
/* Any AdmissionReview: both answers are whole and carry its uid, and only one that allows has a patch. */
#include "kube/webhook/review.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const json_t *review, bool is_mutating)
{
        const struct review_settings settings = {
                "gpu-scheduler", "sublet", "sublet.json", "extender", { 3, GIB, 80 * GIB, "gpu-scheduler" }
        };
        json_t *said = review_answer(&settings, review, is_mutating);
        const json_t *response = json_object_get(said, "response"), *allowed = json_object_get(response, "allowed");
        const char *asked = json_string_value(json_object_get(json_object_get(review, "request"), "uid")),
                   *uid = json_string_value(json_object_get(response, "uid"));

        if (!json_is_boolean(allowed) || !uid || strcmp(uid, asked ? asked : "") != 0)
                abort();
        if (json_object_get(response, "patch") && (!is_mutating || !json_is_true(allowed)))
                abort();
        json_decref(said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *review = json_loadb((const char *)data, size, 0, NULL);

        check(review, true);
        check(review, false);
        json_decref(review);
        return 0;
}
