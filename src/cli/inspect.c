/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet inspect`: everything that the daemon knows of one tenant; `sublet logs`: where logs are. */
#include "cli/known.h"
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "base/when.h"
#include "ask/ask.h"
#include "ask/field.h"
#include "base/flags.h"
#include "cli/parts.h"

#include <errno.h>
#include <locale.h>
#include <pwd.h>
#include <string.h>

static const char usage[] = "usage: sublet inspect [OPTION...] TENANT\n"
                            "Says everything about one tenant: its lease, who asked for it and changed it, what it "
                            "holds, how it is enforced.\n"
                            "\n"
                            "\f";

static const char logs_usage[] = "usage: sublet logs [OPTION...] [TENANT]\n"
                                 "Says where a tenant's output is: Sublet passes it through and keeps none.\n"
                                 "\n"
                                 "\f";

static void line(const char *name, const char *text)
{
        char clean[512];

        if (*text)
                (void)printf("%-12s %s\n", name, field_clean(text, clean, sizeof(clean)));
}

static void print_labels(const json_t *labels)
{
        char text[1024] = "";
        size_t used = 0;
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)labels, name, value)
                if (used < sizeof(text))
                        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s", used ? ", " : "", name,
                                                 json_is_string(value) ? json_string_value(value) : "");
        line("labels", text);
}

/* To whom the daemon has granted the lease, and who has changed it last. */
static void print_grant(const json_t *tenant, const json_t *changed)
{
        const json_t *container = json_object_get(tenant, "container");
        char text[512], when[WHEN_TEXT];

        if (*field_text(container, "pod"))
                (void)snprintf(text, sizeof(text), "to container %s of pod %s/%s", field_text(container, "container"),
                               field_text(container, "namespace"), field_text(container, "name"));
        else if (*field_text(container, "id"))
                (void)snprintf(text, sizeof(text), "to container %s", field_text(container, "id"));
        else
                (void)snprintf(text, sizeof(text), "at the request of user %llu",
                               (unsigned long long)field_number(tenant, "uid"));
        line("granted", text);
        if (!changed)
                return;
        (void)snprintf(text, sizeof(text), "%s: %s", moment_format(field_moment(changed, "time"), when),
                       field_text(changed, "detail"));
        line("changed", text);
}

static void print_kept(const json_t *tenant)
{
        uint64_t process = field_number(tenant, "kept_by");
        char text[64];

        if (!json_is_integer(json_object_get(tenant, "kept_by")))
                return;
        (void)snprintf(text, sizeof(text), "process %llu", (unsigned long long)process);
        line("kept by", process ? text : "a process that /proc does not name");
}

static void print_who(const json_t *tenant, const json_t *changed)
{
        const struct passwd *user = getpwuid((uid_t)field_number(tenant, "uid"));
        const json_t *container = json_object_get(tenant, "container");
        char text[256], since[WHEN_TEXT], held[BYTES_TEXT], quota[BYTES_TEXT];
        const char *name;
        json_t *value;

        (void)snprintf(text, sizeof(text), "%llu%s%s%s", (unsigned long long)field_number(tenant, "uid"),
                       user ? " (" : "", user ? user->pw_name : "", user ? ")" : "");
        line("tenant", field_text(tenant, "tenant"));
        line("user", text);
        line("command", field_text(tenant, "command"));
        line("since", moment_format(field_moment(tenant, "since"), since));
        line("state", field_text(tenant, "state"));
        print_kept(tenant);
        print_grant(tenant, changed);
        line("plane", field_text(tenant, "plane"));
        line("", field_text(tenant, "attach_error"));
        line("mode", field_text(tenant, "mode"));
        line("class", field_text(tenant, "class"));
        if (field_number(tenant, "latency_us")) {
                (void)snprintf(text, sizeof(text), "p99 of a step %.3g ms, within its share",
                               (double)field_number(tenant, "latency_us") / 1000);
                line("latency", text);
        }
        if (field_number(tenant, "sleep_after_us")) {
                (void)snprintf(text, sizeof(text), "after %s idle%s",
                               duration_format((nsec)field_number(tenant, "sleep_after_us") * NSEC_PER_USEC, since),
                               field_is(tenant, "has_waker") ? "" : "; not now: nobody has said that it would wake it");
                line("sleep", text);
        }
        if (field_is(tenant, "swap")) {
                const char *for_what = field_text(tenant, "waits_for");

                (void)snprintf(text, sizeof(text), "on the device in turns%s%s", *for_what ? "; it waits for " : "",
                               for_what);
                line("swap", text);
        }
        if (field_number(tenant, "host_swap_bytes")) {
                (void)snprintf(text, sizeof(text), "at most %s while it is suspended",
                               bytes_format(field_number(tenant, "host_swap_bytes"), held));
                line("host swap", text);
        }
        line("job", field_text(tenant, "job"));
        line("group", field_text(tenant, "group"));
        line("sms", field_text(tenant, "sms"));
        print_labels(json_object_get(tenant, "labels"));
        (void)snprintf(text, sizeof(text), "%llu, under the shim %llu",
                       (unsigned long long)field_number(tenant, "processes"),
                       (unsigned long long)field_number(tenant, "keeper"));
        line("processes", text);
        (void)snprintf(text, sizeof(text), "%s of %s", bytes_format(field_number(tenant, "host_held_bytes"), held),
                       bytes_format(field_number(tenant, "host_quota_bytes"), quota));
        line("host memory", text);
        json_object_foreach ((json_t *)container, name, value)
                line(name, json_is_string(value) ? json_string_value(value) : "");
}

static void print_loans(const json_t *device, const char *name, const char *word)
{
        char size[BYTES_TEXT], clean[128];
        const json_t *loan;
        size_t i;

        json_array_foreach (field_array(device, name), i, loan)
                (void)printf("  %-10s %s %s %s\n", name, bytes_format(field_number(loan, "bytes"), size), word,
                             field_clean(field_text(loan, "tenant"), clean, sizeof(clean)));
}

static void print_processes(const json_t *device)
{
        char size[BYTES_TEXT], clean[64];
        const json_t *process;
        size_t i;

        json_array_foreach (field_array(device, "holders"), i, process)
                (void)printf("  process    %llu %s: %s\n", (unsigned long long)field_number(process, "pid"),
                             field_clean(field_text(process, "command"), clean, sizeof(clean)),
                             bytes_format(field_number(process, "held_bytes"), size));
}

/* "steps      about 1290 in the last minute: p50 0.78, p99 7.42, longest 9.1 ms; 3 later than 10 ms, the latest 12 ms,
 * for b" */
static void print_steps(const json_t *tenant, const json_t *device)
{
        const json_t *steps = json_object_get(device, "steps");
        char by[128];

        if (!json_is_object(steps))
                return;
        if (!field_number(steps, "count"))
                (void)printf("  steps      none known yet");
        else
                (void)printf("  steps      about %llu in the last minute: p50 %.3g, p99 %.3g, longest %.3g ms",
                             (unsigned long long)field_number(steps, "count"), field_real(steps, "p50_us") / 1000,
                             field_real(steps, "p99_us") / 1000, field_real(steps, "longest_us") / 1000);
        if (field_number(steps, "late"))
                (void)printf("; %llu later than %.3g ms, the latest %.3g ms",
                             (unsigned long long)field_number(steps, "late"), field_real(tenant, "latency_us") / 1000,
                             field_real(steps, "latest_late_us") / 1000);
        if (*field_text(steps, "late_by"))
                (void)printf(", for %s", field_clean(field_text(steps, "late_by"), by, sizeof(by)));
        (void)printf("\n");
}

/* Of the memory, where a gate has told. */
static void print_kinds(const json_t *kinds)
{
        char allocated[BYTES_TEXT], managed[BYTES_TEXT], driver[BYTES_TEXT];

        if (json_is_object(kinds))
                (void)printf("  of it      %s allocated, %s managed, %s taken by the driver\n",
                             bytes_format(field_number(kinds, "allocated_bytes"), allocated),
                             bytes_format(field_number(kinds, "managed_bytes"), managed),
                             bytes_format(field_number(kinds, "driver_bytes"), driver));
}

static void print_device(const json_t *tenant, const json_t *device)
{
        char engines[160];
        char held[BYTES_TEXT], quota[BYTES_TEXT], peak[BYTES_TEXT], share[WHEN_TEXT], cap[WHEN_TEXT];
        unsigned int most = (unsigned int)field_permille(device, "cap_permille");
        const char *instance = field_text(device, "instance");

        (void)printf("\ndevice %llu%s%s\n", (unsigned long long)field_number(device, "index"), *instance ? " " : "",
                     instance);
        (void)printf("  memory     %s of %s, at most %s; %llu refused\n",
                     bytes_format(field_number(device, "held_bytes"), held),
                     bytes_format(field_number(device, "quota_bytes"), quota),
                     bytes_format(field_number(device, "peak_bytes"), peak),
                     (unsigned long long)field_number(device, "refused"));
        if (field_number(device, "swapped_bytes"))
                (void)printf("  swapped    %s, in host memory\n",
                             bytes_format(field_number(device, "swapped_bytes"), held));
        print_kinds(json_object_get(device, "kinds"));
        (void)printf("  share      %s, cap %s\n",
                     permille_format((unsigned int)field_permille(device, "share_permille"), share),
                     most && most < 1000 ? permille_format(most, cap) : "none");
        (void)printf("  time       %.3f s in all; %.1f%% in the last second%s%s\n", field_real(device, "used_ns") / 1e9,
                     field_permille(device, "granted_permille") / 10,
                     field_is(device, "waiting") ? ", waits for its turn" : "",
                     field_is(device, "is_off") ? ", is off" : "");
        print_steps(tenant, device);
        engines_format(json_object_get(device, "engines"), engines, sizeof(engines));
        if (*engines)
                (void)printf("  engines    %s\n", engines);
        print_loans(device, "borrowed", "of"); /* it holds them, and the lender is charged */
        print_loans(device, "lent", "to");
        print_processes(device);
}

static const json_t *tenant_find(const json_t *tenants, const char *name)
{
        const json_t *tenant;
        size_t i;

        json_array_foreach (tenants, i, tenant)
                if (!strcmp(field_text(tenant, "tenant"), name))
                        return tenant;
        return NULL;
}

/* The tenant's events; no answer is none. */
static json_t *events_of(struct ask *ask, const char *name)
{
        struct err err = { 0 };
        char path[ASK_PATH] = "/v1/events";
        json_t *events = NULL;

        return ask_query(path, "tenant", name) == 0 && ask_get(ask, path, &events, &err) == 0 ? events : NULL;
}

/* The latest change of the lease. NULL: it is as it was granted. Others may have had the name before. */
static const json_t *change_find(const json_t *events, nsec since)
{
        const json_t *event, *found = NULL;
        size_t i;

        json_array_foreach (events, i, event)
                if (!strcmp(field_text(event, "name"), "TENANT_CHANGED") && field_moment(event, "time") >= since)
                        found = event;
        return found;
}

static int inspect(const char *dir, const char *name, bool is_json, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        const json_t *tenant, *device;
        json_t *tenants, *events;
        size_t i;
        int r = ask_new(dir, &ask, err);

        if (r == 0)
                r = ask_get(ask, "/v1/tenants", &tenants, err);
        if (r < 0)
                return r;
        tenant = tenant_find(tenants, name);
        if (!tenant)
                r = err_say(err, -ENOENT,
                            "there is no tenant '%s' ('sublet ps' lists them; 'sublet usage %s' what it had)", name,
                            name);
        else if (is_json) {
                (void)json_dumpf(tenant, stdout, JSON_INDENT(1));
                (void)putchar('\n');
        } else {
                events = events_of(ask, name);
                print_who(tenant, change_find(events, field_moment(tenant, "since")));
                json_decref(events);
                json_array_foreach (field_array(tenant, "devices"), i, device)
                        print_device(tenant, device);
        }
        json_decref(tenants);
        return r;
}

int inspect_main(int argc, char **argv)
{
        const char *dir = NULL;
        bool is_json = false;
        const struct flag flags[] = {
                { "json", 0, flag_is, &is_json, NULL, "the daemon's answer", NULL },
                { "dir", 0, flag_text, &dir, "DIR", "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)",
                  NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 1, &code);

        if (operand < 0)
                return code;
        if (!argv[operand]) {
                (void)fprintf(stderr, "sublet: which tenant? ('sublet ps' lists them)\n");
                return VERB_USAGE;
        }
        (void)setlocale(LC_CTYPE, "");
        return inspect(dir, argv[operand], is_json, &err) < 0 ? flags_failed(&err) : VERB_DONE;
}

/* 0; -ENOENT: nobody had this name; -errno: there is no daemon to ask, which does not change the answer. */
static int find_name(const char *dir, const char *name, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        int r = ask_new(dir, &ask, err);

        return r < 0 ? r : known_check(ask, name, err);
}

int logs_main(int argc, char **argv)
{
        const char *dir = NULL;
        const struct flag flags[] = {
                { "dir", 0, flag_text, &dir, "DIR", "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)",
                  NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), logs_usage, 1, &code);

        if (operand < 0)
                return code;
        if (argv[operand] && find_name(dir, argv[operand], &err) == -ENOENT)
                return flags_failed(&err);
        (void)fprintf(stderr,
                      "sublet: a tenant's output is its own: where its command was started, 'journalctl -u UNIT' of a "
                      "service, 'podman logs' or 'kubectl logs' of a container. The daemon's log: 'journalctl -u "
                      "sublet'; what happened to tenants: 'sublet events'\n");
        return VERB_REFUSED;
}
