/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/credentials.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "daemon/api/api.h"
#include "daemon/state/daemon.h"
#include "net/http/caller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        FILE_MOST = 256 * 1024, /* bytes: a long chain of certificates */
        TOKEN_LEAST = 16,
        TOKEN_MOST = 1024,
};

/* 0; -errno. *ret: text from malloc, with an end. */
static int read_text(const char *path, char **ret)
{
        _cleanup_(freep) char *text = malloc(FILE_MOST + 1);
        FILE *file = fopen(path, "re");
        size_t n = 0;
        int r = 0;

        if (!file || !text)
                r = file ? -ENOMEM : -errno;
        else {
                n = fread(text, 1, FILE_MOST, file);
                r = ferror(file) ? -EIO : !feof(file) && fgetc(file) != EOF ? -EFBIG : 0;
        }
        if (file)
                (void)fclose(file);
        if (r < 0)
                return r;
        text[n] = '\0';
        *ret = TAKE(text);
        return 0;
}

static int read_file(const char *option, const char *path, char **ret, struct err *err)
{
        int r = path ? read_text(path, ret) : 0;

        return r < 0 ? err_say(err, -EINVAL, "%s %s: %s", option, path, strerror(-r)) : 0;
}

/* One line without blanks, as it stands in a header. */
static int check_token(const char *path, char *token, struct err *err)
{
        size_t n = strcspn(token, "\r\n");

        if (token[n + strspn(token + n, "\r\n")])
                return err_say(err, -EINVAL, "--token %s: more than one line", path);
        token[n] = '\0';
        if (n < TOKEN_LEAST || n > TOKEN_MOST)
                return err_say(
                        err, -EINVAL,
                        "--token %s: %zu characters; %d to %d are needed ('openssl rand -hex 32' makes a good one)",
                        path, n, TOKEN_LEAST, TOKEN_MOST);
        for (size_t i = 0; i < n; i++)
                if (token[i] <= ' ' || token[i] > '~')
                        return err_say(err, -EINVAL, "--token %s: blanks and characters beyond ASCII cannot be sent",
                                       path);
        return 0;
}

/* libmicrohttpd takes a file without one for nobody, in silence. */
static int check_callers(const char *path, const char *callers, struct err *err)
{
        const gnutls_datum_t text = { .data = (unsigned char *)(uintptr_t)callers,
                                      .size = (unsigned int)strlen(callers) };
        gnutls_x509_crt_t *list = NULL;
        unsigned int n = 0;

        if (gnutls_x509_crt_list_import2(&list, &n, &text, GNUTLS_X509_FMT_PEM, 0) < 0)
                n = 0;
        for (unsigned int i = 0; i < n; i++)
                gnutls_x509_crt_deinit(list[i]);
        gnutls_free(list);
        return n ? 0 : err_say(err, -EINVAL, "--callers %s: no certificate of an authority is in it", path);
}

int credentials_read(struct credentials *credentials, const struct settings *settings, struct err *err)
{
        int r;

        *credentials = (struct credentials){ 0 };
        r = read_file("--token", settings->token, &credentials->token, err);
        if (r == 0 && credentials->token)
                r = check_token(settings->token, credentials->token, err);
        if (r == 0)
                r = read_file("--cert", settings->cert, &credentials->certificate, err);
        if (r == 0)
                r = read_file("--key", settings->key, &credentials->key, err);
        if (r == 0)
                r = read_file("--callers", settings->callers, &credentials->callers, err);
        if (r == 0 && credentials->callers)
                r = check_callers(settings->callers, credentials->callers, err);
        if (r < 0)
                credentials_done(credentials);
        return r;
}

void credentials_done(struct credentials *credentials)
{
        free(credentials->token);
        free(credentials->certificate);
        free(credentials->callers);
        if (credentials->key)
                explicit_bzero(credentials->key, strlen(credentials->key));
        free(credentials->key);
        *credentials = (struct credentials){ 0 };
}

bool credentials_options(const struct credentials *credentials, struct MHD_OptionItem ret[static CREDENTIALS_OPTIONS])
{
        size_t n = 0;

        if (credentials->certificate)
                ret[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, credentials->certificate };
        if (credentials->certificate && credentials->key)
                ret[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, credentials->key };
        if (credentials->certificate && credentials->callers)
                ret[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_TRUST, 0, credentials->callers };
        ret[n] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
        return credentials->certificate;
}

static bool is_token(const struct credentials *credentials, const char *shown)
{
        size_t n = strlen(credentials->token);
        unsigned char differs = 0;

        if (strlen(shown) != n)
                return false;
        for (size_t i = 0; i < n; i++)
                differs |= (unsigned char)(shown[i] ^ credentials->token[i]);
        return !differs;
}

static bool is_password(const struct credentials *credentials, struct MHD_Connection *connection)
{
        char *password = NULL, *user = MHD_basic_auth_get_username_password(connection, &password);
        bool is = user && password && is_token(credentials, password);

        MHD_free(user);
        MHD_free(password);
        return is;
}

static bool is_open(const char *path)
{
        return !strcmp(path, "/healthz") || !strcmp(path, "/readyz");
}

static bool has_caller(const struct credentials *credentials, struct MHD_Connection *connection)
{
        const union MHD_ConnectionInfo *info =
                credentials->callers ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) : NULL;

        return !credentials->callers || (info && caller_is_known(info->tls_session, NULL));
}

static bool has_token(const struct credentials *credentials, struct MHD_Connection *connection)
{
        static const char bearer[] = "Bearer ";
        const char *shown;

        if (!credentials->token)
                return true;
        shown = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
        if (!shown)
                return false;
        if (!strncasecmp(shown, bearer, sizeof(bearer) - 1))
                return is_token(credentials, shown + sizeof(bearer) - 1);
        return is_password(credentials, connection);
}

const char *credentials_refusal(const struct credentials *credentials, struct MHD_Connection *connection,
                                const char *path, int *ret_status)
{
        if (is_open(path))
                return NULL;
        *ret_status = API_FORBIDDEN;
        if (!has_caller(credentials, connection))
                return "a certificate is needed that an authority of the daemon's --callers has signed";
        *ret_status = API_UNAUTHORIZED;
        if (!has_token(credentials, connection))
                return "'Authorization: Bearer TOKEN' is needed, with what the file of the daemon's --token holds";
        return NULL;
}
