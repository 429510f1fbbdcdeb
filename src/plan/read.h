/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the services (docs/plan.md) and the planner's figures from files. */
#pragma once

#include "plan/plan.h"

#include <jansson.h>

struct err;

struct plan_input {
        struct plan_service services[PLAN_SERVICES_MAX];
        size_t n_services;
        const struct plan_model *devices[PLAN_DEVICES_MAX];
        unsigned int servers[PLAN_DEVICES_MAX]; /* of each device; those of one text are in one machine */
        uint64_t nvlink[PLAN_DEVICES_MAX];      /* bit i: joined with device i */
        size_t n_devices;                       /* 0: the file names none */
        unsigned int n_servers;
};

/* name and lines (NULL: not known) are for messages. 0; -EINVAL. */
struct conf_lines;
int plan_read(const char *name, const json_t *file, const struct conf_lines *lines, struct plan_input *ret,
              struct err *err);

/* "H200", "H200=2", "H200=8:nvlink" (all joined), "A100=4:nvlink=2" (in pairs): appended. 0; -EINVAL. */
int plan_read_gpus(const char *text, struct plan_input *ret, struct err *err);

/*
 * {"turn_loss": 0.03, ...}, or the output of `sublet bench --modes -o FILE`: replaces those values. Measured figures
 * that no plan uses are skipped; a name that a person wrote must be one of ours. 0; -EINVAL.
 */
int plan_read_facts(const char *name, const json_t *file, struct plan_facts *ret, struct err *err);
