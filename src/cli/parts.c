/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/parts.h"

#include "ask/field.h"

#include <stdio.h>

void engines_format(const json_t *engines, char *ret, size_t size)
{
        size_t used = 0;
        const char *name;
        json_t *on;

        *ret = '\0';
        json_object_foreach ((json_t *)engines, name, on) {
                char clean[32];

                if (used >= size || (field_permille(on, "granted_permille") < 1 && !field_is(on, "is_off")))
                        continue;
                used += (size_t)snprintf(ret + used, size - used, "%s%s %.0f%%%s", used ? ", " : "",
                                         field_clean(name, clean, sizeof(clean)),
                                         field_permille(on, "granted_permille") / 10,
                                         field_is(on, "is_off") ? "*" : "");
        }
}

void goal_format(const json_t *tenant, const json_t *device, char *ret, size_t size)
{
        const json_t *steps = json_object_get(device, "steps");
        double goal = field_real(tenant, "latency_us") / 1000;
        char p99[24] = "?", late[32] = "";

        *ret = '\0';
        if (goal <= 0)
                return;
        if (field_number(steps, "count"))
                (void)snprintf(p99, sizeof(p99), "%.3g", field_real(steps, "p99_us") / 1000);
        if (field_number(steps, "late"))
                (void)snprintf(late, sizeof(late), ", %llu late", (unsigned long long)field_number(steps, "late"));
        (void)snprintf(ret, size, "%s of %.3g ms%s", p99, goal, late);
}

bytes loans_sum(const json_t *loans)
{
        const json_t *loan;
        bytes sum = 0;
        size_t i;

        json_array_foreach (loans, i, loan)
                sum += field_number(loan, "bytes");
        return sum;
}
