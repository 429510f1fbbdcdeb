/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what a tenant needs, and prints the report; see findings.h. */
#include "doctor/findings.h"

#include "base/cleanup.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>

static const char *const words[] = { "ok", "limited", "unknown", "missing" };

static void finding_put(struct findings *findings, const char *name, enum finding_status status, const char *format,
                        va_list args)
{
        struct finding *finding = &findings->items[findings->n];

        if (findings->n == FINDINGS_MAX)
                return;
        findings->n++;
        *finding = (struct finding){ .name = name, .status = status };
        (void)vsnprintf(finding->text, sizeof(finding->text), format, args);
}

void findings_put(struct findings *findings, const char *name, enum finding_status status, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        finding_put(findings, name, status, format, args);
        va_end(args);
}

void findings_next(struct findings *findings, const char *format, ...)
{
        struct finding *finding;
        va_list args;

        if (!findings->n)
                return;
        finding = &findings->items[findings->n - 1];
        va_start(args, format);
        (void)vsnprintf(finding->next, sizeof(finding->next), format, args);
        va_end(args);
}

void findings_gap(struct findings *findings, const char *name, enum finding_status status, const char *next,
                  const char *format, ...)
{
        va_list args;

        va_start(args, format);
        finding_put(findings, name, status, format, args);
        va_end(args);
        findings_next(findings, "%s", next);
}

bool findings_can_run(const struct findings *findings)
{
        for (size_t i = 0; i < findings->n; i++)
                if (findings->items[i].status == FINDING_MISSING)
                        return false;
        return true;
}

/* As NVIDIA writes it: "565.77", "580.65.06". */
static void release_format(struct rm_version version, char text[static 32])
{
        if (version.patch)
                (void)snprintf(text, 32, "%u.%u.%02u", version.branch, version.minor, version.patch);
        else
                (void)snprintf(text, 32, "%u.%u", version.branch, version.minor);
}

/* The ranges of one branch, or (0) of all; cut to size. */
static void list_releases(unsigned int branch, char *ret, size_t size)
{
        struct rm_version first, last;
        size_t used = 0;

        ret[0] = '\0';
        for (size_t i = 0; rm_version_range(i, &first, &last) && used < size; i++) {
                char from[32], to[32];
                int n;

                if (branch && first.branch != branch)
                        continue;
                release_format(first, from);
                release_format(last, to);
                n = snprintf(ret + used, size - used, "%s%s to %s", used ? ", " : "", from, to);
                used += n < 0 ? 0 : (size_t)n;
        }
}

void findings_releases(char *ret, size_t size)
{
        list_releases(0, ret, size);
}

/* ---- judgements -------------------------------------------------------------------------------- */

void findings_judge_release(struct findings *findings, const char *release)
{
        struct rm_version version = { 0 };
        char known[512];

        if (rm_version_parse(release, &version) == 0)
                list_releases(version.branch, known, sizeof(known));
        else
                known[0] = '\0';
        if (known[0])
                findings_put(findings, "abi", FINDING_MISSING,
                             "not known for '%s': every driver call would be refused; of branch %u were read: %s",
                             release, version.branch, known);
        else
                findings_put(findings, "abi", FINDING_MISSING,
                             "not known for '%s': every driver call would be refused; of its branch nothing was read",
                             release);
        findings_releases(known, sizeof(known));
        findings_next(findings, "use a known release: %s; or add this one: HACKING.md, A driver release", known);
}

void findings_judge_ptrace(struct findings *findings, int yama, bool is_root, bool has_sys_ptrace)
{
        static const char name[] = "ptrace";

        if (is_root && !has_sys_ptrace) {
                /* The tenants are root, too, with capabilities that the gate's threads have dropped. */
                findings_gap(findings, name, FINDING_MISSING,
                             "give this container CAP_SYS_PTRACE, or run sublet as a user",
                             "root without CAP_SYS_PTRACE cannot read a tenant that is root");
        } else if (yama >= 3) {
                findings_gap(findings, name, FINDING_MISSING,
                             "set it to 1 at boot; 3 cannot be lowered on a running system",
                             "kernel.yama.ptrace_scope is %d: no process may read a tenant", yama);
        } else if (yama == 2 && !has_sys_ptrace) {
                findings_gap(findings, name, FINDING_MISSING,
                             "run sublet as root, or: sysctl kernel.yama.ptrace_scope=1",
                             "kernel.yama.ptrace_scope is 2: only CAP_SYS_PTRACE may read a tenant");
        } else if (yama < 0) {
                findings_put(findings, name, FINDING_OK, "this kernel does not restrict it (no Yama)");
        } else {
                findings_put(findings, name, FINDING_OK, "kernel.yama.ptrace_scope is %d", yama);
        }
}

void findings_judge_listener(struct findings *findings, int error)
{
        static const char name[] = "listener";

        if (!error)
                findings_put(findings, name, FINDING_OK, "this process has no other supervisor");
        else if (error == EBUSY)
                findings_gap(findings, name, FINDING_MISSING, "run sublet outside of that tenant, container or sandbox",
                             "this process is already under a seccomp listener; the kernel allows one");
        else
                findings_gap(findings, name, FINDING_MISSING,
                             "check for a container runtime or sandbox that forbids seccomp(2)",
                             "a filter cannot be installed: %s", strerror(error));
}

void findings_judge_call(struct findings *findings, const char *name, const char *what, int error)
{
        if (!error)
                findings_put(findings, name, FINDING_OK, "%s", what);
        else
                findings_gap(findings, name, FINDING_MISSING,
                             error == ENOSYS ? "this kernel lacks it: run a newer one" :
                                               "see ptrace, and check for a container runtime that forbids it",
                             "%s: %s", what, strerror(error));
}

void findings_judge_wake_up(struct findings *findings, int error, const char *kernel)
{
        static const char name[] = "wake-up";

        if (!error)
                findings_put(findings, name, FINDING_OK, "SYNC_WAKE_UP: a call and its answer share a CPU");
        else
                findings_gap(findings, name, FINDING_LIMITED,
                             "run Linux 6.6 or later; launches are not affected either way",
                             "no SYNC_WAKE_UP on Linux %s: supervised driver calls are slower", kernel);
}

void findings_judge_uvm(struct findings *findings, char disable_hmm, char builtin_tests)
{
        static const char name[] = "uvm";

        if (builtin_tests && builtin_tests != '0' && builtin_tests != 'N') {
                findings_gap(findings, name, FINDING_LIMITED, "load nvidia_uvm without uvm_enable_builtin_tests",
                             "nvidia_uvm was loaded with its built-in tests: requests that the gate does not see");
                return;
        }
        findings_put(findings, name, FINDING_OK, "%s; tenants' address spaces are created without HMM",
                     disable_hmm == 'Y' || disable_hmm == '1' ? "HMM is off on this machine" :
                     disable_hmm                              ? "HMM is on for programs outside tenants" :
                                                                "whether HMM is on cannot be read");
}

void findings_judge_nodes(struct findings *findings, const char *nodes)
{
        static const char name[] = "other nodes";

        if (!*nodes)
                findings_put(findings, name, FINDING_OK, "no node that a tenant should not have");
        else
                findings_gap(findings, name, FINDING_LIMITED,
                             "CUDA needs nvidiactl, nvidiaN and nvidia-uvm only: run tenants in a container "
                             "without the others, or remove their permissions",
                             "a tenant can open: %s", nodes);
}

/* ---- output ------------------------------------------------------------------------------------ */

void findings_text(FILE *to, const struct findings *findings)
{
        for (size_t i = 0; i < findings->n; i++) {
                const struct finding *finding = &findings->items[i];

                (void)fprintf(to, "%-8s %-12s %s\n", words[finding->status], finding->name, finding->text);
                if (finding->next[0])
                        (void)fprintf(to, "%-8s %-12s next: %s\n", "", "", finding->next);
        }
        if (findings_can_run(findings))
                (void)fprintf(to, "A tenant can run here: sublet run --mem 8G -- COMMAND\n");
        else
                (void)fprintf(to, "No tenant can run here: see what is missing above.\n");
}

int findings_json(FILE *to, const struct findings *findings)
{
        json_t *list = json_array(), *root;
        _cleanup_(freep) char *text = NULL;

        for (size_t i = 0; i < findings->n; i++) {
                const struct finding *finding = &findings->items[i];
                json_t *item = json_pack("{s:s, s:s, s:s}", "name", finding->name, "status", words[finding->status],
                                         "text", finding->text);

                if (finding->next[0])
                        (void)json_object_set_new(item, "next", json_string(finding->next));
                (void)json_array_append_new(list, item);
        }
        root = json_pack("{s:b, s:o}", "can_run", findings_can_run(findings), "findings", list);
        text = root ? json_dumps(root, JSON_COMPACT) : NULL;
        json_decref(root);
        if (!text)
                return -ENOMEM;
        (void)fprintf(to, "%s\n", text);
        return 0;
}
