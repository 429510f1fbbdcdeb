/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/read.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/when.h"
#include "conf/file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The position in the file, for messages. */
struct place {
        const char *file;
        const struct conf_lines *lines; /* NULL: not known */
        const json_t *at;               /* the service itself */
        const char *service;
        struct err *err;
};

/* "FILE:LINE", or "FILE" where nobody knows the line. */
static const char *file_and_line(const char *file, size_t line, char *ret, size_t size)
{
        (void)snprintf(ret, size, line ? "%s:%zu" : "%s", file, line);
        return ret;
}

static int place_refuse(const struct place *place, const char *key, const char *wanted)
{
        size_t line = conf_line_of_key(place->lines, place->at, key);
        char where[512];

        return err_say(
                place->err, -EINVAL, "%s: service '%s': %s: %s",
                file_and_line(place->file, line ? line : conf_line_of(place->lines, place->at), where, sizeof(where)),
                place->service, key, wanted);
}

static int read_text(const struct place *place, const json_t *value, const char *key, char *ret, size_t size)
{
        const char *text = json_string_value(value);

        if (!value)
                return 0;
        if (!text || !*text || strlen(text) >= size)
                return place_refuse(place, key, "a word of at most 63 characters, please");
        (void)snprintf(ret, size, "%s", text);
        return 0;
}

/* A replica is a tenant, SERVICE-N, so its name has the characters of a tenant's. */
static bool is_name(const char *name)
{
        for (const char *c = name; *c; c++)
                if (!isalnum((unsigned char)*c) && !strchr(c == name ? "" : "._-", *c))
                        return false;
        return strlen(name) <= 58;
}

static int read_span(const struct place *place, const json_t *value, const char *key, nsec *ret)
{
        const char *text = json_string_value(value);

        if (!value)
                return 0;
        if (!text || duration_parse(text, ret) < 0 || *ret == 0)
                return place_refuse(place, key, "a span such as 50ms or 10s, please");
        return 0;
}

static int read_word(const struct place *place, const json_t *value, const char *key, const char *const *words,
                     size_t n, const char *wanted, unsigned int *ret)
{
        if (!value)
                return 0;
        for (size_t i = 0; i < n; i++)
                if (json_is_string(value) && !strcmp(json_string_value(value), words[i])) {
                        *ret = (unsigned int)i;
                        return 0;
                }
        return place_refuse(place, key, wanted);
}

static int read_memory(const struct place *place, const json_t *value, bytes *ret)
{
        static const char wanted[] = "a size such as 8G is needed: what a replica holds, its context included";
        const char *text = json_string_value(value);
        char wrong[BYTES_WRONG], number[BYTES_TEXT];

        if (json_is_integer(value)) { /* `memory: 8` */
                (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
                text = number;
        }
        if (!text || strchr(text, '%') || bytes_parse(text, 0, ret) < 0)
                return place_refuse(place, "memory", text ? bytes_wrong(text, wanted, wrong) : wanted);
        return 0;
}

static int read_parts(const struct place *place, const json_t *value, unsigned int *ret)
{
        json_int_t n = json_integer_value(value);

        *ret = 1;
        if (!value)
                return 0;
        if (n < 1 || n > PLAN_PARTS_MAX)
                return place_refuse(place, "gpus", "how many devices a replica is on, from 1 to 16, please");
        *ret = (unsigned int)n;
        return 0;
}

static int read_count(const struct place *place, const json_t *value, unsigned int *ret)
{
        json_int_t n = json_integer_value(value);

        *ret = 1;
        if (!value)
                return 0;
        if (n < 1 || n > PLAN_REPLICAS_MAX)
                return place_refuse(place, "count", "a number of replicas from 1 to 1024, please");
        *ret = (unsigned int)n;
        return 0;
}

/* Either requests and the time of one, or the load itself. */
static int read_load(const struct place *place, const json_t *service, struct plan_service *ret)
{
        const json_t *requests = json_object_get(service, "requests"), *load = json_object_get(service, "load");
        unsigned int permille;

        if (load) {
                if (requests || !json_is_string(load) || permille_parse(json_string_value(load), &permille) < 0)
                        return place_refuse(place, "load",
                                            "a percentage of a device such as 60%, or requests and time instead");
                ret->load = (double)permille / 1000;
                return 0;
        }
        if (!json_is_number(requests) || json_number_value(requests) < 0 || json_number_value(requests) > 1e9)
                return place_refuse(place, "requests",
                                    "requests per second to the whole service, or a load, are needed");
        if (!ret->time)
                return place_refuse(place, "time",
                                    "the device time of a request when it is alone, such as 18ms, is needed");
        ret->load = json_number_value(requests) * (double)ret->time / 1e9 / ret->count;
        return 0;
}

static int check_keys(const struct place *place, const json_t *service)
{
        static const char *const known[] = { "name",  "memory", "requests", "time", "load",  "latency",
                                             "trust", "team",   "burst",    "wake", "count", "gpus" };
        const char *key;
        json_t *value;

        json_object_foreach ((json_t *)(uintptr_t)service, key, value) {
                bool is_known = false;

                for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                        is_known |= !strcmp(key, known[i]);
                if (!is_known)
                        return place_refuse(place, key, "there is no such key");
        }
        return 0;
}

static int read_service(const char *file, const struct conf_lines *lines, size_t index, const json_t *service,
                        struct plan_service *ret, struct err *err)
{
        static const char *const trusts[] = { "team", "tenant", "untrusted" };
        static const char *const bursts[] = { "steady", "bursty", "rare" };
        char number[32];
        struct place place = { file, lines, service, number, err };
        unsigned int trust = PLAN_TEAM, burst = PLAN_STEADY;
        int r;

        *ret = (struct plan_service){ .team = "" };
        (void)snprintf(number, sizeof(number), "number %zu", index + 1);
        if (!json_is_object(service) || !json_object_get(service, "name"))
                return place_refuse(&place, "name", "each service needs one");
        if ((r = read_text(&place, json_object_get(service, "name"), "name", ret->name, sizeof(ret->name))) < 0)
                return r;
        place.service = ret->name;
        if (!is_name(ret->name))
                return place_refuse(&place, "name",
                                    "letters, digits, '.', '_' and '-', at most 58, a letter or digit first");
        if ((r = check_keys(&place, service)) < 0 ||
            (r = read_text(&place, json_object_get(service, "team"), "team", ret->team, sizeof(ret->team))) < 0 ||
            (r = read_memory(&place, json_object_get(service, "memory"), &ret->memory)) < 0 ||
            (r = read_count(&place, json_object_get(service, "count"), &ret->count)) < 0 ||
            (r = read_parts(&place, json_object_get(service, "gpus"), &ret->gpus)) < 0 ||
            (r = read_span(&place, json_object_get(service, "time"), "time", &ret->time)) < 0 ||
            (r = read_span(&place, json_object_get(service, "latency"), "latency", &ret->goal)) < 0 ||
            (r = read_span(&place, json_object_get(service, "wake"), "wake", &ret->wake)) < 0 ||
            (r = read_word(&place, json_object_get(service, "trust"), "trust", trusts, ARRAY_SIZE(trusts),
                           "team, tenant or untrusted", &trust)) < 0 ||
            (r = read_word(&place, json_object_get(service, "burst"), "burst", bursts, ARRAY_SIZE(bursts),
                           "steady, bursty or rare", &burst)) < 0 ||
            (r = read_load(&place, service, ret)) < 0)
                return r;
        ret->trust = (enum plan_trust)trust;
        ret->burst = (enum plan_burst)burst;
        if (ret->goal && !ret->time)
                return place_refuse(&place, "latency", "a goal needs requests and the time of one");
        return 0;
}

/* ":nvlink": all of them; ":nvlink=2": groups of two. 0: not joined. */
static int read_joined(const char *text, uint64_t count, uint64_t *ret)
{
        static const char word[] = ":nvlink";
        uint64_t group = count;

        *ret = 0;
        if (!*text)
                return 0;
        if (strncmp(text, word, sizeof(word) - 1) != 0)
                return -EINVAL;
        text += sizeof(word) - 1;
        if (*text && (*text != '=' || number_parse(text + 1, &group) < 0 || !group))
                return -EINVAL;
        *ret = group;
        return 0;
}

static void append_server(const struct plan_model *model, uint64_t count, uint64_t joined, struct plan_input *to)
{
        const size_t first = to->n_devices;

        for (size_t i = 0; i < count; i++) {
                to->devices[to->n_devices] = model;
                to->servers[to->n_devices] = to->n_servers;
                to->nvlink[to->n_devices] = 0;
                for (size_t k = 0; joined && k < count; k++)
                        if (k != i && k / joined == i / joined)
                                to->nvlink[to->n_devices] |= UINT64_C(1) << (first + k);
                to->n_devices++;
        }
        to->n_servers++;
}

int plan_read_gpus(const char *text, struct plan_input *ret, struct err *err)
{
        size_t word = strcspn(text, "=:"), number = text[word] == '=' ? strcspn(text + word, ":") : 0;
        const struct plan_model *model;
        uint64_t count = 1, joined = 0;
        char name[64], digits[24] = "";

        (void)snprintf(name, sizeof(name), "%.*s", (int)(word < 63 ? word : 63), text);
        model = plan_model(name);
        if (!model)
                return err_say(err, -EINVAL, "the model '%s' is not known here ('sublet plan --models')", name);
        if (number)
                (void)snprintf(digits, sizeof(digits), "%.*s", (int)(number < 23 ? number - 1 : 22), text + word + 1);
        if ((number && (number_parse(digits, &count) < 0 || !count)) ||
            read_joined(text + word + number, count, &joined) < 0)
                return err_say(err, -EINVAL, "'%s': a model and a number, such as H200=2 or H200=2:nvlink", text);
        if (count > PLAN_DEVICES_MAX - ret->n_devices)
                return err_say(err, -EINVAL, "more than %d devices", PLAN_DEVICES_MAX);
        append_server(model, count, joined, ret);
        return 0;
}

static int read_gpus(const char *name, const json_t *gpus, struct plan_input *ret, struct err *err)
{
        size_t i;
        json_t *gpu;
        int r = 0;

        if (json_is_string(gpus))
                r = plan_read_gpus(json_string_value(gpus), ret, err);
        else if (gpus && !json_is_array(gpus))
                r = err_say(err, -EINVAL, "a list such as [H200=2, L4], please");
        json_array_foreach ((json_t *)(uintptr_t)gpus, i, gpu) {
                if (r == 0)
                        r = json_is_string(gpu) ? plan_read_gpus(json_string_value(gpu), ret, err) :
                                                  err_say(err, -EINVAL, "a list such as [H200=2, L4], please");
        }
        return r < 0 ? err_while(err, "%s: gpus", name) : 0;
}

/* Replicas are tenants, SERVICE-N: two services of one name would be each other's. */
static bool is_known(const struct plan_input *input, const char *name)
{
        for (size_t i = 0; i < input->n_services; i++)
                if (!strcmp(input->services[i].name, name))
                        return true;
        return false;
}

int plan_read(const char *name, const json_t *file, const struct conf_lines *lines, struct plan_input *ret,
              struct err *err)
{
        const json_t *services = json_object_get(file, "services");
        const char *key;
        json_t *value;
        char where[512];
        int r;

        *ret = (struct plan_input){ 0 };
        json_object_foreach ((json_t *)(uintptr_t)file, key, value) {
                if (strcmp(key, "services") != 0 && strcmp(key, "gpus") != 0)
                        return err_say(err, -EINVAL, "%s: there is no key '%s': services and gpus",
                                       file_and_line(name, conf_line_of(lines, key), where, sizeof(where)), key);
        }
        if (!json_is_array(services) || !json_array_size(services))
                return err_say(err, -EINVAL,
                               "%s: a list of services is needed, such as 'services: [{name: chat, ...}]'",
                               file_and_line(name, conf_line_of_key(lines, file, "services"), where, sizeof(where)));
        if (json_array_size(services) > PLAN_SERVICES_MAX)
                return err_say(err, -EINVAL, "%s: more than %d services", name, PLAN_SERVICES_MAX);
        for (size_t i = 0; i < json_array_size(services); i++) {
                r = read_service(name, lines, i, json_array_get(services, i), &ret->services[i], err);
                if (r == 0 && is_known(ret, ret->services[i].name))
                        r = err_say(err, -EINVAL, "%s: service '%s': name: another service has it",
                                    file_and_line(name, conf_line_of(lines, json_array_get(services, i)), where,
                                                  sizeof(where)),
                                    ret->services[i].name);
                if (r < 0)
                        return r;
                ret->n_services++;
        }
        return read_gpus(file_and_line(name, conf_line_of_key(lines, file, "gpus"), where, sizeof(where)),
                         json_object_get(file, "gpus"), ret, err);
}
