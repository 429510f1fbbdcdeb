/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/sleep_after.h"

#include "base/when.h"

#include <errno.h>
#include <string.h>

#define LEAST NSEC_PER_SEC /* as the daemon has it: wire/messages.h */
#define MOST (7 * 24 * 3600 * NSEC_PER_SEC)

int sleep_after_parse(const char *text, nsec *ret)
{
        nsec after = 0;

        if (strcmp(text, "none") != 0 && (duration_parse(text, &after) < 0 || after < LEAST || after > MOST))
                return -EINVAL;
        *ret = after;
        return 0;
}
