/* SPDX-License-Identifier: Apache-2.0 */
/* Each mapping of the file is a table of its keys, with what reads the value (N1). */
#include "kube/nvidia/nvidia.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "conf/file.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GPU "nvidia.com/gpu"

enum {
        KEY_SHOWN = 80, /* bytes of a key in a message */
};

struct reader {
        const char *file;
        const struct conf_lines *lines;
        struct nvidia_config config;
        bool has_strategy; /* timeSlicing or mps was read */
        struct err *err;
};

/* Reads one value. in: the mapping it is in, for its line. 0; -EINVAL with err. */
struct key {
        const char *name;
        int (*read)(struct reader *reader, const json_t *in, const char *key, const json_t *value);
};

/* A key of the file's, which may hold anything, as a part of one line. */
static const char *shown(const char *key, char ret[static KEY_SHOWN])
{
        (void)snprintf(ret, KEY_SHOWN, "%s", key);
        for (char *at = ret; *at; at++)
                if ((unsigned char)*at < ' ' || *at == 127)
                        *at = '?';
        return ret;
}

static int complain(struct reader *reader, const json_t *in, const char *key, const char *what)
{
        size_t line = conf_line_of_key(reader->lines, in, key);
        char at[24] = "", text[KEY_SHOWN];

        if (line)
                (void)snprintf(at, sizeof(at), ":%zu", line);
        return err_say(reader->err, -EINVAL, "%s%s: %s: %s", reader->file, at, shown(key, text), what);
}

static int read_mapping(struct reader *reader, const json_t *in, const char *name, const json_t *mapping,
                        const struct key *keys, size_t n_keys)
{
        json_t *value;
        const char *key;

        if (json_is_null(mapping))
                return 0;
        if (!json_is_object(mapping))
                return complain(reader, in, name, "a mapping is expected");
        json_object_foreach ((json_t *)(uintptr_t)mapping, key, value) {
                size_t i = 0;
                int r;

                while (i < n_keys && strcmp(keys[i].name, key) != 0)
                        i++;
                if (i == n_keys)
                        return complain(reader, mapping, key, "not a key of version v1 that is known here");
                r = keys[i].read(reader, mapping, key, value);
                if (r < 0)
                        return r;
        }
        return 0;
}

#define MAPPING(name, keys)                                                                                            \
        static int name(struct reader *reader, const json_t *in, const char *key, const json_t *value)                 \
        {                                                                                                              \
                return read_mapping(reader, in, key, value, keys, ARRAY_SIZE(keys));                                   \
        }

/* ---- values ------------------------------------------------------------------------------------ */

static bool is_text(const json_t *value, const char *text)
{
        return json_is_string(value) && !strcmp(json_string_value(value), text);
}

static int read_anything(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        (void)reader, (void)in, (void)key, (void)value;
        return 0;
}

static int read_version(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return is_text(value, "v1") ? 0 : complain(reader, in, key, "v1 is known");
}

static int read_none(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return is_text(value, "none") ? 0 : complain(reader, in, key, "none is offered: MIG is the administrator's");
}

static int read_root(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return is_text(value, "/") ?
                       0 :
                       complain(reader, in, key, "/ is known: where the driver's libraries are, 'sublet cdi' is told");
}

static int read_off(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return json_is_false(value) ? 0 : complain(reader, in, key, "false is known");
}

static int read_bool(struct reader *reader, const json_t *in, const char *key, const json_t *value, bool *ret)
{
        if (!json_is_boolean(value))
                return complain(reader, in, key, "true or false is expected");
        *ret = json_is_true(value);
        return 0;
}

static int read_nodes(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return read_bool(reader, in, key, value, &reader->config.has_nodes);
}

static int read_uuid(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return is_text(value, "uuid") ? 0 : complain(reader, in, key, "uuid is offered");
}

static int read_strategy(struct reader *reader, const json_t *in, const char *key, const char *words)
{
        while (*words) {
                size_t size = strcspn(words, ",");

                if (size == 15 && !strncmp(words, "cdi-annotations", size))
                        reader->config.has_annotation = true;
                else if (size == 7 && !strncmp(words, "cdi-cri", size))
                        reader->config.has_cdi = true;
                else if (size != 6 || strncmp(words, "envvar", size) != 0)
                        return complain(reader, in, key, "envvar, cdi-annotations and cdi-cri are offered");
                words += size + (words[size] == ',');
        }
        return 0;
}

static int read_strategies(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        const json_t *one;
        size_t i;
        int r = 0;

        if (json_is_string(value))
                return read_strategy(reader, in, key, json_string_value(value));
        if (!json_is_array(value))
                return complain(reader, in, key, "a word or a list of words is expected");
        json_array_foreach (value, i, one)
                if (r == 0)
                        r = read_strategy(reader, in, key, json_is_string(one) ? json_string_value(one) : "?");
        return r;
}

/* ---- flags ------------------------------------------------------------------------------------- */

static const struct key plugin_keys[] = {
        { "passDeviceSpecs", read_nodes },
        { "deviceListStrategy", read_strategies },
        { "deviceIDStrategy", read_uuid },
};
MAPPING(read_plugin, plugin_keys)

static const struct key flag_keys[] = {
        { "migStrategy", read_none },
        { "failOnInitError", read_anything }, /* a node without GPUs offers none, and does not fail */
        { "nvidiaDriverRoot", read_root },
        { "gdsEnabled", read_off },
        { "mofedEnabled", read_off },
        { "gdrcopyEnabled", read_off },
        { "plugin", read_plugin },
        { "gfd", read_anything },
};
MAPPING(read_flags, flag_keys)

/* ---- sharing ----------------------------------------------------------------------------------- */

static int read_resource_name(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return is_text(value, GPU) || is_text(value, "gpu") ? 0 :
                                                              complain(reader, in, key, GPU " is what can be shared");
}

static int read_new_name(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        const char *name = json_string_value(value), *slash = name ? strchr(name, '/') : NULL;

        if (!name || !*name || strlen(name) >= NVIDIA_NAME - 16 || (slash && strchr(slash + 1, '/')))
                return complain(reader, in, key, "a resource is called NAME or DOMAIN/NAME");
        (void)snprintf(reader->config.name, sizeof(reader->config.name), "%s%s", slash ? "" : "nvidia.com/", name);
        return 0;
}

static int read_all(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return is_text(value, "all") ? 0 : complain(reader, in, key, "all is offered: the GPUs of a node are one kind");
}

static int read_replicas(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        if (json_integer_value(value) < 1 || json_integer_value(value) > NVIDIA_REPLICAS_MAX)
                return complain(reader, in, key, "a number of 1 to 1024 is expected");
        reader->config.replicas = (unsigned int)json_integer_value(value);
        return 0;
}

static const struct key resource_keys[] = {
        { "name", read_resource_name },
        { "rename", read_new_name },
        { "devices", read_all },
        { "replicas", read_replicas },
};

static int read_resources(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        const json_t *one = json_array_get(value, 0);

        if (!json_is_array(value) || json_array_size(value) > 1)
                return complain(reader, in, key, "a list of one, " GPU ", is what can be shared");
        if (!one)
                return 0;
        if (!json_object_get(one, "name") || !json_object_get(one, "replicas"))
                return complain(reader, in, key, "a resource has a name and replicas");
        return read_mapping(reader, in, key, one, resource_keys, ARRAY_SIZE(resource_keys));
}

static const struct key sharing_keys[] = {
        { "renameByDefault", read_anything }, /* these two apply to what the others say: apply_sharing */
        { "failRequestsGreaterThanOne", read_anything },
        { "resources", read_resources },
};

/* What applies to the resource, once it has been read. */
static int apply_sharing(struct reader *reader, const json_t *sharing)
{
        const json_t *rename = json_object_get(sharing, "renameByDefault"),
                     *single = json_object_get(sharing, "failRequestsGreaterThanOne");
        struct nvidia_config *config = &reader->config;
        bool is_renamed = false;
        int r = rename ? read_bool(reader, sharing, "renameByDefault", rename, &is_renamed) : 0;

        if (r == 0 && single)
                r = read_bool(reader, sharing, "failRequestsGreaterThanOne", single, &config->is_single);
        if (r == 0 && config->is_mps && single && !config->is_single)
                r = complain(reader, sharing, "failRequestsGreaterThanOne", "a container under MPS has one part");
        config->is_single |= config->is_mps;
        if (r == 0 && is_renamed && config->replicas > 1 && !strcmp(config->name, GPU))
                (void)snprintf(config->name, sizeof(config->name), GPU ".shared");
        return r;
}

static int read_strategy_of(struct reader *reader, const json_t *in, const char *key, const json_t *value, bool is_mps)
{
        int r;

        if (json_is_null(value))
                return 0;
        if (reader->has_strategy)
                return complain(reader, in, key, "timeSlicing or mps, not both");
        reader->has_strategy = true;
        reader->config.is_mps = is_mps;
        r = read_mapping(reader, in, key, value, sharing_keys, ARRAY_SIZE(sharing_keys));
        return r < 0 ? r : apply_sharing(reader, value);
}

static int read_slicing(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return read_strategy_of(reader, in, key, value, false);
}

static int read_mps(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        return read_strategy_of(reader, in, key, value, true);
}

static const struct key strategy_keys[] = { { "timeSlicing", read_slicing }, { "mps", read_mps } };
MAPPING(read_sharing, strategy_keys)

/* ---- the file ---------------------------------------------------------------------------------- */

/* Every GPU under its own name, which is the default. */
static int read_all_gpus(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        const json_t *one = json_array_get(value, 0);
        bool is_default = json_array_size(value) == 1 && is_text(json_object_get(one, "pattern"), "*") &&
                          (is_text(json_object_get(one, "name"), GPU) || is_text(json_object_get(one, "name"), "gpu"));

        return is_default ? 0 : complain(reader, in, key, "the pattern * called " GPU " is offered");
}

static int read_empty(struct reader *reader, const json_t *in, const char *key, const json_t *value)
{
        bool is_empty = json_is_null(value) || (json_is_array(value) && !json_array_size(value));

        return is_empty ? 0 : complain(reader, in, key, "an empty list is known");
}

static const struct key kind_keys[] = { { "gpus", read_all_gpus }, { "mig", read_empty } };
MAPPING(read_kinds, kind_keys)

static const struct key imex_keys[] = { { "channelIDs", read_empty }, { "required", read_anything } };
MAPPING(read_imex, imex_keys)

static const struct key file_keys[] = {
        { "version", read_version }, { "flags", read_flags }, { "resources", read_kinds },
        { "sharing", read_sharing }, { "imex", read_imex },
};

int nvidia_config_read(const char *file, const json_t *root, const struct conf_lines *lines, struct nvidia_config *ret,
                       struct err *err)
{
        struct reader reader = { .file = file, .lines = lines, .config = { .replicas = 1, .name = GPU }, .err = err };
        int r;

        if (!json_object_get(root, "version"))
                return err_say(err, -EINVAL, "%s: version is missing: v1 is known", file);
        r = read_mapping(&reader, root, "the file", root, file_keys, ARRAY_SIZE(file_keys));
        if (r == 0)
                *ret = reader.config;
        return r;
}

int nvidia_config_load(const char *file, struct nvidia_config *ret, struct err *err)
{
        struct conf_lines lines = { 0 };
        json_t *root = NULL;
        int r = conf_read(file, &root, &lines, err);

        if (r == 0)
                r = nvidia_config_read(file, root, &lines, ret, err);
        json_decref(root);
        conf_lines_done(&lines);
        return r;
}
