/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet doctor`: what this machine offers a tenant, and the next step for each gap.
 *
 * It tries what can be tried, as `sublet run` would do it (a child under a listener, a client of the driver), and reads
 * what the kernel and the driver report about themselves. On a simulated machine (SUBLET_SIM) it reads that machine's
 * files and nodes instead of the real ones.
 */
#include "doctor/inside.h"
#include "doctor/measure.h"
#include "doctor/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/process.h"
#include "wire/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

bool doctor_is_simulated(const struct doctor *doctor)
{
        return doctor->root[0];
}

const char *doctor_read(const char *path, char *ret, size_t size)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, ret, size - 1);

        ret[n < 0 ? 0 : n] = '\0';
        ret[strcspn(ret, "\n")] = '\0';
        return ret;
}

/* Other makers' devices do not matter; one whose maker is unknown counts. */
static bool is_other_makers(const char *path)
{
        char vendor[PATH_MAX], text[16];

        if (strncmp(path, "/dev/dri/", 9))
                return false;
        (void)snprintf(vendor, sizeof(vendor), "/sys/class/drm/%s/device/vendor", path + 9);
        (void)doctor_read(vendor, text, sizeof(text));
        return text[0] && strcmp(text, "0x10de");
}

static void check_other_nodes(struct findings *findings)
{
        static const char *const patterns[] = {
                "/dev/nvidia-modeset",   "/dev/nvidia-uvm-tools", "/dev/dri/card*",
                "/dev/dri/renderD*",     "/dev/nvidia-caps/*",    "/dev/nvidia-caps-imex-channels/*",
                "/dev/nvidia-nvswitch*", "/dev/nvidia-nvlink",    "/dev/nvidia-fs*",
                "/dev/gdrdrv",
        };
        char nodes[300] = "";
        glob_t found = { 0 };

        for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
                (void)glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &found);
        for (size_t i = 0; i < found.gl_pathc; i++) {
                const char *path = found.gl_pathv[i];

                if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) < 0 || is_other_makers(path))
                        continue;
                if (strlen(nodes) + strlen(path) + 2 > sizeof(nodes))
                        break;
                (void)strcat(strcat(nodes, nodes[0] ? " " : ""), path);
        }
        globfree(&found);
        findings_judge_nodes(findings, nodes);
}

static void check_uvm(struct findings *findings)
{
        char hmm[8], tests[8];

        (void)doctor_read("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", hmm, sizeof(hmm));
        (void)doctor_read("/sys/module/nvidia_uvm/parameters/uvm_enable_builtin_tests", tests, sizeof(tests));
        findings_judge_uvm(findings, hmm[0], tests[0]);
}

/* Where sim/verb.c searches, in a build tree and installed. */
static void check_simulator(struct doctor *doctor)
{
        char path[PATH_MAX];

        if (process_beside("sim/libsublet-sim.so", path, sizeof(path)) ||
            process_beside("../lib/sublet/sim/libsublet-sim.so", path, sizeof(path)))
                findings_put(&doctor->findings, "simulator", FINDING_OK, "%s",
                             doctor_is_simulated(doctor) ? "this is one" : "sublet sim -- COMMAND");
        else
                findings_gap(&doctor->findings, "simulator", FINDING_LIMITED,
                             "build and install all of sublet: make install",
                             "libsublet-sim.so is not beside this program");
}

static void check_surroundings(struct doctor *doctor)
{
        struct findings *findings = &doctor->findings;

        if (doctor->has_backend && !doctor_is_simulated(doctor)) {
                check_uvm(findings);
                check_other_nodes(findings);
        }
        offers_read(findings, doctor->has_backend ? &doctor->backend : NULL, doctor->listener);
        check_simulator(doctor);
}

/* ---- the verb ---------------------------------------------------------------------------------- */

static const char usage[] = "usage: sublet doctor [--json]\n"
                            "       sublet doctor --measure [-o FILE] [--json]\n"
                            "Checks what works on this machine, and names the next step for what does not.\n"
                            "With --measure it takes from the devices themselves what the driver takes of them\n"
                            "unasked: as root, on idle devices, before the daemon starts.\n"
                            "\n"
                            "\f\n"
                            "  ok        works\n"
                            "  limited   tenants can run, with the limit named\n"
                            "  unknown   cannot be determined from here\n"
                            "  missing   no tenant can run without it\n"
                            "\n"
                            "The exit code is 0 if a tenant can run here, 1 if not, 2 for bad usage. With --measure:\n"
                            "0, or 1 if it could not, as on a device that is not idle.\n";

int doctor_main(int argc, char **argv)
{
        static struct doctor doctor; /* large */
        const char *sim = getenv("SUBLET_SIM");
        bool is_json = false, measures = false;
        const char *output = NULL;
        const struct flag flags[] = {
                { "json", 0, flag_is, &is_json, NULL, "print what was found as JSON", NULL },
                { "measure", 0, flag_is, &measures, NULL,
                  "measure what contexts cost on the devices, for 'sublet daemon' and 'sublet run'", NULL },
                { "output", 'o', flag_text, &output, "FILE",
                  "where --measure writes (default: " OWN_FILE "; '-': nowhere)", NULL },
        };
        struct err err = { 0 };
        int code;

        if (flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code) < 0)
                return code;
        if (output && !measures) {
                (void)err_say(&err, -EINVAL, "--output is for --measure");
                (void)flags_failed(&err);
                return VERB_USAGE;
        }
        if (measures) {
                const struct measure_options options = { output, is_json };

                return measure_devices(stdout, &options, &err) < 0 ? flags_failed(&err) : 0;
        }
        doctor.root = sim ? sim : "";
        doctor_check_driver(&doctor);
        doctor_check_kernel(&doctor);
        check_surroundings(&doctor);
        if (!is_json)
                findings_text(stdout, &doctor.findings);
        else if (findings_json(stdout, &doctor.findings) < 0)
                return 1;
        return findings_can_run(&doctor.findings) ? 0 : 1;
}
