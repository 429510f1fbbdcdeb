/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the API: the parts of GET /metrics. */
#pragma once

#include <stdio.h>

struct daemon;

/* The families about devices. device_read has been called for each. */
void metrics_devices(FILE *to, const struct daemon *daemon);
