/* SPDX-License-Identifier: Apache-2.0 */
/* The AdmissionReview that answers a request. Each is the caller's (json_decref); NULL: no memory. */
#pragma once

#include <jansson.h>

json_t *answer_refuse(const json_t *request, const char *why);

/* Takes `patches` over; NULL or empty: nothing is changed. */
json_t *answer_allow(const json_t *request, json_t *patches);
