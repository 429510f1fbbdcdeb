/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/hints.h"

/* What is more than `most` is `most`. False: not digits only. */
static bool digits_read(const unsigned char *text, size_t size, uint64_t most, uint64_t *ret)
{
        uint64_t value = 0;

        if (!size)
                return false;
        for (size_t i = 0; i < size; i++) {
                unsigned int digit = (unsigned int)text[i] - '0';

                if (digit > 9)
                        return false;
                value = digit > most || value > (most - digit) / 10 ? most : value * 10 + digit;
        }
        *ret = value;
        return true;
}

bool hints_deadline(const void *text, size_t size, nsec most, nsec *ret)
{
        uint64_t ms;

        if (most <= 0 || !digits_read(text, size, (uint64_t)most / NSEC_PER_MSEC + 1, &ms) || !ms)
                return false;
        *ret = (nsec)ms <= most / NSEC_PER_MSEC ? (nsec)ms * NSEC_PER_MSEC : most;
        return true;
}

bool hints_priority(const void *text, size_t size, int32_t *ret)
{
        const unsigned char *at = text;
        bool is_negative = size && at[0] == '-';
        uint64_t value;

        if (!digits_read(at + is_negative, size - is_negative, (uint64_t)INT32_MAX + 1, &value) || value > INT32_MAX)
                return false;
        *ret = is_negative ? -(int32_t)value : (int32_t)value;
        return true;
}
