/* From the control blocks to the store, once a second. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

void usage_start(struct daemon *daemon, struct tenant *tenant); /* once its control block is there */
void usage_restart(struct daemon *daemon,
                   struct tenant *tenant); /* its control block is a new one, which begins at 0 */
void usage_count(struct daemon *daemon);   /* once a second, and before somebody asks */
void usage_count_last(struct daemon *daemon, struct tenant *tenant);
