/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        LIKE_MAX = 31, /* longest word that text_is_like compares */
};

/* "K", "Ki", "KB", "KiB", any case. Returns the shift, or -1. */
static int unit_shift(const char *unit)
{
        static const char units[] = "KMGTPE";
        const char *at;

        if (!*unit || !strcasecmp(unit, "B"))
                return 0;
        at = strchr(units, toupper((unsigned char)*unit));
        if (!at)
                return -1;
        unit++;
        if (*unit == 'i' || *unit == 'I')
                unit++;
        if (*unit == 'b' || *unit == 'B')
                unit++;
        return *unit ? -1 : (int)(at - units + 1) * 10;
}

struct decimal {
        uint64_t units, millionths;
};

/* Digits with an optional fraction, of which six digits count; no sign, no exponent, no locale. */
static int decimal_parse(const char *text, struct decimal *ret, const char **ret_end)
{
        struct decimal value = { 0 };
        uint64_t place = 100000;

        if (!isdigit((unsigned char)*text))
                return -EINVAL;
        for (; isdigit((unsigned char)*text); text++) {
                if (value.units > INT64_MAX / 10)
                        return -ERANGE;
                value.units = value.units * 10 + (uint64_t)(*text - '0');
        }
        if (*text == '.') {
                if (!isdigit((unsigned char)*++text))
                        return -EINVAL;
                for (; isdigit((unsigned char)*text); text++, place /= 10)
                        value.millionths += place * (uint64_t)(*text - '0');
        }
        *ret = value;
        *ret_end = text;
        return 0;
}

/* value * unit, rounded down. */
static unsigned __int128 times(struct decimal value, uint64_t unit)
{
        return (unsigned __int128)value.units * unit + (unsigned __int128)value.millionths * unit / 1000000;
}

int bytes_parse(const char *text, bytes whole, bytes *ret)
{
        unsigned __int128 size;
        struct decimal value;
        const char *end;
        int shift, r;

        r = decimal_parse(text, &value, &end);
        if (r < 0)
                return r;
        if (end[0] == ' ' && end[1])
                end++;
        if (!strcmp(end, "%")) {
                if (value.units > 100 || (value.units == 100 && value.millionths))
                        return -ERANGE;
                size = times(value, whole) / 100;
        } else {
                shift = unit_shift(end);
                if (shift < 0 || (shift == 0 && value.millionths))
                        return -EINVAL;
                size = times(value, (uint64_t)1 << shift);
                if (size && size < MIB && !*end)
                        return -EINVAL;
        }
        if (!size || size > INT64_MAX)
                return -ERANGE;
        *ret = (bytes)size;
        return 0;
}

const char *bytes_wrong(const char *text, const char *otherwise, char buffer[static BYTES_WRONG])
{
        uint64_t number;

        if (text[strspn(text, "0123456789")] || number_parse(text, &number) < 0 || !number || number >= MIB)
                return otherwise;
        (void)snprintf(buffer, BYTES_WRONG, "a unit is missing: did you mean %llu%s?", (unsigned long long)number,
                       number < 1024 ? "G" : "M");
        return buffer;
}

/* Edits between two words, two exchanged neighbours being one; `rows` are those of the last three prefixes of a. */
static size_t distance(const char *a, const char *b, size_t n, size_t m)
{
        size_t rows[3][LIKE_MAX + 1];

        for (size_t k = 0; k <= m; k++)
                rows[0][k] = k;
        for (size_t i = 1; i <= n; i++) {
                size_t *row = rows[i % 3];
                const size_t *above = rows[(i + 2) % 3];

                row[0] = i;
                for (size_t k = 1; k <= m; k++) {
                        size_t least = above[k - 1] + (a[i - 1] != b[k - 1]);

                        if (above[k] + 1 < least)
                                least = above[k] + 1;
                        if (row[k - 1] + 1 < least)
                                least = row[k - 1] + 1;
                        if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                            rows[(i + 1) % 3][k - 2] + 1 < least)
                                least = rows[(i + 1) % 3][k - 2] + 1;
                        row[k] = least;
                }
        }
        return rows[n % 3][m];
}

bool text_is_like(const char *word, const char *name)
{
        size_t n = strlen(word), m = strlen(name);

        return n > 1 && n <= LIKE_MAX && m <= LIKE_MAX && distance(word, name, n, m) <= (n < 5 && m < 5 ? 1U : 2U);
}

const char *bytes_format(bytes size, char buffer[static BYTES_TEXT])
{
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
        size_t unit = 0;
        bytes scaled = size, tenths = 0;

        while (scaled >= 1024) {
                tenths = (scaled % 1024) * 10 / 1024;
                scaled /= 1024;
                unit++;
        }
        if (unit && scaled < 100 && tenths)
                (void)snprintf(buffer, BYTES_TEXT, "%llu.%llu %s", (unsigned long long)scaled,
                               (unsigned long long)tenths, units[unit]);
        else
                (void)snprintf(buffer, BYTES_TEXT, "%llu %s", (unsigned long long)scaled, units[unit]);
        return buffer;
}

int number_parse(const char *text, uint64_t *ret)
{
        char *end;
        unsigned long long value;

        if (!isdigit((unsigned char)*text))
                return -EINVAL;
        errno = 0;
        value = strtoull(text, &end, text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10);
        if (*end)
                return -EINVAL;
        if (errno)
                return -ERANGE;
        *ret = value;
        return 0;
}

static bool is_bus_id(const char *text, const char *bus_id)
{
        size_t n = strlen(text), whole = strlen(bus_id);

        return (n == strlen("18:00.0") || n == strlen("0000:18:00.0") || n == whole) && n <= whole &&
               !strcasecmp(text, bus_id + whole - n) && strspn(bus_id, "0:") >= whole - n;
}

bool device_name_fits(const char *text, const char *uuid, const char *bus_id)
{
        return (!strncasecmp(text, "GPU-", 4) && text[4] && !strncasecmp(text, uuid, strlen(text))) ||
               is_bus_id(text, bus_id);
}
