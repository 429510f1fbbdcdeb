#include "doctor/findings.h"

#include "base/cleanup.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>

static const char *const words[] = { "ok", "limited", "unknown", "missing" };

void findings_put(struct findings *findings, const char *name, enum finding_status status, const char *format, ...)
{
        struct finding *finding = &findings->items[findings->n];
        va_list args;

        if (findings->n == FINDINGS_MAX)
                return;
        findings->n++;
        *finding = (struct finding){ .name = name, .status = status };
        va_start(args, format);
        (void)vsnprintf(finding->text, sizeof(finding->text), format, args);
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

void findings_releases(char *ret, size_t size)
{
        struct rm_version first, last;
        size_t used = 0;

        ret[0] = '\0';
        for (size_t i = 0; rm_version_range(i, &first, &last) && used < size; i++) {
                char from[32], to[32];
                int n;

                release_format(first, from);
                release_format(last, to);
                n = snprintf(ret + used, size - used, "%s%s to %s", i ? ", " : "", from, to);
                used += n < 0 ? 0 : (size_t)n;
        }
}

/* Judgements. */

void findings_judge_ptrace(struct findings *findings, int yama, bool is_root, bool has_sys_ptrace)
{
        static const char name[] = "ptrace";

        if (is_root && !has_sys_ptrace) {
                /* Its tenants are root with capabilities that the gate's threads have dropped. */
                findings_put(findings, name, FINDING_MISSING,
                             "root without CAP_SYS_PTRACE cannot read a tenant that is root");
                findings_next(findings, "give this container CAP_SYS_PTRACE, or run sublet as a user");
        } else if (yama >= 3) {
                findings_put(findings, name, FINDING_MISSING,
                             "kernel.yama.ptrace_scope is %d: nobody may read a tenant", yama);
                findings_next(findings, "set it to 1 at boot; 3 cannot be lowered on a running system");
        } else if (yama == 2 && !has_sys_ptrace) {
                findings_put(findings, name, FINDING_MISSING,
                             "kernel.yama.ptrace_scope is 2: only CAP_SYS_PTRACE may read a tenant");
                findings_next(findings, "run sublet as root, or: sysctl kernel.yama.ptrace_scope=1");
        } else if (yama < 0) {
                findings_put(findings, name, FINDING_OK, "this kernel does not restrict it (no Yama)");
        } else {
                findings_put(findings, name, FINDING_OK, "kernel.yama.ptrace_scope is %d", yama);
        }
}

void findings_judge_listener(struct findings *findings, int error)
{
        static const char name[] = "listener";

        if (!error) {
                findings_put(findings, name, FINDING_OK, "this process is under no other supervisor");
                return;
        }
        if (error == EBUSY) {
                findings_put(findings, name, FINDING_MISSING,
                             "this process is under a seccomp listener already; the kernel allows one");
                findings_next(findings, "run sublet outside of that tenant, container or sandbox");
                return;
        }
        findings_put(findings, name, FINDING_MISSING, "a filter cannot be installed: %s", strerror(error));
        findings_next(findings, "look for a container runtime or sandbox that forbids seccomp(2)");
}

void findings_judge_call(struct findings *findings, const char *name, const char *what, int error)
{
        if (!error) {
                findings_put(findings, name, FINDING_OK, "%s", what);
                return;
        }
        findings_put(findings, name, FINDING_MISSING, "%s: %s", what, strerror(error));
        if (error == ENOSYS)
                findings_next(findings, "this kernel lacks it: run a newer one");
        else
                findings_next(findings, "see ptrace, and look for a container runtime that forbids it");
}

void findings_judge_wake_up(struct findings *findings, int error, const char *kernel)
{
        static const char name[] = "wake-up";

        if (!error) {
                findings_put(findings, name, FINDING_OK, "SYNC_WAKE_UP: a call and its answer share a CPU");
                return;
        }
        findings_put(findings, name, FINDING_LIMITED, "no SYNC_WAKE_UP on Linux %s: supervised driver calls are slower",
                     kernel);
        findings_next(findings, "run Linux 6.6 or later; launches are not affected either way");
}

void findings_judge_uvm(struct findings *findings, char disable_hmm, char builtin_tests)
{
        static const char name[] = "uvm";

        if (builtin_tests && builtin_tests != '0' && builtin_tests != 'N') {
                findings_put(findings, name, FINDING_LIMITED,
                             "nvidia_uvm was loaded with its built-in tests: requests that the "
                             "gate does "
                             "not see");
                findings_next(findings, "load nvidia_uvm without uvm_enable_builtin_tests");
                return;
        }
        findings_put(findings, name, FINDING_OK, "%s; a tenant's spaces are begun without HMM",
                     disable_hmm == 'Y' || disable_hmm == '1' ? "HMM is off on this machine" :
                     disable_hmm                              ? "HMM is on for programs outside tenants" :
                                                                "whether HMM is on cannot be read");
}

void findings_judge_nodes(struct findings *findings, const char *nodes)
{
        static const char name[] = "other nodes";

        if (!*nodes) {
                findings_put(findings, name, FINDING_OK, "no node that a tenant should not have");
                return;
        }
        findings_put(findings, name, FINDING_LIMITED, "a tenant can open: %s", nodes);
        findings_next(findings, "CUDA needs nvidiactl, nvidiaN and nvidia-uvm only: run tenants in "
                                "a container without "
                                "the others, or take their permissions away");
}

/* For people and for programs. */

void findings_text(FILE *to, const struct findings *findings)
{
        for (size_t i = 0; i < findings->n; i++) {
                const struct finding *finding = &findings->items[i];

                (void)fprintf(to, "%-8s %-12s %s\n", words[finding->status], finding->name, finding->text);
                if (finding->next[0])
                        (void)fprintf(to, "%-8s %-12s next: %s\n", "", "", finding->next);
        }
        if (findings_can_run(findings))
                (void)fprintf(to, "A tenant can be run here: sublet run --mem 8G -- COMMAND\n");
        else
                (void)fprintf(to, "No tenant can be run here: see what is missing above.\n");
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
