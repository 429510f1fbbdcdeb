/* SPDX-License-Identifier: Apache-2.0 */
#include "base/when.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SPAN_MAX (NSEC_PER_SEC * 86400 * 366 * 100)

/* In the order in which a text names them. */
static const struct unit {
        const char *name;
        nsec length;
} units[] = {
        { "d", 86400 * NSEC_PER_SEC },
        { "h", 3600 * NSEC_PER_SEC },
        { "m", 60 * NSEC_PER_SEC },
        { "s", NSEC_PER_SEC },
        { "ms", NSEC_PER_MSEC },
        { "us", NSEC_PER_USEC },
        { "ns", 1 },
};

/* Digits with an optional fraction of at most nine: no sign, no exponent, no locale. */
struct decimal {
        nsec units, billionths;
        int n_decimals;
};

static int decimal_parse(const char *text, struct decimal *ret, const char **ret_end)
{
        struct decimal value = { 0 };
        nsec place = 100000000;

        if (!isdigit((unsigned char)*text))
                return -EINVAL;
        for (; isdigit((unsigned char)*text); text++) {
                if (value.units > SPAN_MAX / 10)
                        return -ERANGE;
                value.units = value.units * 10 + (*text - '0');
        }
        if (*text == '.') {
                if (!isdigit((unsigned char)*++text))
                        return -EINVAL;
                for (; isdigit((unsigned char)*text); text++, place /= 10, value.n_decimals++)
                        value.billionths += place * (*text - '0');
        }
        *ret = value;
        *ret_end = text;
        return 0;
}

/* The unit that text names, at or behind `from`; NULL: none. */
static const struct unit *unit_find(const char *text, size_t length, const struct unit *from)
{
        for (; from < units + ARRAY_SIZE(units); from++)
                if (strlen(from->name) == length && !strncmp(from->name, text, length))
                        return from;
        return NULL;
}

/* A number of units; rounded down to a nanosecond. */
static int times(struct decimal value, nsec unit, nsec *ret)
{
        __int128 span = (__int128)value.units * unit + (__int128)value.billionths * unit / 1000000000;

        if (span > SPAN_MAX)
                return -ERANGE;
        *ret = (nsec)span;
        return 0;
}

int duration_parse(const char *text, nsec *ret)
{
        const struct unit *unit, *from = units;
        struct decimal value;
        nsec sum = 0, part;
        const char *end;
        size_t length;
        int r;

        do {
                r = decimal_parse(text, &value, &end);
                if (r < 0)
                        return r;
                length = strspn(end, "dhmsun");
                unit = !*end && from == units ? &units[3] : unit_find(end, length, from);
                if (!unit)
                        return -EINVAL;
                r = times(value, unit->length, &part);
                if (r < 0)
                        return r;
                sum += part;
                if (sum > SPAN_MAX)
                        return -ERANGE;
                from = unit + 1;
                text = end + length;
        } while (*text);
        *ret = sum;
        return 0;
}

const char *duration_format(nsec span, char buffer[static WHEN_TEXT])
{
        static const char *const names[] = { "d", "h", "min", "s", "ms", "us", "ns" };
        size_t i = 0;

        while (i + 1 < ARRAY_SIZE(units) && span != units[i].length && span < 2 * units[i].length)
                i++;
        if (span <= 0)
                return strcpy(buffer, "0 s");
        (void)snprintf(buffer, WHEN_TEXT, "%lld %s", (long long)(span / units[i].length), names[i]);
        return buffer;
}

/* A date, and a time of it: the whole text. */
static bool date_parse(const char *text, nsec *ret)
{
        static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
                                             "%Y-%m-%dT%H:%M:%S" };

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                struct tm tm = { .tm_isdst = -1 };
                const char *end = strptime(text, forms[i], &tm);
                int day = tm.tm_mday;
                time_t seconds;

                if (!end || (*end && strcmp(end, "Z") != 0))
                        continue;
                seconds = *end ? timegm(&tm) : mktime(&tm);
                if (tm.tm_mday != day || seconds < 0 || seconds > SPAN_MAX / NSEC_PER_SEC) /* no 31st of February */
                        return false;
                *ret = (nsec)seconds * NSEC_PER_SEC;
                return true;
        }
        return false;
}

/* "today" and "yesterday": their midnight. */
static bool day_parse(const char *text, nsec now, nsec *ret)
{
        bool is_yesterday = !strcmp(text, "yesterday");
        time_t seconds = (time_t)(now / NSEC_PER_SEC);
        struct tm tm;

        if ((!is_yesterday && strcmp(text, "today") != 0) || !localtime_r(&seconds, &tm))
                return false;
        tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
        tm.tm_mday -= is_yesterday;
        tm.tm_isdst = -1;
        seconds = mktime(&tm);
        *ret = seconds > 0 ? (nsec)seconds * NSEC_PER_SEC : 0;
        return true;
}

int since_parse(const char *text, nsec now, nsec *ret)
{
        size_t digits = strspn(text, "0123456789");
        nsec span = 0;
        int r;

        if (date_parse(text, ret) || day_parse(text, now, ret))
                return 0;
        r = duration_parse(text, &span);
        if (r < 0)
                return r;
        if (digits > 8 && (!text[digits] || text[digits] == '.')) { /* of the epoch */
                *ret = span;
                return 0;
        }
        if (span > now)
                return -ERANGE;
        *ret = now - span;
        return 0;
}

const char *moment_format(nsec moment, char buffer[static WHEN_TEXT])
{
        time_t seconds = (time_t)(moment / NSEC_PER_SEC);
        struct tm tm;

        if (!localtime_r(&seconds, &tm) || !strftime(buffer, WHEN_TEXT, "%Y-%m-%d %H:%M:%S", &tm))
                (void)strcpy(buffer, "-");
        return buffer;
}

int permille_parse(const char *text, unsigned int *ret)
{
        struct decimal value;
        nsec permille;
        const char *end;
        int r = decimal_parse(text, &value, &end);

        if (r < 0)
                return r;
        if (value.n_decimals > 1 || (*end && strcmp(end, "%") != 0))
                return -EINVAL;
        if (value.units > 100)
                return -ERANGE;
        permille = value.units * 10 + value.billionths / 100000000;
        if (permille < 1 || permille > 1000)
                return -ERANGE;
        *ret = (unsigned int)permille;
        return 0;
}

const char *permille_format(unsigned int permille, char buffer[static WHEN_TEXT])
{
        if (permille % 10)
                (void)snprintf(buffer, WHEN_TEXT, "%u.%u%%", permille / 10, permille % 10);
        else
                (void)snprintf(buffer, WHEN_TEXT, "%u%%", permille / 10);
        return buffer;
}
