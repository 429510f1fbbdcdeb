/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/sms.h"

#include "base/text.h"
#include "base/when.h"

#include <errno.h>
#include <string.h>

/* A bare number is a count; a percentage has its sign. */
int sms_parse(const char *text, struct sms *ret)
{
        unsigned int part;
        uint64_t count;

        if (!*text) {
                *ret = (struct sms){ 0 };
                return 0;
        }
        if (strchr(text, '%')) {
                if (permille_parse(text, &part) < 0 || !part)
                        return -EINVAL;
                *ret = (struct sms){ .permille = part };
                return 0;
        }
        if (number_parse(text, &count) < 0 || count < 1 || count > SMS_MOST)
                return -EINVAL;
        *ret = (struct sms){ .count = (uint32_t)count };
        return 0;
}
