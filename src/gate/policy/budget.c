/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/policy/budget.h"

bool budget_count(struct budget *budget, nsec now, nsec used)
{
        nsec left = budget->left + (now - budget->counted_at) - (used - budget->used);

        if (!budget->counted_at)
                left = BUDGET_BURST;
        left = left > BUDGET_BURST ? BUDGET_BURST : left;
        *budget = (struct budget){ left < -BUDGET_BURST ? -BUDGET_BURST : left, now, used };
        return left < 0;
}
