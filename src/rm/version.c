/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions are ordered by their three numbers. Order alone says nothing about the ABI: between releases there are
 * developer tags with blocks of their own. So a layout is used only for a version in a range of releases.def; a newer
 * patch level of a known branch is unknown until its source was read.
 */
#include "rm/version.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* At most four digits, so that nothing overflows. NULL: not a number. */
static const char *part_parse(const char *text, unsigned int *ret)
{
        unsigned int value = 0;
        int n = 0;

        for (; *text >= '0' && *text <= '9'; text++) {
                if (++n > 4)
                        return NULL;
                value = value * 10 + (unsigned int)(*text - '0');
        }
        if (n == 0)
                return NULL;

        *ret = value;
        return text;
}

int rm_version_parse(const char *text, struct rm_version *ret)
{
        struct rm_version version = { 0 };

        text = part_parse(text, &version.branch);
        if (!text || *text != '.')
                return -EINVAL;
        text = part_parse(text + 1, &version.minor);
        if (text && *text == '.') /* "565.77" has no third number */
                text = part_parse(text + 1, &version.patch);
        if (!text || *text != '\0')
                return -EINVAL;

        *ret = version;
        return 0;
}

/* Each part has at most four digits. */
static uint64_t order_of(struct rm_version version)
{
        return (uint64_t)version.branch << 40 | (uint64_t)version.minor << 20 | version.patch;
}

int rm_version_cmp(struct rm_version a, struct rm_version b)
{
        return (order_of(a) > order_of(b)) - (order_of(a) < order_of(b));
}

static const struct {
        struct rm_version first, last;
} known[] = {
#define RELEASED(branch, minor, patch, last_minor, last_patch)                                                         \
        { { branch, minor, patch }, { branch, last_minor, last_patch } },
#include "rm/releases.def"
#undef RELEASED
};

bool rm_version_is_known(struct rm_version version)
{
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                if (rm_version_cmp(version, known[i].first) >= 0 && rm_version_cmp(version, known[i].last) <= 0)
                        return true;
        }
        return false;
}

bool rm_version_range(size_t i, struct rm_version *ret_first, struct rm_version *ret_last)
{
        if (i >= sizeof(known) / sizeof(known[0]))
                return false;

        *ret_first = known[i].first;
        *ret_last = known[i].last;
        return true;
}
