/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/capabilities.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

static const struct {
        const char *name;
        unsigned int mask;
} words[] = {
        { "compute", CAPABILITY_COMPUTE }, { "utility", CAPABILITY_UTILITY },
        { "video", CAPABILITY_VIDEO },     { "graphics", CAPABILITY_GRAPHICS },
        { "profile", CAPABILITY_PROFILE }, { "all", CAPABILITIES_KNOWN & ~CAPABILITY_PROFILE },
        { "none", CAPABILITY_NONE },       { "compat32", CAPABILITY_NONE },
        { "display", CAPABILITY_NONE },    { "ngx", CAPABILITY_NONE },
};

int capabilities_parse(const char *text, unsigned int *ret, const char **ret_wrong)
{
        unsigned int all = *text ? 0 : CAPABILITIES_DEFAULT;

        while (*text) {
                size_t n = strcspn(text, ","), i = 0;

                while (i < ARRAY_SIZE(words) && (strlen(words[i].name) != n || strncmp(words[i].name, text, n) != 0))
                        i++;
                if (i == ARRAY_SIZE(words)) {
                        *ret_wrong = text;
                        return -EINVAL;
                }
                all |= words[i].mask;
                text += n + (text[n] == ',');
        }
        *ret = all;
        return 0;
}

const char *capabilities_format(unsigned int capabilities, char buffer[static CAPABILITIES_TEXT_MAX])
{
        char *end = buffer;

        for (unsigned int i = 0; 1u << i <= CAPABILITIES_KNOWN; i++) {
                if (!(capabilities & 1u << i))
                        continue;
                if (end > buffer)
                        *end++ = ',';
                end = stpcpy(end, words[i].name);
        }
        if (end == buffer)
                (void)stpcpy(buffer, "none");
        return buffer;
}
