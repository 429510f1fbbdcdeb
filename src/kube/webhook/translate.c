/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's words are read into terms, in units of ours; the same reading says what is wrong (V1). Its whole
 * `resources` is then written anew, and what resources cannot say becomes an annotation or a variable.
 */
#include "kube/webhook/translate.h"

#include "base/cleanup.h"
#include "kube/client/names.h"
#include "kube/extender/object.h"
#include "kube/webhook/patch.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
        PATH = 160,
        WORDS_OURS = 1 << 8, /* beside TRANSLATE_* */
        WORDS_NVIDIA = 1 << 9,
        WORDS_RENT = WORDS_OURS | TRANSLATE_ALIYUN | TRANSLATE_HAMI,
};

/* What a container asks for, on each of `count` devices. */
struct terms {
        uint64_t count, memory, share; /* memory: units; share: percent, 0: none asked for */
        const char *class;             /* NULL: not said */
};

static const struct {
        const char *name;
        unsigned int words;
} resources[] = {
        { NAME_MEMORY, WORDS_OURS },
        { NAME_SHARE, WORDS_OURS },
        { NAME_COUNT, WORDS_OURS },
        { NAME_ALIYUN_MEMORY, TRANSLATE_ALIYUN },
        { NAME_ALIYUN_COUNT, TRANSLATE_ALIYUN },
        { NAME_HAMI_MEMORY, TRANSLATE_HAMI },
        { NAME_HAMI_PERCENT, TRANSLATE_HAMI },
        { NAME_HAMI_CORES, TRANSLATE_HAMI },
        { NAME_HAMI_PRIORITY, TRANSLATE_HAMI },
};
static const char *const lists[] = { "limits", "requests" };
static const char *const kinds[] = { "containers", "initContainers", "ephemeralContainers" };

static const char *text_at(const json_t *json, const char *name)
{
        return json_string_value(json_object_get(json, name));
}

static const char *name_of(const json_t *container)
{
        const char *name = text_at(container, "name");

        return name ? name : "?";
}

/* ---- whose words ------------------------------------------------------------------------------- */

/* NVIDIA's, of any plugin's: whole devices, seats, parts of MIG. */
static unsigned int words_of_name(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(resources); i++)
                if (!strcmp(resources[i].name, name))
                        return resources[i].words;
        return !strcmp(name, NAME_NVIDIA) || !strncmp(name, "nvidia.com/gpu.", strlen("nvidia.com/gpu.")) ||
                               !strncmp(name, "nvidia.com/mig-", strlen("nvidia.com/mig-")) ?
                       WORDS_NVIDIA :
                       0;
}

static unsigned int words_of(const json_t *container)
{
        unsigned int words = 0;

        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                json_t *list = json_object_get(json_object_get(container, "resources"), lists[i]), *value;
                const char *name;

                json_object_foreach (list, name, value)
                        words |= words_of_name(name);
        }
        return words;
}

/* V2 */
static bool is_elsewhere(const struct translate_settings *settings, const json_t *spec)
{
        const char *scheduler = text_at(spec, "schedulerName");

        return scheduler && *scheduler && strcmp(scheduler, "default-scheduler") != 0 &&
               (!settings->scheduler || strcmp(scheduler, settings->scheduler) != 0);
}

/* HAMi's words take nvidia.com/gpu along; where they are not for us they are as little as it is. */
static unsigned int words_for_us(const struct translate_settings *settings, const json_t *spec, const json_t *container)
{
        unsigned int words = words_of(container);

        if (!(words & TRANSLATE_HAMI))
                return words;
        words &= ~(unsigned int)WORDS_NVIDIA;
        if (settings->words & TRANSLATE_HAMI && !is_elsewhere(settings, spec))
                return words;
        return (words & ~(unsigned int)TRANSLATE_HAMI) | WORDS_NVIDIA;
}

static const char *word_for(unsigned int words)
{
        return words & WORDS_OURS       ? NAME_MEMORY :
               words & TRANSLATE_ALIYUN ? NAME_ALIYUN_MEMORY :
               words & TRANSLATE_HAMI   ? NAME_HAMI_MEMORY :
                                          NAME_NVIDIA;
}

/* ---- terms ------------------------------------------------------------------------------------- */

/* The larger of limits and requests, which the API server keeps equal. 1; 0: not there; -1: no whole number. */
static int quantity(const json_t *container, const char *name, uint64_t *ret)
{
        int found = 0;

        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                const json_t *json =
                        json_object_get(json_object_get(json_object_get(container, "resources"), lists[i]), name);
                uint64_t one;

                if (!json)
                        continue;
                if (object_quantity(json, &one) < 0)
                        return -1;
                *ret = found && *ret > one ? *ret : one;
                found = 1;
        }
        return found;
}

static const char *read_aliyun(const json_t *container, struct terms *ret)
{
        struct terms terms = { .count = 1 };
        int has_memory = quantity(container, NAME_ALIYUN_MEMORY, &terms.memory),
            has_count = quantity(container, NAME_ALIYUN_COUNT, &terms.count);

        if (has_memory < 0 || has_count < 0)
                return "what it asks for is not a whole number";
        if (terms.count != 1 || !has_memory)
                return "aliyun.com/gpu-count is 1, beside aliyun.com/gpu-mem: for several GPUs ask for sublet.dev/"
                       "gpu-count, with sublet.dev/gpu-mem of each";
        *ret = terms;
        return NULL;
}

/* Whole units, not less than was asked for. */
static const char *hami_memory(const struct translate_settings *settings, const json_t *container, uint64_t *ret)
{
        uint64_t size = 0, percent = 100, units = settings->device / settings->unit;
        int has_size = quantity(container, NAME_HAMI_MEMORY, &size),
            has_percent = quantity(container, NAME_HAMI_PERCENT, &percent);

        if (has_size < 0 || has_percent < 0)
                return "what it asks for is not a whole number";
        if (has_size && size) { /* at most OBJECT_UNITS_MAX MiB */
                *ret = (size * MIB + settings->unit - 1) / settings->unit;
                return NULL;
        }
        if (!percent || percent > 100)
                return "nvidia.com/gpumem-percentage is 1 to 100";
        if (!units)
                return "how much memory a GPU has is not known here: ask by nvidia.com/gpumem, or start the webhook "
                       "with --device-memory SIZE";
        *ret = (units * percent + 99) / 100;
        return NULL;
}

static const char *read_hami(const struct translate_settings *settings, const json_t *container, struct terms *ret)
{
        struct terms terms = { .count = 1 };
        uint64_t priority = 1;
        int has_count = quantity(container, NAME_NVIDIA, &terms.count),
            has_share = quantity(container, NAME_HAMI_CORES, &terms.share),
            has_priority = quantity(container, NAME_HAMI_PRIORITY, &priority);
        const char *problem = hami_memory(settings, container, &terms.memory);

        if (problem)
                return problem;
        if (has_count < 0 || has_share < 0 || has_priority < 0)
                return "what it asks for is not a whole number";
        if (!terms.count || terms.count > PLACEMENT_WANTS)
                return "nvidia.com/gpu beside nvidia.com/gpumem is 1 to 16";
        if (terms.share > 100)
                return "nvidia.com/gpucores is 0 to 100, of each GPU";
        if (priority > 1)
                return "nvidia.com/priority is 0 (high) or 1 (low)";
        if (has_priority)
                terms.class = priority ? "batch" : "latency";
        *ret = terms;
        return NULL;
}

/* 1: it is to be translated; 0: it is not, or cannot be, with *ret_problem. */
static int read_terms(const struct translate_settings *settings, unsigned int words, const json_t *container,
                      struct terms *ret, const char **ret_problem)
{
        *ret_problem = NULL;
        if (words & settings->words & TRANSLATE_ALIYUN)
                *ret_problem = read_aliyun(container, ret);
        else if (words & TRANSLATE_HAMI)
                *ret_problem = read_hami(settings, container, ret);
        else
                return 0;
        return !*ret_problem;
}

/* ---- what is wrong ----------------------------------------------------------------------------- */

static bool is_mixed(unsigned int words)
{
        return (words & (words - 1)) != 0;
}

/* Of a pod that rents. */
static bool judge(const struct translate_settings *settings, const json_t *spec, const json_t *container,
                  bool is_ordinary, char why[static TRANSLATE_WHY])
{
        unsigned int words = words_for_us(settings, spec, container), first = words & -words, rest = words & ~first;
        const char *problem;
        struct terms terms;

        if (words & WORDS_RENT && is_mixed(words)) { /* V3 */
                (void)snprintf(
                        why, TRANSLATE_WHY,
                        "container %.63s asks in %s and in %s: a device would be booked twice, ask in one of them",
                        name_of(container), word_for(first), word_for(rest));
                return true;
        }
        if (words & WORDS_NVIDIA) {
                (void)snprintf(why, TRANSLATE_WHY,
                               "container %.63s asks for " NAME_NVIDIA " in a pod that rents: a device would be booked "
                               "twice, ask for " NAME_MEMORY,
                               name_of(container));
                return true;
        }
        if (read_terms(settings, words, container, &terms, &problem) && !is_ordinary)
                problem = "an init container asks for a GPU: give it to an ordinary one";
        if (problem)
                (void)snprintf(why, TRANSLATE_WHY, "container %.63s: %s", name_of(container), problem);
        return problem;
}

bool translate_problem(const struct translate_settings *settings, const json_t *pod, char why[static TRANSLATE_WHY])
{
        const json_t *spec = json_object_get(pod, "spec"), *container;
        unsigned int words = 0;
        size_t i;

        for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
                json_array_foreach (json_object_get(spec, kinds[k]), i, container)
                        words |= words_for_us(settings, spec, container);
        for (size_t k = 0; k < ARRAY_SIZE(kinds) && words & WORDS_RENT; k++)
                json_array_foreach (json_object_get(spec, kinds[k]), i, container)
                        if (judge(settings, spec, container, k == 0, why))
                                return true;
        return false;
}

/* ---- translation ------------------------------------------------------------------------------- */

static void set_number(json_t *list, const char *name, uint64_t value)
{
        char text[24];

        (void)snprintf(text, sizeof(text), "%" PRIu64, value);
        (void)json_object_set_new(list, name, json_string(text));
}

/* The container's resources in our words. */
static void rewrite(json_t *container, const struct terms *terms)
{
        for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
                json_t *list = json_object_get(json_object_get(container, "resources"), lists[k]);
                bool had = json_object_del(list, NAME_NVIDIA) == 0;

                for (size_t i = 0; i < ARRAY_SIZE(resources); i++)
                        had |= json_object_del(list, resources[i].name) == 0;
                if (!had)
                        continue;
                set_number(list, NAME_MEMORY, terms->memory);
                if (terms->share)
                        set_number(list, NAME_SHARE, terms->share);
                if (terms->count > 1)
                        set_number(list, NAME_COUNT, terms->count);
        }
}

/* In the copy and as a patch. */
static void add_variable(json_t *container, const char *at, json_t *variable, json_t *patches)
{
        json_t *list = json_object_get(container, "env");
        bool has_list = json_is_array(list);
        char path[PATH];

        (void)snprintf(path, sizeof(path), has_list ? "%s/env/-" : "%s/env", at);
        if (has_list)
                (void)json_array_append(list, variable);
        else
                (void)json_object_set_new(container, "env", json_pack("[O]", variable));
        patch_add(patches, "add", path, has_list ? variable : json_pack("[o]", variable));
}

static void translate_container(json_t *container, size_t i, const struct terms *terms, json_t *patches)
{
        char at[64], path[PATH];

        (void)snprintf(at, sizeof(at), "/spec/containers/%zu", i);
        (void)snprintf(path, sizeof(path), "%s/resources", at);
        rewrite(container, terms);
        patch_add(patches, "replace", path, json_deep_copy(json_object_get(container, "resources")));
        if (terms->class)
                add_variable(container, at, json_pack("{s:s,s:s}", "name", VARIABLE_CLASS, "value", terms->class),
                             patches);
}

static void add_vocabulary(json_t *pod, json_t *patches)
{
        json_t *metadata = json_object_get(pod, "metadata");

        if (!json_is_object(json_object_get(metadata, "annotations"))) {
                (void)json_object_set_new(metadata, "annotations", json_object());
                patch_add(patches, "add", "/metadata/annotations", json_object());
        }
        (void)json_object_set_new(json_object_get(metadata, "annotations"), ANNOTATION_VOCABULARY,
                                  json_string(VOCABULARY_ALIYUN));
        patch_add(patches, "add", "/metadata/annotations/sublet.dev~1vocabulary", json_string(VOCABULARY_ALIYUN));
}

json_t *translate_pod(const struct translate_settings *settings, const json_t *pod, json_t *patches)
{
        char why[TRANSLATE_WHY];
        json_t *copy, *container;
        unsigned int translated = 0;
        size_t i;

        if (translate_problem(settings, pod, why) || !(copy = json_deep_copy(pod)))
                return NULL;
        json_array_foreach (json_object_get(json_object_get(copy, "spec"), "containers"), i, container) {
                unsigned int words = words_for_us(settings, json_object_get(copy, "spec"), container);
                const char *problem;
                struct terms terms;

                if (!read_terms(settings, words, container, &terms, &problem))
                        continue;
                translate_container(container, i, &terms, patches);
                translated |= words;
        }
        if (translated & TRANSLATE_ALIYUN)
                add_vocabulary(copy, patches);
        if (translated)
                return copy;
        json_decref(copy);
        return NULL;
}

/* ---- variables --------------------------------------------------------------------------------- */

static const char *const annotated[] = { ANNOTATION_ALIYUN_INDEX, ANNOTATION_ALIYUN_POD, ANNOTATION_ALIYUN_DEVICE };

/* Of the pod's annotation of the same name, which the extender writes before the binding and nobody else may. */
static json_t *annotated_variable(const char *name)
{
        char path[PATH];

        (void)snprintf(path, sizeof(path), "metadata.annotations['%s']", name);
        return json_pack("{s:s,s:{s:{s:s,s:s}}}", "name", name, "valueFrom", "fieldRef", "apiVersion", "v1",
                         "fieldPath", path);
}

static json_t *container_variable(const json_t *container)
{
        uint64_t memory = 0;
        char text[24];

        if (quantity(container, NAME_MEMORY, &memory) < 1)
                return NULL;
        (void)snprintf(text, sizeof(text), "%" PRIu64, memory);
        return json_pack("{s:s,s:s}", "name", VARIABLE_ALIYUN_CONTAINER, "value", text);
}

void translate_variables(const json_t *pod, const json_t *container, const char *at, json_t *patches)
{
        const char *vocabulary =
                text_at(json_object_get(json_object_get(pod, "metadata"), "annotations"), ANNOTATION_VOCABULARY);
        json_t *own = vocabulary && !strcmp(vocabulary, VOCABULARY_ALIYUN) ? container_variable(container) : NULL,
               *copy;

        if (!own)
                return;
        copy = json_copy((json_t *)(uintptr_t)container); /* whose list of variables grows here only */
        (void)json_object_set_new(copy, "env", json_copy(json_object_get(container, "env")));
        add_variable(copy, at, own, patches);
        for (size_t i = 0; i < ARRAY_SIZE(annotated); i++)
                add_variable(copy, at, annotated_variable(annotated[i]), patches);
        json_decref(copy);
}

bool translate_may_set(const json_t *container, const json_t *variable)
{
        static const char *const classes[] = { "latency", "normal", "batch" };
        const char *name = text_at(variable, "name"), *value = text_at(variable, "value");
        json_t *expected = NULL;
        bool is_good = false;

        for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
                is_good |= name && value && !strcmp(name, VARIABLE_CLASS) && !strcmp(value, classes[i]);
        for (size_t i = 0; i < ARRAY_SIZE(annotated) && name && !expected; i++)
                if (!strcmp(name, annotated[i]))
                        expected = annotated_variable(name);
        if (name && !strcmp(name, VARIABLE_ALIYUN_CONTAINER))
                expected = container_variable(container);
        is_good |= expected && json_equal(expected, variable);
        json_decref(expected);
        return is_good;
}
