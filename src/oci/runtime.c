/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

struct option {
        const char *name;
        bool has_value;
};

/* Before the verb. runc takes one dash for two (urfave/cli), and so they are read here. */
static const struct option globals[] = {
        { "bundle", true },
        { "cgroup-manager", true },
        { "criu", true },
        { "debug", false },
        { "help", false },
        { "h", false },
        { "log", true },
        { "log-format", true },
        { "log-level", true },
        { "no-pivot", false },
        { "root", true },
        { "rootless", true },
        { "systemd-cgroup", false },
        { "version", false },
        { "v", false },
};

/* Behind it. Others have no value, or one that is no option. */
static const struct option locals[] = {
        { "b", true }, { "bundle", true },   { "config", true },       { "console-socket", true },
        { "f", true }, { "pid-file", true }, { "preserve-fds", true },
};

/* An option's row, and its value: behind '=', or the next argument, to which *at is moved. */
static const struct option *option_at(const char *const *argv, size_t *at, const struct option *rows, size_t n,
                                      const char **ret_value)
{
        const char *name = argv[*at] + (argv[*at][1] == '-' ? 2 : 1);
        size_t length = strcspn(name, "=");

        for (size_t i = 0; i < n; i++) {
                if (strlen(rows[i].name) != length || strncmp(rows[i].name, name, length) != 0)
                        continue;
                *ret_value = name[length] ? name + length + 1 : "";
                if (rows[i].has_value && !name[length] && argv[*at + 1])
                        *ret_value = argv[++*at];
                return &rows[i];
        }
        return NULL;
}

/* Moves *at to the verb, or to the end. */
static int read_globals(const char *const *argv, size_t *at, struct runtime_call *call, struct err *err)
{
        const struct option *option;
        const char *value;

        for (; argv[*at] && argv[*at][0] == '-'; (*at)++) {
                if (!strcmp(argv[*at], "--")) {
                        (*at)++;
                        break;
                }
                option = option_at(argv, at, globals, ARRAY_SIZE(globals), &value);
                if (!option)
                        return err_say(err, -EINVAL,
                                       "%.64s: an option of another runtime than runc 1.1 and crun 1.8, so it is not "
                                       "certain what it starts",
                                       argv[*at]);
                if (!strcmp(option->name, "log"))
                        call->log = *value ? value : NULL;
                if (!strcmp(option->name, "log-format"))
                        call->is_log_json = !strcmp(value, "json");
        }
        return 0;
}

static int read_locals(const char *const *argv, size_t at, struct runtime_call *call, struct err *err)
{
        const struct option *option;
        const char *value;

        for (; argv[at]; at++) {
                option = argv[at][0] == '-' ? option_at(argv, &at, locals, ARRAY_SIZE(locals), &value) : NULL;
                if (!option)
                        continue;
                if (option->name[0] == 'b')
                        call->bundle = value;
                if (!strcmp(option->name, "config") || !strcmp(option->name, "f"))
                        return err_say(err, -EINVAL, "--config: the specification must be the bundle's config.json");
        }
        return 0;
}

int runtime_call_read(const char *const *argv, struct runtime_call *ret, struct err *err)
{
        size_t at = 0;
        int r;

        *ret = (struct runtime_call){ .bundle = "." };
        r = read_globals(argv, &at, ret, err);
        if (r < 0 || !argv[at])
                return r;
        if (!strcmp(argv[at], "restore"))
                return err_say(err, -EINVAL, "restore: a container that rents cannot come from a checkpoint; start it");
        ret->is_start = !strcmp(argv[at], "create") || !strcmp(argv[at], "run");
        return ret->is_start ? read_locals(argv, at + 1, ret, err) : 0;
}
