/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/scan_inside.h"

#include <stdlib.h>
#include <string.h>

bool scan_whole_number(const char *text, int64_t *ret)
{
        const double most = 9e15;
        double number;
        char *end;

        *ret = strtoll(text, &end, 10);
        if (!*end)
                return true;
        number = strtod(text, NULL);
        if (!(number >= -most && number <= most) || number != (double)(int64_t)number)
                return false;
        *ret = (int64_t)number;
        return true;
}

bool scan_is_number(const char *text)
{
        if (*text == '-')
                text++;
        if (*text == '0')
                text++;
        else if (*text >= '1' && *text <= '9')
                text += strspn(text, "0123456789");
        else
                return false;
        if (*text == '.') {
                size_t n = strspn(++text, "0123456789");

                if (!n)
                        return false;
                text += n;
        }
        if (*text == 'e' || *text == 'E') {
                text += 1 + (text[1] == '+' || text[1] == '-');
                if (!strspn(text, "0123456789"))
                        return false;
                text += strspn(text, "0123456789");
        }
        return !*text;
}
