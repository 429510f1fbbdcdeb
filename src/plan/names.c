/* SPDX-License-Identifier: Apache-2.0 */
/* The names of models, modes and ways. */
#include "plan/plan.h"

#include "base/cleanup.h"

#include <string.h>

static const struct row {
        struct plan_model model;
        const char *word;
} rows[] = {
#define MODEL(name, word, mib, has_mig, slice) { { name, (bytes)(mib)*MIB, has_mig, (bytes)(slice)*MIB }, word },
#include "plan/models.def"
#undef MODEL
};

const struct plan_model *plan_model(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (!strcmp(rows[i].model.name, name))
                        return &rows[i].model;
        return NULL;
}

/* "NVIDIA A100-SXM4-80GB" has the word A100, and not A10. */
static bool has_word(const char *name, const char *word)
{
        static const char between[] = " -";
        size_t n = strlen(word);

        for (name += strspn(name, between); *name; name += strspn(name, between)) {
                size_t length = strcspn(name, between);

                if (length == n && !memcmp(name, word, n))
                        return true;
                name += length;
        }
        return false;
}

static bytes distance(bytes a, bytes b)
{
        return a > b ? a - b : b - a;
}

const struct plan_model *plan_model_of(const char *name, bytes memory)
{
        const struct plan_model *best = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (has_word(name, rows[i].word) &&
                    (!best || distance(rows[i].model.memory, memory) < distance(best->memory, memory)))
                        best = &rows[i].model;
        return best;
}

const char *plan_mode_name(enum plan_mode mode)
{
        static const char *const names[PLAN_N_MODES] = { "whole", "turns", "slices", "spatial", "mig", "suspend" };

        return (size_t)mode < ARRAY_SIZE(names) ? names[mode] : "?";
}

enum plan_way plan_way_of(enum plan_mode mode)
{
        return mode == PLAN_SPATIAL ? PLAN_SPACE : mode == PLAN_MIG ? PLAN_INSTANCES : PLAN_TIME;
}

const char *plan_way_name(enum plan_way way)
{
        static const char *const names[PLAN_N_WAYS] = { "", "time", "spatial", "mig" };

        return (size_t)way < ARRAY_SIZE(names) ? names[way] : "";
}

bool plan_is_sleeper(const struct plan_service *service)
{
        return service->burst == PLAN_RARE && service->wake;
}
