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

enum {
        CREDENTIALS_OPTIONS = 4,
};

struct credentials {
        char *token;             /* NULL: anybody may ask */
        char *certificate, *key; /* PEM; both NULL: no TLS */
        char *callers;           /* PEM, authorities of callers' certificates; NULL: none is asked for */
};

/* Reads the files of the settings. 0; -EINVAL, and then nothing is held. */
int credentials_read(struct credentials *credentials, const struct settings *settings, struct err *err);
void credentials_done(struct credentials *credentials);

/* What the server needs for them; their text stays ours. True: it speaks TLS. */
bool credentials_options(const struct credentials *credentials, struct MHD_OptionItem ret[static CREDENTIALS_OPTIONS]);

/*
 * Why a caller is refused, and with what status; NULL: it is not. It has to show a certificate of `callers` and the
 * token, where there are any: `Authorization: Bearer TOKEN`, or Basic with the token as password, which is what a
 * browser asks its user for. How long that takes tells nothing of the token but whether its length is right. Whether
 * the service is well is told to all: who watches over it has to learn that.
 */
const char *credentials_refusal(const struct credentials *credentials, struct MHD_Connection *connection,
                                const char *path, int *ret_status);
