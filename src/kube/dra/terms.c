/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/dra/terms.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/when.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
        LIST = 64, /* of capabilities, with its NUL */
        GOAL_MOST = 10,
};

static const char *text_at(const json_t *json, const char *key)
{
        const char *text = json_string_value(json_object_get(json, key));

        return text ? text : "";
}

bool terms_is_request(const char *request, const char *asked)
{
        size_t n = strlen(asked);

        return !n || (!strncmp(request, asked, n) && (!request[n] || request[n] == '/'));
}

static const json_t *entries_of(const json_t *allocation)
{
        return json_object_get(json_object_get(allocation, "devices"), "config");
}

/* No entries: of all requests. */
static bool is_about(const json_t *entry, const char *request)
{
        const json_t *list = json_object_get(entry, "requests"), *one;
        size_t i;

        json_array_foreach (list, i, one)
                if (json_is_string(one) && terms_is_request(request, json_string_value(one)))
                        return true;
        return !json_array_size(list);
}

/* ---- values: the text of a row, the caller's; NULL with why ---- */

static json_t *read_cap(const json_t *value, const char **why)
{
        json_int_t percent = json_integer_value(value);
        char text[24];

        *why = "percent of the device's time, a whole number of 1 to 100";
        (void)snprintf(text, sizeof(text), "%lld", (long long)percent);
        return json_is_integer(value) && percent > 0 && percent <= 100 ? json_string(text) : NULL;
}

static json_t *read_class(const json_t *value, const char **why)
{
        static const char *const classes[] = { "latency", "normal", "batch" };

        *why = "latency, normal or batch";
        for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
                if (json_is_string(value) && !strcmp(json_string_value(value), classes[i]))
                        return json_string(classes[i]);
        return NULL;
}

static json_t *read_latency(const json_t *value, const char **why)
{
        const char *text = json_string_value(value);
        nsec goal;

        *why = "a time from 1ms to 10s, such as \"10ms\"";
        if (!text || strlen(text) > 15 || duration_parse(text, &goal) < 0 || goal < NSEC_PER_MSEC ||
            goal > GOAL_MOST * NSEC_PER_SEC)
                return NULL;
        return json_string(text);
}

static json_t *read_swap(const json_t *value, const char **why)
{
        *why = "true or false";
        return json_is_boolean(value) ? json_string(json_is_true(value) ? "true" : "false") : NULL;
}

static json_t *read_capabilities(const json_t *value, const char **why)
{
        static const char *const known[] = { "compute", "utility", "video", "graphics", "all" };
        char text[LIST] = "";
        const json_t *one;
        size_t i, n = 0;

        *why = "a list of compute, utility, video, graphics, all";
        json_array_foreach (value, i, one) {
                const char *word = json_is_string(one) ? json_string_value(one) : "";
                size_t k = 0;

                while (k < ARRAY_SIZE(known) && strcmp(known[k], word) != 0)
                        k++;
                if (k == ARRAY_SIZE(known) || n + strlen(word) + 2 > sizeof(text))
                        return NULL;
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? "," : "", word);
        }
        return n ? json_string(text) : NULL;
}

static const struct term {
        const char *name;
        json_t *(*read)(const json_t *value, const char **why);
} terms[] = {
        { "cap", read_cap },
        { "class", read_class },
        { "latency", read_latency },
        { "swap", read_swap },
        { "capabilities", read_capabilities },
};

static const struct term *find_term(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(terms); i++)
                if (!strcmp(terms[i].name, name))
                        return &terms[i];
        return NULL;
}

/* ---- entries ---- */

static int complain(const char *name, const char *what, struct err *err)
{
        return err_say(err, -EINVAL, "parameter %.32s for " DRA_DRIVER ": %s", name, what);
}

static int add_term(json_t *to, const char *name, const json_t *value, struct err *err)
{
        const struct term *term = find_term(name);
        const json_t *old = json_object_get(to, name);
        const char *why = NULL;
        json_t *text;

        if (!strcmp(name, "apiVersion") || !strcmp(name, "kind"))
                return 0;
        if (!strcmp(name, "share") || !strcmp(name, "memory"))
                return complain(name, "ask for it by capacity, which the scheduler counts", err);
        if (!term)
                return complain(name, "cap, class, latency, swap and capabilities are known", err);
        text = term->read(value, &why);
        if (!text)
                return complain(name, why, err);
        if (old && !json_equal(old, text)) {
                json_decref(text);
                return complain(name, "class and claim say it differently", err); /* T2 */
        }
        return json_object_set_new(to, name, text) < 0 ? err_say(err, -ENOMEM, "no memory") : 0;
}

static int add_entry(json_t *to, const json_t *entry, struct err *err)
{
        json_t *parameters = json_object_get(json_object_get(entry, "opaque"), "parameters"), *value;
        const char *name;
        int r = 0;

        if (strcmp(text_at(parameters, "apiVersion"), TERMS_API) != 0 ||
            strcmp(text_at(parameters, "kind"), "Terms") != 0)
                return err_say(err, -EINVAL, "parameters for " DRA_DRIVER " have apiVersion " TERMS_API ", kind Terms");
        json_object_foreach (parameters, name, value)
                if (r == 0)
                        r = add_term(to, name, value, err);
        return r;
}

/* request NULL: each entry for itself. */
static int add_entries(json_t *to, const json_t *allocation, const char *request, struct err *err)
{
        const json_t *entry;
        size_t i;
        int r = 0;

        json_array_foreach (entries_of(allocation), i, entry) {
                bool is_ours = !strcmp(text_at(json_object_get(entry, "opaque"), "driver"), DRA_DRIVER);

                if (r < 0 || !is_ours || (request && !is_about(entry, request)))
                        continue;
                if (!request)
                        (void)json_object_clear(to);
                r = add_entry(to, entry, err);
        }
        return r;
}

int terms_judge(const json_t *allocation, struct err *err)
{
        json_t *any = json_object();
        int r = any ? add_entries(any, allocation, NULL, err) : err_say(err, -ENOMEM, "no memory");

        json_decref(any);
        return r;
}

int terms_read(const json_t *allocation, const char *request, json_t **ret, struct err *err)
{
        json_t *found = json_object();
        int r = found ? add_entries(found, allocation, request, err) : err_say(err, -ENOMEM, "no memory");

        if (r == 0 && json_object_get(found, "latency") &&
            (json_object_get(found, "cap") || json_object_get(found, "class")))
                r = complain("latency", "a goal goes with neither cap nor class", err);
        if (r == 0)
                *ret = found;
        else
                json_decref(found);
        return r;
}
