/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods written for others' GPU sharing, in our words: gpushare's (aliyun.com/gpu-mem) and HAMi's (nvidia.com/gpumem and
 * what goes with it). Nodes offer our resources only, so no device is booked by two.
 *
 *  V1  What cannot be translated whole is left as it is, and translate_problem says why: nothing is dropped in silence.
 *  V2  HAMi's words in a pod that names another scheduler are somebody else's, and so is nvidia.com/gpu alone.
 *  V3  A container asks in one vocabulary. Where any asks in ours or in a translated one, none has nvidia.com/gpu.
 */
#pragma once

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
        TRANSLATE_ALIYUN = 1,
        TRANSLATE_HAMI = 2,
        TRANSLATE_WHY = 256,
};

struct translate_settings {
        unsigned int words;    /* TRANSLATE_*: whose */
        bytes unit;            /* of one NAME_MEMORY, whole MiB */
        bytes device;          /* memory of a GPU, for percentages of it; 0: not known */
        const char *scheduler; /* ours; NULL: any but the default is another (V2) */
};

/*
 * The pod in our words: a copy, the caller's (json_decref), and patches that make it of `pod`. NULL: there was nothing
 * to translate, or no memory.
 */
json_t *translate_pod(const struct translate_settings *settings, const json_t *pod, json_t *patches);

/* Why a pod cannot be translated, or asks in two vocabularies (V1, V3). false: nothing is wrong. */
bool translate_problem(const struct translate_settings *settings, const json_t *pod, char why[static TRANSLATE_WHY]);

/*
 * gpushare's four variables for a container of a pod with ANNOTATION_VOCABULARY: its own memory, and references to the
 * annotations that the extender writes. at: the container's path. Nothing for other pods.
 */
void translate_variables(const json_t *pod, const json_t *container, const char *at, json_t *patches);

/* Whether a variable of a name that is Sublet's says what it may: one of the four as above, or the container's class,
 * which is its own choice (docs/containers.md). */
bool translate_may_set(const json_t *container, const json_t *variable);
