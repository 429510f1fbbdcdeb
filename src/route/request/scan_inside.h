/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the scanner: values and grammar (scan.c), characters of a string (scan_string.c), numbers
 * (scan_number.c), and parts of a message that are media (scan_media.c).
 */
#pragma once

#include "route/request/scan.h"

/* Where a value is. TOKENS: everything below is text, keys and numbers too. */
enum context { ROOT, MESSAGE, CONTENT, MEDIUM, TOKENS, CONVERSATION, IGNORED, IS_ARRAY = 0x80 };

enum action {
        SKIP,
        BACKGROUND,
        TEXT,
        MEDIA,
        IMAGE,
        VIDEO,
        MARK,
        MODEL,
        SESSION,
        LINK,
        USER,
        SALT,
        STREAM,
        PRIORITY,
        MAXIMUM,
        COUNT,
        A_KEY
};

/* Ends a piece of text, so that "ab" "c" is not "a" "bc". No JSON text has it unescaped. */
#define SCAN_SEPARATOR "\x1f"

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

bool scan_is_number(const char *text);
bool scan_whole_number(const char *text, int64_t *ret); /* also "16.0" and "1.6e1", as some clients write it */

/* A part is an object in `content`. scan_media_key: one of its keys says what it is; true. */
void scan_part_begin(struct scan *scan);
bool scan_media_key(struct scan *scan);
void scan_media_done(struct scan *scan); /* the string of its medium, or of its mark, has ended */
void scan_part_end(struct scan *scan);
