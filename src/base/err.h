/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failure as a value: what started it, and "while doing what" added on the way up.
 *
 *      if (fd < 0)
 *              return err_set(err, -errno, "opening %s", path);
 *      ...
 *      if (node_open(path, err) < 0)
 *              return err_while(err, "leasing to '%s'", tenant);
 *
 * Used at the edges (verbs, daemon requests, settings). Inner rooms return an int and no text.
 * A NULL err means "I do not care". Nothing here allocates.
 */
#pragma once

#include <stdarg.h>

struct err {
        int code;       /* 0, or the negative errno that started it */
        char text[400]; /* "leasing to 'chat-1': opening /dev/nvidiactl: Permission denied" */
};

/* Starts a failure: "<format>: <strerror(code)>". Returns code (negative). */
int err_set(struct err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Starts a failure whose text says it all; code is not spelled out. Returns code. */
int err_say(struct err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "<format>: " in front. Returns err->code; -EINVAL if err is NULL, or says nothing yet (what is
 * on its way up is a failure, and never becomes a success). */
int err_while(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
