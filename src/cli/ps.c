/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet ps`: the tenants, one line for each of their devices. */
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "base/when.h"
#include "ask/ask.h"
#include "ask/field.h"
#include "base/flags.h"
#include "cli/parts.h"
#include "cli/table.h"

#include <locale.h>
#include <pwd.h>
#include <string.h>

static const char usage[] = "usage: sublet ps [OPTION...]\n"
                            "Lists the tenants.\n"
                            "\n"
                            "\f"
                            "\n"
                            "PID is its first process of those that have the device open. MEMORY is what the tenant\n"
                            "holds, of its quota, with what it borrowed of its job behind a +, and lends behind a -.\n"
                            "SWAPPED, where some tenant is suspended: what of it is in host memory instead.\n"
                            "SWAP, of a tenant with --swap: it is on the device (in), off it (out), or waits to come\n"
                            "onto it ('sublet inspect' says for what).\n"
                            "P99, of a tenant with a goal (--latency): what its steps took in the last minute, the\n"
                            "goal, and how many steps were later since the daemon began.\n"
                            "ENGINES: its part of the time of copy engines, decoders and others.\n"
                            "GPU is its part of the device's time in\n"
                            "the last second, SHARE what it is entitled to, CAP what it never exceeds; a * behind\n"
                            "GPU: it waits for its turn. A DEVICE with a UUID: its MIG instance there. SMS, where\n"
                            "some tenant has only a part of the multiprocessors: how many. JOB: tenants of a job\n"
                            "come on and go off together, as a tenant does on all its devices. GROUP: tenants of a\n"
                            "group run side by side, and take turns with others as one. PLANE is the\n"
                            "enforcement mode: a gate outside, a gate to which its programs attached themselves, or\n"
                            "libsublet.so inside them (preload: no share of time, SHARE is -). REFUSED, where it is\n"
                            "not 0: driver calls that have no rule or want another capability ('sublet events').\n"
                            "In a narrow terminal whole columns are left out, in a file or a pipe none.\n";

struct ps {
        const char *dir;
        bool is_all, is_quiet, is_json;
};

/* A tenant enforced inside its programs has no share of time, and an ended one has no equal part any more. */
static bool has_share(const json_t *tenant, const json_t *device)
{
        return field_permille(device, "share_permille") > 0 && strcmp(field_text(tenant, "plane"), "preload") != 0;
}

/* The name of its user, or the number of one without a name here. */
static const char *user_of(const json_t *tenant, char buffer[static WHEN_TEXT])
{
        uid_t uid = (uid_t)field_number(tenant, "uid");
        const struct passwd *user = getpwuid(uid);

        if (user)
                (void)snprintf(buffer, WHEN_TEXT, "%.32s", user->pw_name);
        else
                (void)snprintf(buffer, WHEN_TEXT, "%u", uid);
        return buffer;
}

/* "1 GiB / 8 GiB +512 MiB -256 MiB" */
static void memory_of(const json_t *device, char *ret, size_t size)
{
        static const struct {
                const char *name, *sign;
        } loans[] = { { "borrowed", "+" }, { "lent", "-" } };
        char held[BYTES_TEXT], quota[BYTES_TEXT];
        int used = snprintf(ret, size, "%s / %s", bytes_format(field_number(device, "held_bytes"), held),
                            bytes_format(field_number(device, "quota_bytes"), quota));

        for (size_t i = 0; i < ARRAY_SIZE(loans); i++) {
                bytes sum = loans_sum(field_array(device, loans[i].name));

                if (sum && used >= 0 && (size_t)used < size)
                        used += snprintf(ret + used, size - (size_t)used, " %s%s", loans[i].sign,
                                         bytes_format(sum, held));
        }
}

/* One on its way out counts as in, as it does for the daemon. */
static const char *swap_of(const json_t *tenant)
{
        if (!field_is(tenant, "swap"))
                return "-";
        if (*field_text(tenant, "waits_for"))
                return "waits";
        return field_is(tenant, "suspended") ? "out" : "in";
}

static void row(struct table *table, const json_t *tenant, const json_t *device, nsec now)
{
        char memory[4 * BYTES_TEXT], engines[160], pid[24] = "-", gpu[WHEN_TEXT + 2], share[WHEN_TEXT], cap[WHEN_TEXT],
                                                   up[WHEN_TEXT], index[96], processes[24], user[WHEN_TEXT],
                                                   refused[24] = "-", goal[80], swapped[BYTES_TEXT] = "-";
        const char *instance = field_text(device, "instance"), *sms = field_text(tenant, "sms"),
                   *job = field_text(tenant, "job"), *group = field_text(tenant, "group");
        unsigned int cap_permille = (unsigned int)field_permille(device, "cap_permille");
        nsec since = field_moment(tenant, "since");

        memory_of(device, memory, sizeof(memory));
        engines_format(json_object_get(device, "engines"), engines, sizeof(engines));
        goal_format(tenant, device, goal, sizeof(goal));
        if (field_number(tenant, "pid"))
                (void)snprintf(pid, sizeof(pid), "%llu", (unsigned long long)field_number(tenant, "pid"));
        (void)snprintf(gpu, sizeof(gpu), "%.1f%%%s", field_permille(device, "granted_permille") / 10,
                       field_is(device, "waiting") ? "*" : "");
        (void)snprintf(index, sizeof(index), "%llu%s%.64s", (unsigned long long)field_number(device, "index"),
                       *instance ? " " : "", instance);
        if (field_number(device, "swapped_bytes"))
                (void)bytes_format(field_number(device, "swapped_bytes"), swapped);
        (void)snprintf(processes, sizeof(processes), "%llu", (unsigned long long)field_number(tenant, "processes"));
        if (field_number(tenant, "refused_calls"))
                (void)snprintf(refused, sizeof(refused), "%llu",
                               (unsigned long long)field_number(tenant, "refused_calls"));
        table_row(table, field_text(tenant, "tenant"), user_of(tenant, user), pid, index, memory, swapped,
                  swap_of(tenant), gpu,
                  has_share(tenant, device) ?
                          permille_format((unsigned int)field_permille(device, "share_permille"), share) :
                          "-",
                  cap_permille && cap_permille < 1000 ? permille_format(cap_permille, cap) : "-", *sms ? sms : "-",
                  *goal ? goal : "-", *engines ? engines : "-", *job ? job : "-", *group ? group : "-", refused,
                  field_text(tenant, "class"), field_text(tenant, "plane"), field_text(tenant, "state"),
                  duration_format(now - since, up), processes, field_text(tenant, "command"), NULL);
}

static int print_table(const json_t *tenants)
{
        static const char *const least[] = { "PROCESSES", "PLANE", "CLASS",   "CAP",   "REFUSED", "SMS",
                                             "ENGINES",   "P99",   "JOB",     "GROUP", "PID",     "SWAPPED",
                                             "SWAP",      "SINCE", "COMMAND", "USER",  "SHARE",   NULL };
        nsec now = clock_realtime();
        const json_t *tenant, *device;
        struct table table;
        size_t i, k;
        int r;

        table_init(&table, "TENANT", "USER", "PID>?", "DEVICE>", "MEMORY>", "SWAPPED>?", "SWAP?", "GPU>", "SHARE>",
                   "CAP>", "SMS>?", "P99>?", "ENGINES?", "JOB?", "GROUP?", "REFUSED>?", "CLASS", "PLANE", "STATE",
                   "SINCE>", "PROCESSES>", "COMMAND", NULL);
        json_array_foreach (tenants, i, tenant)
                json_array_foreach (field_array(tenant, "devices"), k, device)
                        row(&table, tenant, device, now);
        table_fit(&table, table_width(stdout), least);
        r = table_print(&table, stdout);
        table_done(&table);
        return r;
}

/* For who may not see all tenants: what they have, as a sum. */
static void print_others(const json_t *devices)
{
        char held[BYTES_TEXT], leased[BYTES_TEXT], of[BYTES_TEXT];
        const json_t *device;
        size_t i;

        json_array_foreach (devices, i, device) {
                const json_t *others = json_object_get(device, "others");
                unsigned int n = (unsigned int)field_number(others, "tenants");

                if (n)
                        (void)printf("device %llu: %u tenant%s of other users: %s held, %s leased of %s\n",
                                     (unsigned long long)field_number(device, "index"), n, n == 1 ? "" : "s",
                                     bytes_format(field_number(others, "held_bytes"), held),
                                     bytes_format(field_number(others, "leased_bytes"), leased),
                                     bytes_format(field_number(device, "memory_bytes"), of));
        }
}

static void print_names(const json_t *tenants)
{
        const json_t *tenant;
        char name[256];
        size_t i;

        json_array_foreach (tenants, i, tenant)
                (void)printf("%s\n", field_clean(field_text(tenant, "tenant"), name, sizeof(name)));
}

static int tenants_print(const struct ps *ps, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        json_t *tenants, *devices = NULL;
        struct err ignored = { 0 };
        int r;

        r = ask_new(ps->dir, &ask, err);
        if (r == 0)
                r = ask_get(ask, ps->is_all ? "/v1/tenants?all=1" : "/v1/tenants", &tenants, err);
        if (r < 0)
                return r;
        if (!ps->is_json && !ps->is_quiet)
                (void)ask_get(ask, "/v1/devices", &devices, &ignored); /* without it only the sums are missing */
        if (ps->is_json)
                (void)json_dumpf(tenants, stdout, JSON_INDENT(1));
        else if (ps->is_quiet)
                print_names(tenants);
        else
                r = print_table(tenants);
        print_others(devices);
        json_decref(devices);
        if (ps->is_json)
                (void)putchar('\n');
        json_decref(tenants);
        return r < 0 ? err_set(err, r, "writing the table") : 0;
}

int ps_main(int argc, char **argv)
{
        struct ps ps = { 0 };
        const struct flag flags[] = {
                { "all", 'a', flag_is, &ps.is_all, NULL, "also those that have ended", NULL },
                { "quiet", 'q', flag_is, &ps.is_quiet, NULL, "names only", NULL },
                { "json", 0, flag_is, &ps.is_json, NULL, "the daemon's answer", NULL },
                { "dir", 0, flag_text, &ps.dir, "DIR", "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)",
                  NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code);

        if (operand < 0)
                return code;
        (void)setlocale(LC_CTYPE, "");
        if (tenants_print(&ps, &err) < 0)
                return flags_failed(&err);
        return VERB_DONE;
}
