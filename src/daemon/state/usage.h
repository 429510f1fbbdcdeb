/* SPDX-License-Identifier: Apache-2.0 */
/* From the control blocks to the store, once a second. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

void usage_start(struct daemon *daemon, struct tenant *tenant);   /* when its control block is mapped */
void usage_restart(struct daemon *daemon, struct tenant *tenant); /* its control block is new and counts from 0 */
void usage_count(struct daemon *daemon);                          /* once a second, and before usage is listed */
void usage_count_last(struct daemon *daemon, struct tenant *tenant);
