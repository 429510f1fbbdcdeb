/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook's decision about a pod: an AdmissionReview in, one out. Pure.
 *
 * On a pod that rents GPU memory it sets the scheduler, the runtime class and the seccomp profile of each container,
 * removes what only Sublet may write (its annotations, the environment that the runtime sets), gives containers without
 * a device the value "void", and refuses what would bypass the gate or can never be placed. From other pods it removes
 * Sublet's annotations only.
 *
 * What is written in others' words is translated first (translate.h).
 *
 * A container that asks for several devices (gpu-count) gets the sum of them as its gpu-mem and gpu-share, which
 * kubelet counts, and the annotation that says on how many devices that is.
 *
 *  R1  The answer carries the request's uid and is complete whatever was sent.
 *  R2  Only `trusted` users change our annotations; an update by others that would is refused.
 *  R3  Nobody changes the seccomp annotations of a pod that rents. The profile's fields are immutable; the annotations
 *      that older kubelets read instead are not.
 *  R4  A static pod runs already when its kubelet shows it. Refused, it would not be counted, and the next pod would be
 *      sent where kubelet has no room.
 */
#pragma once

#include "kube/webhook/translate.h"

#include <jansson.h>
#include <stdbool.h>

struct review_settings {
        const char *scheduler;     /* schedulerName to set where it is unset or the default; NULL: leave it */
        const char *runtime_class; /* to set where there is none; NULL: leave it */
        const char *profile;       /* localhostProfile of its containers; NULL: only RuntimeDefault is refused */
        const char *trusted;       /* users that may write our annotations, separated by commas; NULL: none */
        struct translate_settings translate;
};

/* is_mutating: POST /mutate, else /validate. The caller's (json_decref); NULL: no memory. */
json_t *review_answer(const struct review_settings *settings, const json_t *review, bool is_mutating);
