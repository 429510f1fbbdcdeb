/* SPDX-License-Identifier: Apache-2.0 */
#include "route/hints.h"

/* At most `most`. False: no digits only, or more. */
static bool digits_read(const unsigned char *text, size_t size, uint64_t most, uint64_t *ret)
{
        uint64_t value = 0;

        if (!size)
                return false;
        for (size_t i = 0; i < size; i++) {
                unsigned int digit = (unsigned int)text[i] - '0';

                if (digit > 9 || digit > most || value > (most - digit) / 10)
                        return false;
                value = value * 10 + digit;
        }
        *ret = value;
        return true;
}

bool hints_deadline(const void *text, size_t size, nsec most, nsec *ret)
{
        uint64_t ms;

        if (most <= 0 || !digits_read(text, size, (uint64_t)(most - 1) / NSEC_PER_MSEC, &ms) || !ms)
                return false;
        *ret = (nsec)ms * NSEC_PER_MSEC;
        return true;
}

bool hints_priority(const void *text, size_t size, int32_t *ret)
{
        const unsigned char *at = text;
        bool is_negative = size && at[0] == '-';
        uint64_t value;

        if (!digits_read(at + is_negative, size - is_negative, INT32_MAX, &value))
                return false;
        *ret = is_negative ? -(int32_t)value : (int32_t)value;
        return true;
}
