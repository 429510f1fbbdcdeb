/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --token, --cert and --key make of the TCP listener: what a caller has to show, and what we show.
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
};

/* Reads the files of the settings. 0; -EINVAL, and then nothing is held. */
int credentials_read(struct credentials *credentials, const struct settings *settings, struct err *err);
void credentials_done(struct credentials *credentials);

/* Whether a call may be answered: `Authorization: Bearer TOKEN`, or Basic with the token as password, which is what a
 * browser asks its user for. How long it takes tells nothing of the token but whether its length is right. */
bool credentials_fit(const struct credentials *credentials, struct MHD_Connection *connection, const char *path);
