/* SPDX-License-Identifier: Apache-2.0 */
/* From a notification to an answer. */
#pragma once

#include "gate/request.h"

/* A value for the tenant's system call, -errno or GATE_GO_ON. */
int64_t serve_notification(struct worker *worker, const struct seccomp_notif *notification);
int64_t serve_mmap(struct worker *worker, const struct seccomp_notif *notification, struct process *process);

bool request_is_awaited(const struct request *request); /* host.h, is_awaited */
bool request_is_there(const struct request *request);   /* host.h, is_there */
