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

bytes loans_sum(const json_t *loans)
{
        const json_t *loan;
        bytes sum = 0;
        size_t i;

        json_array_foreach (loans, i, loan)
                sum += field_number(loan, "bytes");
        return sum;
}
