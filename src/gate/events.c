/* SPDX-License-Identifier: Apache-2.0 */
/* What a gate tells its owner. */
#include "gate/inside.h"

#include "base/cleanup.h"

#include <stdarg.h>
#include <stdio.h>

void gate_tell(struct gate *gate, enum event_kind event, pid_t process, const char *format, ...)
{
        char detail[256];
        va_list args;
        LOCKED(&gate->event_lock);

        va_start(args, format);
        (void)vsnprintf(detail, sizeof(detail), format, args);
        va_end(args);
        gate->n_events[event]++;
        if (gate->options.event)
                gate->options.event(gate->options.event_context, event, process, detail);
}

void gate_refused(struct gate *gate, enum rm_kind kind, uint32_t number, unsigned int capability)
{
        LOCKED(&gate->event_lock);

        refusals_note(&gate->refusals, kind, number, capability);
}

void gate_record_end(struct gate *gate)
{
        LOCKED(&gate->event_lock);

        gate->is_recorded = false;
}

static bool take_returned(struct gate *gate, uint64_t *ret)
{
        LOCKED(&gate->ledger_lock);

        return ledger_returned(gate->ledger, ret);
}

void gate_usage_changed(struct gate *gate)
{
        uint64_t loan;

        while (gate->options.give_back && take_returned(gate, &loan))
                gate->options.give_back(gate->options.node_context, loan);
        if (gate->options.usage_changed)
                gate->options.usage_changed(gate->options.node_context);
}

static const struct {
        const char *name, *level, *line;
} texts[] = {
#define EVENT(name, level, line, meaning) { #name, #level, line },
#include "sublet/events.def"
#undef EVENT
};

const char *gate_event_name(enum event_kind event)
{
        return (size_t)event < ARRAY_SIZE(texts) ? texts[event].name : "?";
}

const char *gate_event_level(enum event_kind event)
{
        return texts[event].level;
}

const char *gate_event_line(enum event_kind event)
{
        return texts[event].line;
}
