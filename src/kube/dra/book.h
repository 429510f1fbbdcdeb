/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The claims that are prepared on this node, in memory and in a file: a driver that starts again answers for what the
 * one before it had prepared, also while no API server answers.
 *
 *  B1  The file is replaced as a whole, and is on the disk before kubelet is told.
 *  B2  A file that cannot be read is an error, not an empty book: the table would be empty, and no container with a
 *      claim could be started again.
 *
 * Threads: one.
 */
#pragma once

#include <jansson.h>

struct err;

struct book {
        const char *path; /* the file */
        json_t *claims;   /* UID: {"devices":[...],"rows":[...]} of claim_read */
};

/* path: borrowed until book_done. 0; -errno, -EPROTO with err. */
int book_open(struct book *book, const char *path, struct err *err);
void book_done(struct book *book);

/* Borrowed; NULL: not prepared. */
const json_t *book_find(const struct book *book, const char *uid);

/* `claim` is taken in any case. On failure the book is as it was. 0; -errno with err. */
int book_put(struct book *book, const char *uid, json_t *claim, struct err *err);
int book_drop(struct book *book, const char *uid, struct err *err); /* one that is not there is dropped already */

/* The body of PUT /v1/allocations: rows of one container and device are added up. The caller's; NULL: no memory. */
json_t *book_table(const struct book *book);
