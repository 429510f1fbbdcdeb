/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --token, --cert, --key and --callers make of the TCP listener: what a caller has to show, and what we show.
 *
 * The files are read when the daemon starts: a new token or certificate is taken up by starting it anew, which tenants
 * do not notice.
 *
 * Thread: the loop.
 */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>

struct err;
struct settings;

struct credentials {
        char *token;             /* NULL: anybody may ask */
        char *certificate, *key; /* PEM; both NULL: no TLS */
        char *callers;           /* PEM, authorities of callers' certificates; NULL: none is asked for */
};

/* Reads the files of the settings. 0; -EINVAL, and then nothing is held. */
int credentials_read(struct credentials *credentials, const struct settings *settings, struct err *err);
void credentials_done(struct credentials *credentials);

/* Where neither is asked for: whether the service is well, which who watches over it has to learn. */
bool credentials_is_open(const char *path);

/* Whether the caller showed a certificate of `callers`, if there are any. */
bool credentials_has_caller(const struct credentials *credentials, struct MHD_Connection *connection);

/* Whether it showed the token, if there is one: `Authorization: Bearer TOKEN`, or Basic with the token as password, which is what a
 * browser asks its user for. How long it takes tells nothing of the token but whether its length is right. */
bool credentials_has_token(const struct credentials *credentials, struct MHD_Connection *connection);
