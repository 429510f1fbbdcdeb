/* SPDX-License-Identifier: Apache-2.0 */
/* The events that an operator can see, one constant per row of events.def. */
#pragma once

enum event_kind {
#define EVENT(name, level, line, meaning) EVENT_##name,
#include "sublet/events.def"
#undef EVENT
        EVENT_N,
};
