/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/read.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Whether there is such a fact. */
static bool fact_put(struct plan_facts *facts, const char *name, double value)
{
        const struct {
                const char *name;
                double *value;
        } rows[PLAN_N_FACTS] = {
#define FACT(name, value, unit, meaning, source) { #name, &facts->name },
#include "plan/facts.def"
#undef FACT
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (!strcmp(name, rows[i].name)) {
                        *rows[i].value = value;
                        facts->is_replaced[i] = true;
                        return true;
                }
        return false;
}

/* A part, a rate, a size: finite, and not negative. */
static bool is_figure(const json_t *value)
{
        return json_is_number(value) && json_number_value(value) >= 0 && json_number_value(value) < 1e9;
}

static const char *word_of(const json_t *file, const char *key)
{
        const char *text = json_string_value(json_object_get(file, key));

        return text ? text : "?";
}

static int read_measured(const char *name, const json_t *file, struct plan_facts *ret, struct err *err)
{
        const json_t *list = json_object_get(file, "measured"), *row;
        size_t i;

        json_array_foreach ((json_t *)(uintptr_t)list, i, row) {
                const char *fact = json_string_value(json_object_get(row, "name"));
                const json_t *value = json_object_get(row, "value");

                if (!fact || (value && !is_figure(value)))
                        return err_say(err, -EINVAL, "%s: measured: number %zu has no name, or a value that is none",
                                       name, i + 1);
                if (value)
                        (void)fact_put(ret, fact, json_number_value(value));
        }
        (void)snprintf(ret->from, sizeof(ret->from), "measured on %.60s%s, %.40s, %.20s: %.60s",
                       word_of(file, "device"), json_is_true(json_object_get(file, "simulated")) ? " (simulated)" : "",
                       word_of(file, "driver"), word_of(file, "date"), name);
        return 0;
}

int plan_read_facts(const char *name, const json_t *file, struct plan_facts *ret, struct err *err)
{
        const char *key;
        json_t *value;

        if (!json_is_object(file))
                return err_say(err, -EINVAL, "%s: {\"name\": value, ...} is needed", name);
        if (json_is_array(json_object_get(file, "measured")))
                return read_measured(name, file, ret, err);
        json_object_foreach ((json_t *)(uintptr_t)file, key, value) {
                if (!is_figure(value) || !fact_put(ret, key, json_number_value(value)))
                        return err_say(err, -EINVAL, "%s: '%s' is no fact with a number ('sublet plan --facts')", name,
                                       key);
        }
        (void)snprintf(ret->from, sizeof(ret->from), "%.200s", name);
        return 0;
}
