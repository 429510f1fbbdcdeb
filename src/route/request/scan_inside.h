/* SPDX-License-Identifier: Apache-2.0 */
/* The two parts of the scanner: values and grammar (scan.c), characters of a string (scan_string.c). */
#pragma once

#include "route/request/scan.h"

enum state {
        VALUE,     /* a value comes */
        FIRST,     /* an element, or the end of the array */
        KEY_FIRST, /* a key, or the end of the object */
        KEY_NEXT,
        COLON,
        AFTER, /* a comma, or the end of what it is in */
        STRING,
        ESCAPE,
        UNICODE,
        NUMBER,
        LITERAL,
        DONE,
};

int scan_fail(struct scan *scan, int error); /* returns error */

int scan_take_text(struct scan *scan, const char *text, size_t size); /* a run of a string's text, unescaped */
void scan_string_done(struct scan *scan);

/* In the states STRING, ESCAPE and UNICODE. Returns how many bytes were used, at least 1. */
size_t scan_string(struct scan *scan, const char *at, size_t size);
