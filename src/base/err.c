/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *format, ...)
{
        va_list args;
        size_t n;

        if (!err)
                return code;
        err->code = code;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
        n = strlen(err->text);
        (void)snprintf(err->text + n, sizeof(err->text) - n, ": %s", strerror(-code));
        return code;
}

int err_say(struct err *err, int code, const char *format, ...)
{
        va_list args;

        if (!err)
                return code;
        err->code = code;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
        return code;
}

int err_while(struct err *err, const char *format, ...)
{
        char cause[sizeof(err->text)];
        va_list args;
        size_t n;

        if (!err)
                return -EINVAL;
        memcpy(cause, err->text, sizeof(cause));
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
        n = strlen(err->text);
        (void)snprintf(err->text + n, sizeof(err->text) - n, ": %s", cause);
        return err->code ? err->code : -EINVAL;
}
