/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/refusals.h"

void refusals_note(struct refusals *refusals, enum rm_kind kind, uint32_t number, unsigned int capability)
{
        for (size_t i = 0; i < refusals->n_rows; i++) {
                struct refusal *row = &refusals->rows[i];

                if (row->kind == kind && row->number == number && row->capability == capability) {
                        row->n++;
                        return;
                }
        }
        if (refusals->n_rows < REFUSALS_MAX)
                refusals->rows[refusals->n_rows++] = (struct refusal){ kind, number, capability, 1 };
        else
                refusals->n_others++;
}

uint64_t refusals_count(const struct refusals *refusals)
{
        uint64_t n = refusals->n_others;

        for (size_t i = 0; i < refusals->n_rows; i++)
                n += refusals->rows[i].n;
        return n;
}
