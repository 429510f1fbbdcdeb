/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/webhook/sleep.h"

#include "kube/client/names.h"
#include "kube/client/sleep_after.h"

#include <stdio.h>
#include <string.h>

static const json_t *value_of(const json_t *pod)
{
        return json_object_get(json_object_get(json_object_get(pod, "metadata"), "annotations"), ANNOTATION_SET_SLEEP);
}

bool sleep_judge(const json_t *old, const json_t *pod, char why[static TRANSLATE_WHY])
{
        const json_t *is = value_of(pod), *was = value_of(old);
        const char *text = json_string_value(is);
        nsec after;

        if (!text || json_equal(is, was) || sleep_after_parse(text, &after) == 0)
                return true;
        (void)snprintf(why, TRANSLATE_WHY, "annotation %s: %.40s: " SLEEP_AFTER_WORDS, ANNOTATION_SET_SLEEP, text);
        return false;
}
