/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the annotations of a running pod ask of its containers' tenants (ANNOTATION_SET_x), as the daemon's PATCH. Pure.
 *
 *  R1  No more than kubelet has allocated: memory and share can be lowered, and raised again up to that. So the books
 *      of kubelet and of the scheduler stay true, and what grows fits. Cap, class, goal and sleep are the pod's own
 *      choice.
 *  R2  All that a pod asks of a container's tenant is changed, or nothing, with the reason.
 */
#pragma once

#include "base/text.h"

#include <jansson.h>

struct err;

struct resize_row {
        bytes memory;       /* allocated on each of its devices */
        unsigned int share; /* permille; 0: none was allocated */
};

/* What is asked for, of a pod's annotations: {"share":"40","class":"batch"}. The caller's; NULL: nothing. */
json_t *resize_read(const json_t *annotations);

/* 0, and *ret is the caller's; -EINVAL: refused, with err; -ENOMEM. */
int resize_make(const json_t *asked, const struct resize_row *row, json_t **ret, struct err *err);
