/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of methods.def. Each reads and writes params (perhaps empty) and answers a status. */
#pragma once

#include "sim/server/machine.h"

struct method_call {
        struct machine *machine;
        struct request *request;
        struct object *object; /* whose method it is; perhaps the client's top */
        struct gpu *gpu;       /* of the object; NULL: none */
        struct part *params;
};

static inline uint32_t params_get(const struct method_call *call, size_t at)
{
        return rm_get32(call->params->data, call->params->size, at);
}

static inline void params_put(struct method_call *call, size_t at, uint32_t value)
{
        rm_put32(call->params->data, call->params->size, at, value);
}

/* Handlers: here, in objects/exports.c and in engine/records.c. */
#define METHOD(number, size, handler) uint32_t method_##handler(struct method_call *call);
#include "sim/methods/methods.def"
#undef METHOD
