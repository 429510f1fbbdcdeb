/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet set`: changes a tenant's lease while it runs. Keys are rows. The result is printed as a difference, with the
 * daemon's notes.
 */
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "base/when.h"
#include "ask/ask.h"
#include "ask/field.h"
#include "base/flags.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#define GOAL_MOST (10 * NSEC_PER_SEC)
#define SLEEP_LEAST NSEC_PER_SEC
#define SLEEP_MOST (7 * 24 * 3600 * NSEC_PER_SEC)

static const char usage[] =
        "usage: sublet set [OPTION...] TENANT KEY=VALUE...\n"
        "Changes a tenant's lease while it runs.\n"
        "\n"
        "  mem=SIZE[,DEVICE=SIZE...]   quota of GPU memory: 8G, 512M, 25%; 8G,1=16G for one device,\n"
        "                              by number, UUID or PCI address\n"
        "  share=PERCENT|none          part of GPU time that it is entitled to: 30, 12.5%; none: an equal part\n"
        "  cap=PERCENT|none            part of GPU time that it never exceeds\n"
        "  class=latency|normal|batch  whether it waits for others, or they for it\n"
        "  latency=TIME|none           p99 of a step that arrives while it is within its share: 10ms\n"
        "  sleep-after=TIME|none       idle for so long, it is suspended, if a router wakes it: 30s\n"
        "  host-swap=SIZE|none         host memory it may have while suspended: 8G; none: as its quota\n"
        "\n"
        "\f"
        "\n"
        "A quota below what the tenant holds refuses new memory until it has freed enough; nothing is taken away.\n"
        "The exit code is 0; 1 if the daemon refused (nothing has changed then); 2 for bad use.\n";

static int check_size(const char *text, struct err *err)
{
        char wrong[BYTES_WRONG];
        bytes size;

        if (bytes_parse(text, GIB, &size) < 0)
                return err_say(err, -EINVAL, "mem=%s: %s", text,
                               bytes_wrong(text, "not a size such as 8G, 512M or 25%", wrong));
        return 0;
}

/* As far as can be seen without the daemon. */
static bool is_device(const char *text)
{
        uint64_t number;

        return number_parse(text, &number) == 0 || !strncasecmp(text, "GPU-", 4) || strchr(text, ':');
}

/* "8G" or "8G,1=16G" as an object of devices; key "" is every other device. */
static int put_mem(json_t *body, const char *value, struct err *err)
{
        _cleanup_(freep) char *copy = strdup(value);
        json_t *devices = json_object();
        char *rest = copy, *item, *size;
        int r = copy && devices ? 0 : err_set(err, -ENOMEM, "mem");

        while (r == 0 && (item = strsep(&rest, ","))) {
                size = strchr(item, '=');
                if (size)
                        *size++ = '\0';
                if (size && !is_device(item))
                        r = err_say(err, -EINVAL, "mem=%s: '%s' is no device: a number, a UUID or a PCI address", value,
                                    item);
                else
                        r = check_size(size ? size : item, err);
                if (r == 0)
                        (void)json_object_set_new(devices, size ? item : "", json_string(size ? size : item));
        }
        if (r < 0)
                json_decref(devices);
        else
                (void)json_object_set_new(body, "mem", devices);
        return r;
}

static int put_percent(json_t *body, const char *key, const char *field, const char *value, struct err *err)
{
        unsigned int permille;

        if (permille_parse(value, &permille) < 0)
                return err_say(err, -EINVAL, "%s=%s: percent, 0.1 to 100, such as 30 or 12.5", key, value);
        (void)json_object_set_new(body, field, json_integer((json_int_t)permille));
        return 0;
}

static int put_share(json_t *body, const char *value, struct err *err)
{
        if (!strcmp(value, "none"))
                return json_object_set_new(body, "share_permille", json_null());
        return put_percent(body, "share", "share_permille", value, err);
}

static int put_cap(json_t *body, const char *value, struct err *err)
{
        return put_percent(body, "cap", "cap_permille", strcmp(value, "none") ? value : "100", err);
}

static int put_class(json_t *body, const char *value, struct err *err)
{
        if (strcmp(value, "latency") && strcmp(value, "normal") && strcmp(value, "batch"))
                return err_say(err, -EINVAL, "class=%s: latency, normal or batch", value);
        (void)json_object_set_new(body, "class", json_string(value));
        return 0;
}

static int put_latency(json_t *body, const char *value, struct err *err)
{
        nsec goal = 0;

        if (strcmp(value, "none") != 0 &&
            (duration_parse(value, &goal) < 0 || goal < NSEC_PER_MSEC || goal > GOAL_MOST))
                return err_say(err, -EINVAL, "latency=%s: a time from 1ms to 10s, such as 10ms, or none", value);
        (void)json_object_set_new(body, "latency_us", goal ? json_integer(goal / NSEC_PER_USEC) : json_null());
        return 0;
}

static int put_sleep(json_t *body, const char *value, struct err *err)
{
        nsec after = 0;

        if (strcmp(value, "none") != 0 &&
            (duration_parse(value, &after) < 0 || after < SLEEP_LEAST || after > SLEEP_MOST))
                return err_say(err, -EINVAL, "sleep-after=%s: a time from 1s to 7d, such as 30s, or none", value);
        (void)json_object_set_new(body, "sleep_after_us", after ? json_integer(after / NSEC_PER_USEC) : json_null());
        return 0;
}

static int put_host_swap(json_t *body, const char *value, struct err *err)
{
        char wrong[BYTES_WRONG];
        bytes size = 0;

        if (strcmp(value, "none") != 0 && (bytes_parse(value, 0, &size) < 0 || !size))
                return err_say(err, -EINVAL, "host-swap=%s: %s", value,
                               bytes_wrong(value, "not a size such as 8G or 512M, or none", wrong));
        (void)json_object_set_new(body, "host_swap_bytes", size ? json_integer((json_int_t)size) : json_null());
        return 0;
}

static const struct key {
        const char *name;
        int (*put)(json_t *body, const char *value, struct err *err);
} keys[] = {
        { "mem", put_mem },
        { "share", put_share },
        { "cap", put_cap },
        { "class", put_class },
        { "latency", put_latency },
        { "sleep-after", put_sleep },
        { "host-swap", put_host_swap },
};

/* Adds a word such as "share=30" to the request. */
static int body_put(json_t *body, const char *word, struct err *err)
{
        size_t n = strcspn(word, "=");

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (strlen(keys[i].name) == n && !strncmp(keys[i].name, word, n) && word[n] == '=')
                        return keys[i].put(body, word + n + 1, err);
        return err_say(err, -EINVAL,
                       "'%s' is none of mem=, share=, cap=, class=, latency=, sleep-after= and host-swap=", word);
}

/* The number of a device as text in ret. -EINVAL. */
static int device_number(const json_t *devices, const char *name, char ret[static 24], struct err *err)
{
        const json_t *device;
        unsigned int n = 0;
        size_t i;

        json_array_foreach (devices, i, device)
                if (device_name_fits(name, field_text(device, "uuid"), field_text(device, "bus_id"))) {
                        (void)snprintf(ret, 24, "%llu", (unsigned long long)field_number(device, "index"));
                        n++;
                }
        if (n > 1)
                return err_say(err, -EINVAL, "mem=: '%s' is the beginning of %u devices' UUIDs", name, n);
        if (!n)
                return err_say(
                        err, -EINVAL,
                        "mem=: '%s' is no device here: a number, a UUID or a PCI address, as 'nvidia-smi -L' and "
                        "'nvidia-smi -q' list them",
                        name);
        return 0;
}

/* Devices that are named otherwise get their numbers. */
static int number_devices(struct ask *ask, json_t *body, struct err *err)
{
        json_t *mem = json_object_get(body, "mem"), *devices = NULL, *size;
        const char *name;
        uint64_t number;
        void *next;
        int r = 0;

        json_object_foreach_safe (mem, next, name, size) {
                char index[24];

                if (!*name || number_parse(name, &number) == 0)
                        continue;
                if (!devices)
                        r = ask_get(ask, "/v1/devices", &devices, err);
                if (r == 0)
                        r = device_number(devices, name, index, err);
                if (r < 0)
                        break;
                (void)json_object_set(mem, index, size);
                (void)json_object_del(mem, name);
        }
        json_decref(devices);
        return r;
}

/* A size for every device becomes one for each of the tenant's devices that was not named. */
static void spread(json_t *body, const json_t *tenant)
{
        json_t *mem = json_object_get(body, "mem"), *every = json_object_get(mem, "");
        const json_t *device;
        char index[24];
        size_t i;

        if (!every)
                return;
        json_array_foreach (field_array(tenant, "devices"), i, device) {
                (void)snprintf(index, sizeof(index), "%llu", (unsigned long long)field_number(device, "index"));
                if (!json_object_get(mem, index))
                        (void)json_object_set(mem, index, every);
        }
        (void)json_object_del(mem, "");
}

/* Prints a field's change, if there is one; the tenant's name precedes the first. */
static void change_print(bool *has_said, const char *tenant, const char *what, const char *before, const char *after)
{
        if (!strcmp(before, after))
                return;
        if (*has_said)
                (void)printf(", ");
        else
                (void)printf("%s: ", tenant);
        (void)printf("%s %s -> %s", what, before, after);
        *has_said = true;
}

static const char *cap_format(const json_t *device, char buffer[static WHEN_TEXT])
{
        unsigned int cap = (unsigned int)field_permille(device, "cap_permille");

        return cap && cap < 1000 ? permille_format(cap, buffer) : "none";
}

static void print_device(bool *has_said, const char *tenant, const json_t *before, const json_t *after, bool is_one)
{
        char old[WHEN_TEXT], new[WHEN_TEXT], what[64], of[40] = "";

        if (!is_one)
                (void)snprintf(of, sizeof(of), "device %llu ", (unsigned long long)field_number(after, "index"));
        (void)snprintf(what, sizeof(what), "%smemory", of);
        change_print(has_said, tenant, what, bytes_format(field_number(before, "quota_bytes"), old),
                     bytes_format(field_number(after, "quota_bytes"), new));
        (void)snprintf(what, sizeof(what), "%sshare", of);
        change_print(has_said, tenant, what,
                     permille_format((unsigned int)field_permille(before, "share_permille"), old),
                     permille_format((unsigned int)field_permille(after, "share_permille"), new));
        (void)snprintf(what, sizeof(what), "%scap", of);
        change_print(has_said, tenant, what, cap_format(before, old), cap_format(after, new));
}

static const char *latency_text(const json_t *tenant, char buffer[static 32])
{
        uint64_t us = field_number(tenant, "latency_us");

        (void)snprintf(buffer, 32, us % 1000 ? "%g ms" : "%.0f ms", (double)us / 1000);
        return us ? buffer : "none";
}

static const char *sleep_text(const json_t *tenant, char buffer[static WHEN_TEXT])
{
        uint64_t us = field_number(tenant, "sleep_after_us");

        return us ? duration_format((nsec)us * NSEC_PER_USEC, buffer) : "none";
}

static const char *host_swap_text(const json_t *tenant, char buffer[static BYTES_TEXT])
{
        bytes size = field_number(tenant, "host_swap_bytes");

        return size ? bytes_format(size, buffer) : "none";
}

static void print_changes(const char *tenant, const json_t *before, const json_t *after)
{
        const json_t *devices = field_array(after, "devices"), *device, *note;
        const json_t *was = field_array(before, "devices");
        bool has_said = false;
        char text[400], old[WHEN_TEXT], new[WHEN_TEXT], less[BYTES_TEXT], more[BYTES_TEXT];
        size_t i;

        json_array_foreach (devices, i, device)
                print_device(&has_said, tenant, json_array_get(was, i), device, json_array_size(devices) == 1);
        change_print(&has_said, tenant, "class", field_text(before, "class"), field_text(after, "class"));
        change_print(&has_said, tenant, "latency", latency_text(before, old), latency_text(after, new));
        change_print(&has_said, tenant, "sleep-after", sleep_text(before, old), sleep_text(after, new));
        change_print(&has_said, tenant, "host-swap", host_swap_text(before, less), host_swap_text(after, more));
        if (has_said)
                (void)printf("\n");
        else
                (void)printf("%s: as it was\n", tenant);
        json_array_foreach (field_array(after, "notes"), i, note)
                (void)printf("%s: note: %s\n", tenant, field_clean(json_string_value(note), text, sizeof(text)));
}

static int change(const char *dir, const char *tenant, json_t *body, bool is_json, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        json_t *before = NULL, *after = NULL;
        char path[ASK_PATH];
        int r;

        if ((r = ask_path(path, "/v1/tenants/", tenant)) < 0)
                return err_say(err, r, "%s: no tenant has such a long name", tenant);
        if ((r = ask_new(dir, &ask, err)) < 0 || (r = ask_get(ask, path, &before, err)) < 0)
                return r;
        if ((r = number_devices(ask, body, err)) == 0) {
                spread(body, before);
                r = ask_patch(ask, path, body, &after, err);
        }
        if (r == 0 && is_json)
                (void)(json_dumpf(after, stdout, JSON_INDENT(1)) == 0 && printf("\n"));
        else if (r == 0)
                print_changes(tenant, before, after);
        json_decref(before);
        json_decref(after);
        return r;
}

/* The words as the body of the request. */
static int changes_parse(char **words, json_t *body, struct err *err)
{
        if (!words[0] || !words[1])
                return err_say(err, -EINVAL, "a tenant and what to change: 'sublet set chat-1 share=30'");
        for (words++; *words; words++)
                if (body_put(body, *words, err) < 0)
                        return -EINVAL;
        return 0;
}

int set_main(int argc, char **argv)
{
        bool is_json = false;
        const char *dir = NULL;
        const struct flag flags[] = {
                { "json", 0, flag_is, &is_json, NULL, "the daemon's answer", NULL },
                { "dir", 0, flag_text, &dir, "DIR", "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)",
                  NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse(argc, argv, flags, ARRAY_SIZE(flags), usage, &code);
        json_t *body;

        if (operand < 0)
                return code;
        (void)setlocale(LC_CTYPE, "");
        body = json_object();
        code = VERB_DONE;
        if (changes_parse(argv + operand, body, &err) < 0) {
                (void)flags_failed(&err);
                code = VERB_USAGE;
        } else if (change(dir, argv[operand], body, is_json, &err) < 0) {
                code = flags_failed(&err);
        }
        json_decref(body);
        return code;
}
