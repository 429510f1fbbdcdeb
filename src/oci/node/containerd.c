/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/node/containerd.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "oci/node/toml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pattern that fits nothing imports nothing; a name that is missing keeps containerd from starting. */
#define IMPORT "\"" CONTAINERD_DROP_INS "/sublet*.toml\""
#define BY "by 'sublet node install', for 'sublet node remove'\n"

static const char import_line[] = "imports = [" IMPORT "] # " BY;
static const char import_item[] = "\n  " IMPORT ", # " BY;
static const char block_begins[] = "# begins: " BY;
static const char block_begins_joined[] = "# begins with the line end before: " BY;
static const char block_ends[] = "# ends: " BY;

struct view {
        int version;
        const char *imports; /* behind the '[' */
        bool has_imports, covers, has_runtime, is_closed, is_systemd;
};

/* ---- reading --------------------------------------------------------------------------------- */

static int read_imports(struct view *view, const char *at)
{
        char path[TOML_STRING];
        int r = *at == '[' ? 1 : -EINVAL;

        view->imports = ++at;
        while (r > 0 && (r = toml_string(&at, path)) > 0) {
                view->has_imports = true;
                view->covers = view->covers || !strcmp(path, CONTAINERD_DROP_INS "/*.toml") ||
                               !strcmp(path, CONTAINERD_DROP_IN) || !strcmp(path, "conf.d/*.toml");
        }
        return r;
}

/* What an entry means for a runtime of that plugin. */
static void read_runtime(struct view *view, const struct toml *toml, const char *plugin, const char *name)
{
        const char *const ours[] = { "plugins", plugin, "containerd", "runtimes", name, NULL };
        const char *const runc[] = { "plugins", plugin,    "containerd",    "runtimes",
                                     "runc",    "options", "SystemdCgroup", NULL };
        size_t common = toml_common(toml, ours);

        view->has_runtime = view->has_runtime || common == 5;
        /* A header below a value, an inline table or an array of tables would be no TOML. */
        view->is_closed = view->is_closed || (common == toml->n && (toml->value || toml->is_array));
        if (toml->value && toml->n == 7 && toml_common(toml, runc) == 7)
                view->is_systemd = !strncmp(toml->value, "true", 4);
}

static int read_text(const char *text, const char *name, struct view *ret, struct err *err)
{
        struct toml toml = toml_begin(text);
        int r;

        *ret = (struct view){ .version = 1 };
        while ((r = toml_next(&toml)) > 0) {
                read_runtime(ret, &toml, "io.containerd.grpc.v1.cri", name);
                read_runtime(ret, &toml, "io.containerd.cri.v1.runtime", name);
                if (toml.n != 1 || !toml.value)
                        continue;
                if (toml_common(&toml, (const char *const[]){ "version", NULL }))
                        ret->version = atoi(toml.value);
                if (toml_common(&toml, (const char *const[]){ "imports", NULL }) && read_imports(ret, toml.value) < 0)
                        return err_say(err, -EINVAL, "imports in line %zu is no list of names", toml_line(&toml));
        }
        return r < 0 ? err_say(err, r, "line %zu is not understood", toml_line(&toml)) : 0;
}

static int check(const struct view *view, const char *name, struct err *err)
{
        if (view->version != 2 && view->version != 3)
                return err_say(
                        err, -EINVAL,
                        "version %d, and 2 and 3 are known here ('containerd config default' prints one; without "
                        "a version it is 1)",
                        view->version);
        if (view->has_runtime)
                return err_say(err, -EINVAL, "runtime %s is there already: remove it to have it written", name);
        if (view->version == 2 && view->is_closed)
                return err_say(err, -EINVAL,
                               "the CRI plugin's settings are in an inline table, which has no room for a "
                               "runtime: write it as [plugins...]");
        return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static char *insert(const char *text, size_t at, const char *what)
{
        char *made = NULL;

        return asprintf(&made, "%.*s%s%s", (int)at, text, what, text + at) < 0 ? NULL : made;
}

/* A block that is as it should be stays where it is, whatever was written behind it. */
static char *append_block(const char *text, const char *plain, const char *tables)
{
        static const char *const begins[] = { block_begins, block_begins_joined };
        size_t size = strlen(plain), ours = strlen(text) - size;
        bool is_joined = size && plain[size - 1] != '\n';
        char *made = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
                _cleanup_(freep) char *block = NULL;

                if (asprintf(&block, "%s%s%s", begins[i], tables, block_ends) < 0)
                        return NULL;
                if (strstr(text, block) && ours <= strlen(block) + i) /* it, its line end, and nothing else of ours */
                        return strdup(text);
        }
        if (asprintf(&made, "%s%s%s%s%s", plain, is_joined ? "\n" : "", begins[is_joined], tables, block_ends) < 0)
                return NULL;
        return made;
}

static char *add_import(const char *text, const struct view *view)
{
        if (view->covers)
                return strdup(text);
        if (view->imports)
                return insert(text, (size_t)(view->imports - text), import_item);
        return insert(text, (size_t)(toml_begin(text).at - text), import_line);
}

/* D1, where the last line of others begins as ours does: both would be cut out. */
static int check_back(const char *made, const char *plain, struct err *err)
{
        _cleanup_(freep) char *back = NULL;
        int r = containerd_without(made, &back, err);

        return r < 0 || !strcmp(back, plain) ?
                       r :
                       err_say(err, -EINVAL, "its end looks like what 'sublet node install' writes: mend it first");
}

int containerd_with(const char *text, const struct spec_paths *paths, struct containerd_change *ret, struct err *err)
{
        _cleanup_(freep) char *plain = NULL, *tables = NULL, *made = NULL;
        struct view view;
        int r = containerd_without(text, &plain, err);

        r = r < 0 ? r : read_text(plain, paths->name, &view, err);
        r = r < 0 ? r : check(&view, paths->name, err);
        if (r < 0)
                return r;
        tables = spec_runtime(paths, view.version, view.is_systemd);
        if (tables)
                made = view.version == 2 ? append_block(text, plain, tables) : add_import(plain, &view);
        if (!made)
                return err_set(err, -ENOMEM, "writing containerd's configuration");
        r = check_back(made, plain, err);
        if (r < 0)
                return r;
        *ret = (struct containerd_change){ .text = TAKE(made), .may_lose = view.version == 2 && view.has_imports };
        if (view.version == 3 && asprintf(&ret->drop_in, "version = 3\n%s", tables) < 0) {
                free(TAKE(ret->text));
                return err_set(err, -ENOMEM, "writing containerd's configuration");
        }
        return 0;
}

/* Cuts from where `begins` is to where `ends` ends; ends NULL: only `begins`. is_joined: with the line end before it,
 * unless something was written behind it meanwhile. */
static int cut(char *text, const char *begins, const char *ends, bool is_joined, struct err *err)
{
        char *from, *to;

        while ((from = strstr(text, begins))) {
                to = ends ? strstr(from, ends) : from;
                if (!to)
                        return err_say(err, -EINVAL, "'%.*s' is missing behind what 'sublet node install' wrote",
                                       (int)strcspn(ends, "\n"), ends);
                to += strlen(ends ? ends : begins);
                from -= is_joined && !*to && from > text && from[-1] == '\n';
                memmove(from, to, strlen(to) + 1);
        }
        return 0;
}

int containerd_without(const char *text, char **ret, struct err *err)
{
        _cleanup_(freep) char *made = strdup(text);
        int r = made ? 0 : err_set(err, -ENOMEM, "reading containerd's configuration");

        r = r < 0 ? r : cut(made, block_begins_joined, block_ends, true, err);
        r = r < 0 ? r : cut(made, block_begins, block_ends, false, err);
        r = r < 0 ? r : cut(made, import_line, NULL, false, err);
        r = r < 0 ? r : cut(made, import_item, NULL, false, err);
        if (r == 0)
                *ret = TAKE(made);
        return r;
}
