/* SPDX-License-Identifier: Apache-2.0 */
/* JSON patches (RFC 6902) that the webhook answers with, and the one that needs arithmetic. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* Takes value over; NULL: none. */
void patch_add(json_t *patches, const char *op, const char *path, json_t *value);

/* A key as a token of a JSON pointer (RFC 6901); what does not fit is cut off. */
void patch_escape(const char *key, char *to, size_t size);

/*
 * For each ordinary container that asks for `gpu-count: N` beside gpu-mem: gpu-mem and gpu-share become N times as
 * much, gpu-count goes, and the annotation ANNOTATION_COUNTS says N. Asked again of its own result it changes nothing.
 * What cannot be granted (no gpu-mem, N of 0, more than PLACEMENT_WANTS) stays, and is refused by object_pod_read.
 */
void patch_counts(const json_t *pod, json_t *patches);
