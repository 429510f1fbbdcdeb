/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/exchange.h"

static bytes plus(bytes a, bytes b)
{
        return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}

void exchange_add(struct exchange *exchange, bytes size)
{
        exchange->sum = plus(exchange->sum, size);
        if (size > exchange->largest) {
                exchange->second = exchange->largest;
                exchange->largest = size;
        } else if (size > exchange->second) {
                exchange->second = size;
        }
}

void exchange_host_add(struct exchange_host *host, const struct exchange *exchange, bytes room)
{
        bytes two = plus(exchange->largest, exchange->second);

        host->sum = plus(host->sum, exchange->sum);
        if (exchange->sum > room)
                host->needed = plus(host->needed, two < room ? exchange->sum - (room - two) : exchange->sum);
}

bytes exchange_host_needs(const struct exchange_host *host, bool is_spread)
{
        return host->needed && is_spread ? host->sum : host->needed;
}
