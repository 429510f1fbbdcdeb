/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what the machine offers beyond a tenant; see offers.h. */
#include "doctor/offers.h"

#include "gpu/find.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
        GREEN_SINCE = 550, /* CUDA 12.4. Source: CUDA driver API, "Green contexts" */
};

void offers_judge_mps(struct findings *findings, const struct offers_mps *mps)
{
        static const char name[] = "mps";

        if (mps->has_process)
                findings_gap(
                        findings, name, FINDING_LIMITED, "echo quit | nvidia-cuda-mps-control",
                        "MPS is running, but not started by the daemon: what its server holds for a tenant is in no "
                        "quota");
        else if (mps->is_ours)
                findings_put(findings, name, FINDING_OK, "running, for the daemon's tenants of --mode spatial");
        else if (mps->has_pipe)
                findings_gap(findings, name, FINDING_UNKNOWN,
                             "check on the host: echo get_server_list | nvidia-cuda-mps-control",
                             "its pipe directory exists, but no MPS process is visible here");
        else if (!mps->has_program)
                findings_gap(findings, name, FINDING_LIMITED,
                             "install the driver's package for it (Debian: nvidia-cuda-mps)",
                             "nvidia-cuda-mps-control is not in PATH: no tenants of --mode spatial");
        else
                findings_put(findings, name, FINDING_OK,
                             "can be started for tenants of --mode spatial; it is not running");
}

void offers_judge_mig(struct findings *findings, const struct gpu_device *device, unsigned int n_instances)
{
        static const char name[] = "mig";
        unsigned int i = device->index;

        if (!device->has_nvml) {
                findings_gap(findings, name, FINDING_UNKNOWN, "install libnvidia-ml.so.1 of the driver's release",
                             "device %u: no NVML to read its mode", i);
        } else if (device->has_mig && n_instances) {
                findings_put(findings, name, FINDING_OK, "device %u: on, %u instance%s for tenants of --mode mig", i,
                             n_instances, n_instances == 1 ? "" : "s");
        } else if (device->has_mig) {
                findings_put(findings, name, FINDING_LIMITED,
                             "device %u: on, without an instance: no program can use it", i);
                findings_next(findings, "nvidia-smi mig -i %u -cgi PROFILE -C, or off: nvidia-smi -i %u -mig 0", i, i);
        } else {
                findings_put(findings, name, FINDING_OK, "device %u: %s", i,
                             device->can_mig ? "off; it could be cut into instances" :
                                               "it cannot be cut into instances");
        }
}

void offers_judge_green(struct findings *findings, unsigned int branch, bool has_library, bool has_call)
{
        static const char name[] = "green";

        if (branch && branch < GREEN_SINCE) {
                findings_put(findings, name, FINDING_LIMITED, "driver %u has no green contexts: no --sms", branch);
                findings_next(findings, "use a driver of branch %d or later", GREEN_SINCE);
        } else if (!has_library) {
                findings_gap(findings, name, FINDING_UNKNOWN,
                             "install libcuda of the driver's release, or look in the container",
                             "libcuda.so.1 is not found here");
        } else if (!has_call) {
                findings_gap(findings, name, FINDING_LIMITED, "use libcuda of the driver's own release",
                             "this libcuda has no green contexts: no --sms");
        } else {
                findings_put(findings, name, FINDING_OK,
                             "libcuda can put a context on part of the multiprocessors: --preload --sms");
        }
}

void offers_judge_directory(struct findings *findings, const struct offers_daemon *daemon)
{
        static const char name[] = "directory";

        if (daemon->error == ENOENT) {
                findings_put(findings, name, FINDING_OK, "%s is made when the daemon starts", daemon->dir);
        } else if (daemon->error) {
                findings_gap(findings, name, FINDING_UNKNOWN, "run this as root, or set SUBLET_DIR to another one",
                             "%s: %s", daemon->dir, strerror(daemon->error));
        } else if (!S_ISDIR(daemon->mode)) {
                findings_gap(findings, name, FINDING_LIMITED, "move it away, or set SUBLET_DIR to another one",
                             "%s is not a directory: no daemon, no shims", daemon->dir);
        } else if (daemon->mode & (S_IWOTH | S_IWGRP)) {
                findings_put(findings, name, FINDING_LIMITED,
                             "other users may write to %s: they could impersonate the daemon or its shims",
                             daemon->dir);
                findings_next(findings, "chmod go-w %s", daemon->dir);
        } else {
                findings_put(findings, name, FINDING_OK, "%s, of user %u: sockets of the daemon and its shims",
                             daemon->dir, daemon->owner);
        }
}

void offers_judge_daemon(struct findings *findings, const struct offers_daemon *daemon)
{
        if (daemon->answers)
                findings_put(findings, "daemon", FINDING_OK, "one answers in %s", daemon->dir);
        else
                findings_gap(findings, "daemon", FINDING_LIMITED, "sublet daemon",
                             "none answers in %s: tenants have a quota, but no share of time", daemon->dir);
}

void offers_judge_containers(struct findings *findings, const struct offers_daemon *daemon)
{
        static const char name[] = "containers";

        if (daemon->answers && daemon->has_agent)
                findings_put(findings, name, FINDING_OK, "runtimes can hand their containers to %s/seccomp.sock",
                             daemon->dir);
        else
                findings_gap(findings, name, FINDING_LIMITED,
                             daemon->answers ? "start the daemon of this release" : "sublet daemon",
                             "%s: runtimes cannot hand their containers over",
                             daemon->answers ? "the daemon has no seccomp.sock" : "no daemon");
}

void offers_judge_attach(struct findings *findings, int filter, int listener, bool has_daemon)
{
        static const char name[] = "self-attach";

        if (listener == EBUSY)
                findings_gap(findings, name, FINDING_LIMITED, "check outside of that tenant, container or sandbox",
                             "a program here is already under a listener, and the kernel allows one");
        else if (filter || listener)
                findings_gap(findings, name, FINDING_LIMITED,
                             "run Linux 5.19 or later, where seccomp(2) is not forbidden",
                             "a program cannot ask for its own supervisor: %s: its quota is enforced inside it only",
                             strerror(filter ? filter : listener));
        else if (!has_daemon)
                findings_gap(findings, name, FINDING_LIMITED, "sublet daemon",
                             "the kernel allows it, and there is no daemon to attach to");
        else
                findings_put(findings, name, FINDING_OK,
                             "no_new_privs and a listener work: the daemon's gate takes over from --preload");
}

void offers_judge_cdi(struct findings *findings, size_t n_files, size_t n_ours)
{
        static const char name[] = "cdi";
        static const char next[] = "for devices by name: sublet cdi generate --output /etc/cdi/sublet.json";

        if (n_ours)
                findings_put(findings, name, FINDING_OK, "%zu specification%s of Sublet's", n_ours,
                             n_ours == 1 ? "" : "s");
        else if (n_files)
                findings_gap(findings, name, FINDING_LIMITED, next,
                             "of %zu specification%s in /etc/cdi and /run/cdi none is Sublet's: no devices by name",
                             n_files, n_files == 1 ? "" : "s");
        else
                findings_gap(findings, name, FINDING_LIMITED, next,
                             "no specification in /etc/cdi and /run/cdi: no devices by name");
}

void offers_judge_router(struct findings *findings, const char *nginx, const char *module)
{
        static const char name[] = "router";

        if (*nginx && *module)
                findings_put(findings, name, FINDING_OK, "%s with %s", nginx, module);
        else
                findings_gap(findings, name, FINDING_LIMITED,
                             *nginx ? "build and install all of sublet: make install" : "apt install nginx",
                             "%s: no sublet route here", *nginx ? "nginx has no Sublet module" : "no nginx in PATH");
}
