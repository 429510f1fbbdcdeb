/* SPDX-License-Identifier: Apache-2.0 */
/* What is to change, or has changed, for people and for programs. */
#include "plan/change.h"

enum {
        ORDER = PLAN_NAME + PLAN_COMMAND + 32, /* "sublet end NAME && sublet run ..." */
};

static const char *const actions[] = { "keep", "set", "start", "move", "extra" };

/* What somebody else has to do, for the daemon cannot. */
static void command_of(const struct plan_change *change, char ret[static ORDER])
{
        char start[PLAN_COMMAND] = "";

        if (change->action != PLAN_EXTRA)
                plan_command(&change->lease, start);
        (void)snprintf(ret, ORDER, "%s%s%s%s", change->tenant ? "sublet end " : "",
                       change->tenant ? change->lease.name : "", change->tenant && *start ? " && " : "", start);
}

static bool needs_command(const struct plan_change *change)
{
        return change->action == PLAN_START || change->action == PLAN_MOVE || change->action == PLAN_EXTRA;
}

static void print_row(FILE *to, const struct plan_change *change, bool is_applied)
{
        char command[ORDER], gpus[PLAN_GPUS];
        const char *word = actions[change->action];

        if (change->action == PLAN_SET && is_applied)
                word = change->is_done ? "done" : "refused";
        plan_gpus_format(change->lease.devices, gpus);
        (void)fprintf(to, "%-8s %-24s GPU %s", word, change->lease.name, gpus);
        if (change->what[0])
                (void)fprintf(to, "  %s", change->what);
        if (change->refusal[0])
                (void)fprintf(to, ": %s", change->refusal);
        (void)fputc('\n', to);
        if (!needs_command(change))
                return;
        command_of(change, command);
        (void)fprintf(to, "         %s\n", command);
}

void plan_changes_say(FILE *to, const struct plan_changes *changes, bool is_applied)
{
        size_t n[5] = { 0 }, n_done = 0;

        for (size_t i = 0; i < changes->n; i++) {
                print_row(to, &changes->rows[i], is_applied);
                n[changes->rows[i].action]++;
                n_done += changes->rows[i].is_done;
        }
        if (is_applied)
                (void)fprintf(to, "%zu changed, %zu refused", n_done, n[PLAN_SET] - n_done);
        else
                (void)fprintf(to, "%zu to change", n[PLAN_SET]);
        (void)fprintf(to, ", %zu as they are", n[PLAN_KEEP]);
        if (n[PLAN_START] + n[PLAN_MOVE] + n[PLAN_EXTRA])
                (void)fprintf(to, "; for you: %zu to start, %zu to move, %zu to end", n[PLAN_START], n[PLAN_MOVE],
                              n[PLAN_EXTRA]);
        (void)fputc('\n', to);
}

static json_t *row_json(const struct plan_change *change)
{
        json_t *row = json_pack("{s:s, s:s, s:i, s:b}", "tenant", change->lease.name, "action", actions[change->action],
                                "gpu", (int)change->lease.device, "done", (int)change->is_done);
        char command[ORDER];

        if (change->what[0])
                (void)json_object_set_new(row, "what", json_string(change->what));
        if (change->refusal[0])
                (void)json_object_set_new(row, "error", json_string(change->refusal));
        if (change->action != PLAN_EXTRA) {
                (void)json_object_set_new(row, "mem_bytes", json_integer((json_int_t)change->lease.quota));
                if (change->lease.has_share) {
                        (void)json_object_set_new(row, "share_permille", json_integer(change->lease.share));
                        (void)json_object_set_new(row, "class", json_string(change->lease.class));
                }
        }
        if (needs_command(change)) {
                command_of(change, command);
                (void)json_object_set_new(row, "command", json_string(command));
        }
        return row;
}

json_t *plan_changes_json(const struct plan_changes *changes)
{
        json_t *rows = json_array();

        for (size_t i = 0; i < changes->n; i++)
                (void)json_array_append_new(rows, row_json(&changes->rows[i]));
        return json_pack("{s:o}", "changes", rows);
}
