/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/webhook/translate.h"

/* Whether what a pod says newly of its sleep (ANNOTATION_SET_SLEEP) is a time. old: what the pod was, NULL at its
 * creation; a bad value that is there already does not keep others from changing the pod. */
bool sleep_judge(const json_t *old, const json_t *pod, char why[static TRANSLATE_WHY]);
