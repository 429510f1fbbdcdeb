/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/options.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gpu/backend.h"
#include "net/socket.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int oci_options_read(const char *path, json_t **ret, struct err *err)
{
        bool is_stdin = !strcmp(path, "-");
        const char *name = is_stdin ? "standard input" : path;
        json_error_t where;
        json_t *read;

        if (!is_stdin && access(path, R_OK) < 0)
                return err_set(err, -errno, "opening %s", path);
        read = is_stdin ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &where) :
                          json_load_file(path, JSON_REJECT_DUPLICATES, &where);
        if (!read)
                return err_say(err, -EINVAL, "%s, line %d: %s", name, where.line, where.text);
        if (!json_is_object(read)) {
                json_decref(read);
                return err_say(err, -EINVAL, "%s: not a JSON object", name);
        }
        *ret = read;
        return 0;
}

int oci_options_write(const char *path, const json_t *value, struct err *err)
{
        _cleanup_(freep) char *next = NULL, *text = json_dumps(value, JSON_INDENT(2));
        _cleanup_(closep) int fd = -1;
        size_t size = text ? strlen(text) : 0;
        struct stat old = { .st_mode = S_IFREG | 0644 };

        if (!text || asprintf(&next, "%s.new-XXXXXX", path) < 0)
                return err_set(err, -ENOMEM, "writing %s", path);
        if (stat(path, &old) == 0 && !S_ISREG(old.st_mode))
                return err_say(err, -EINVAL, "%s is no file: without --output the text goes to standard output", path);
        fd = mkostemp(next, O_CLOEXEC);
        if (fd < 0)
                return err_set(err, -errno, "writing %s", path);
        text[size] = '\n'; /* instead of the NUL */
        if (write(fd, text, size + 1) != (ssize_t)size + 1 || fchmod(fd, old.st_mode & 0777) < 0 ||
            rename(next, path) < 0) {
                int r = errno ? -errno : -EIO;

                (void)unlink(next);
                return err_set(err, r, "writing %s", path);
        }
        return 0;
}

/* A path for other programs' files and for sockets: absolute, and without characters that JSON, YAML or TOML quote. */
static int take_path(const char *what, const char *path, size_t max, char *ret, struct err *err)
{
        if (path[0] != '/' || strpbrk(path, "\"\\\n\t ") || strlen(path) > max)
                return err_say(err, -EINVAL, "%s %s: an absolute path of at most %zu bytes, without blanks and quotes",
                               what, path, max);
        memcpy(ret, path, strlen(path) + 1);
        return 0;
}

static bool is_known(const char *release)
{
        struct rm_version version;
        struct rm_layout layout;

        return rm_version_parse(release, &version) == 0 && strlen(release) <= 31 &&
               rm_layout_for(version, &layout) == RM_OK;
}

int oci_options_driver(const struct flag *flag, const char *value, struct err *err)
{
        if (!is_known(value))
                return flag_refuse(flag, value, "not a release that is known here ('sublet doctor' lists them)", err);
        return flag_text(flag, value, err);
}

int oci_options_release(struct oci_options *options, struct err *err)
{
        struct gpu_backend backend = { .name = "" };
        int r;

        if (options->driver) {
                if (!is_known(options->driver))
                        return err_say(err, -EINVAL,
                                       "--driver %s: not a release that is known here ('sublet doctor' lists them)",
                                       options->driver);
                memcpy(options->release, options->driver, strlen(options->driver) + 1);
                return 0;
        }
        r = getenv("SUBLET_SIM") ? gpu_backend_find(&backend, err) :
                                   gpu_release_read("/sys/module/nvidia/version", &backend, err);
        if (r == -ENOENT)
                return err_say(err, r,
                               "no NVIDIA driver is loaded here: run this on the node "
                               "(or, for a profile, name the release: --driver 580.159.04)");
        if (r < 0)
                return r;
        memcpy(options->release, backend.release, sizeof(backend.release));
        return 0;
}

/* Names as capsh has them: "CAP_CHOWN,kill". */
static int take_capabilities(struct oci_options *options, struct err *err)
{
        size_t n = 0, used = 0;
        char *rest, *word;

        if (strlen(options->caps) > 1024)
                return err_say(err, -EINVAL, "--caps: a list that is too long");
        _cleanup_(freep) char *list = strdup(options->caps);
        for (word = list ? strtok_r(list, ",", &rest) : NULL; word; word = strtok_r(NULL, ",", &rest)) {
                char *at = options->caps_text + used;

                if (n == OPTIONS_CAPABILITIES)
                        return err_say(err, -EINVAL, "--caps: a list that is too long");
                used += (size_t)sprintf(at, "%s%s", strncasecmp(word, "CAP_", 4) ? "CAP_" : "", word) + 1;
                for (char *c = at; *c; c++)
                        *c = (char)toupper((unsigned char)*c);
                options->capabilities[n++] = at;
        }
        return 0;
}

int oci_options_complete(struct oci_options *options, struct err *err)
{
        const char *dir = options->dir ? options->dir : getenv("SUBLET_DIR");
        ssize_t n;
        int r;

        r = take_path("--dir", dir ? dir : "/run/sublet", SOCKET_PATH - sizeof("/seccomp.sock"), options->daemon, err);
        if (r < 0)
                return r;
        (void)snprintf(options->listener, sizeof(options->listener), "%s/seccomp.sock", options->daemon);
        if (options->path)
                return take_path("--program", options->path, sizeof(options->program) - 1, options->program, err);
        n = readlink("/proc/self/exe", options->program, sizeof(options->program) - 1);
        if (n < 0)
                return err_set(err, -errno, "finding this program");
        options->program[n] = '\0';
        return 0;
}

int oci_options_profile(const struct oci_options *options, json_t **ret, struct err *err)
{
        struct oci_options with = *options;
        struct profile_settings desired = { .listener = options->listener,
                                            .metadata = with.metadata,
                                            .is_killable = options->is_killable };
        json_t *file, *base = NULL;
        int r;

        r = oci_options_release(&with, err);
        if (r == 0 && options->caps) {
                if (!options->base)
                        return err_say(err, -EINVAL, "--caps goes with --base: the default has no conditions");
                r = take_capabilities(&with, err);
                desired.capabilities = with.capabilities;
        }
        if (r < 0)
                return r;
        profile_sign(with.release, with.metadata);
        if (options->base) {
                r = oci_options_read(options->base, &file, err);
                if (r < 0)
                        return r;
                r = profile_resolve(file, desired.capabilities, &base, err);
                json_decref(file);
                if (r < 0)
                        return err_while(err, "%s", options->base);
        } else if (!(base = profile_default())) {
                return err_set(err, -ENOMEM, "writing the profile");
        }
        r = profile_join(base, &desired, ret, err);
        json_decref(base);
        if (r < 0)
                return r;
        r = profile_check(*ret, err);
        if (r < 0)
                json_decref(*ret);
        return r;
}

struct spec_paths oci_options_paths(const struct oci_options *options)
{
        return (struct spec_paths){
                .program = options->program, .dir = options->daemon, .name = options->name, .file = options->file
        };
}
