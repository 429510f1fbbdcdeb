#include "doctor/offers.h"

#include "gpu/find.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
        GREEN_SINCE = 550, /* CUDA 12.4. Source: CUDA driver API, «Green contexts» */
};

void offers_judge_mps(struct findings *findings, const struct offers_mps *mps)
{
        static const char name[] = "mps";

        if (mps->has_process) {
                findings_put(findings, name, FINDING_LIMITED,
                             "MPS is running, and not by the daemon: what its server holds for a tenant is in nobody's "
                             "quota");
                findings_next(findings, "echo quit | nvidia-cuda-mps-control");
        } else if (mps->is_ours) {
                findings_put(findings, name, FINDING_OK, "running, for the daemon's tenants of --mode spatial");
        } else if (mps->has_pipe) {
                findings_put(findings, name, FINDING_UNKNOWN,
                             "no MPS process is visible here, but its pipe directory is");
                findings_next(findings, "look on the host: echo get_server_list | nvidia-cuda-mps-control");
        } else if (!mps->has_program) {
                findings_put(findings, name, FINDING_LIMITED,
                             "nvidia-cuda-mps-control is not in PATH: no tenants of --mode spatial");
                findings_next(findings, "install what the driver brings it in (Debian: nvidia-cuda-mps)");
        } else {
                findings_put(findings, name, FINDING_OK,
                             "can be started for tenants of --mode spatial; it is not running");
        }
}

void offers_judge_mig(struct findings *findings, const struct gpu_device *device, unsigned int n_instances)
{
        static const char name[] = "mig";
        unsigned int i = device->index;

        if (!device->has_nvml) {
                findings_put(findings, name, FINDING_UNKNOWN, "device %u: no NVML to tell its mode", i);
                findings_next(findings, "install libnvidia-ml.so.1 of the driver's release");
        } else if (device->has_mig && n_instances) {
                findings_put(findings, name, FINDING_OK, "device %u: on, %u instance%s for tenants of --mode mig", i,
                             n_instances, n_instances == 1 ? "" : "s");
        } else if (device->has_mig) {
                findings_put(findings, name, FINDING_LIMITED, "device %u: on, without an instance: nobody can use it",
                             i);
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
                findings_put(findings, name, FINDING_UNKNOWN, "libcuda.so.1 is not found here");
                findings_next(findings, "install libcuda of the driver's release, or look in the container");
        } else if (!has_call) {
                findings_put(findings, name, FINDING_LIMITED, "this libcuda has no green contexts: no --sms");
                findings_next(findings, "use libcuda of the driver's own release");
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
                findings_put(findings, name, FINDING_UNKNOWN, "%s: %s", daemon->dir, strerror(daemon->error));
                findings_next(findings, "look as root, or name another one: SUBLET_DIR");
        } else if (!S_ISDIR(daemon->mode)) {
                findings_put(findings, name, FINDING_LIMITED, "%s is not a directory: no daemon, no shims",
                             daemon->dir);
                findings_next(findings, "move it away, or name another one: SUBLET_DIR");
        } else if (daemon->mode & (S_IWOTH | S_IWGRP)) {
                findings_put(findings, name, FINDING_LIMITED,
                             "others may write to %s: they could stand in for the daemon or its shims", daemon->dir);
                findings_next(findings, "chmod go-w %s", daemon->dir);
        } else {
                findings_put(findings, name, FINDING_OK, "%s, of user %u: sockets of the daemon and its shims",
                             daemon->dir, daemon->owner);
        }
}

void offers_judge_daemon(struct findings *findings, const struct offers_daemon *daemon)
{
        if (daemon->answers) {
                findings_put(findings, "daemon", FINDING_OK, "one answers in %s", daemon->dir);
                return;
        }
        findings_put(findings, "daemon", FINDING_LIMITED,
                     "none answers in %s: a quota can be had, a share of time cannot", daemon->dir);
        findings_next(findings, "sublet daemon");
}

void offers_judge_containers(struct findings *findings, const struct offers_daemon *daemon)
{
        static const char name[] = "containers";

        if (daemon->answers && daemon->has_agent) {
                findings_put(findings, name, FINDING_OK, "runtimes can hand their containers to %s/seccomp.sock",
                             daemon->dir);
                return;
        }
        findings_put(findings, name, FINDING_LIMITED, "%s: runtimes cannot hand their containers over",
                     daemon->answers ? "the daemon has no seccomp.sock" : "no daemon");
        findings_next(findings, daemon->answers ? "start the daemon of this release" : "sublet daemon");
}

void offers_judge_attach(struct findings *findings, int filter, int listener, bool has_daemon)
{
        static const char name[] = "self-attach";

        if (listener == EBUSY) {
                findings_put(findings, name, FINDING_LIMITED,
                             "a program here is under a listener already, and the kernel allows one");
                findings_next(findings, "look outside of that tenant, container or sandbox");
        } else if (filter || listener) {
                findings_put(findings, name, FINDING_LIMITED,
                             "a program cannot ask for its own supervisor: %s: its quota is kept inside it only",
                             strerror(filter ? filter : listener));
                findings_next(findings, "run Linux 5.19 or later, where nobody forbids seccomp(2)");
        } else if (!has_daemon) {
                findings_put(findings, name, FINDING_LIMITED,
                             "the kernel allows it, and there is no daemon to attach to");
                findings_next(findings, "sublet daemon");
        } else {
                findings_put(findings, name, FINDING_OK,
                             "no_new_privs and a listener can be had: the daemon's gate takes over from --preload");
        }
}

void offers_judge_cdi(struct findings *findings, size_t n_files, size_t n_ours)
{
        static const char name[] = "cdi";

        if (n_ours) {
                findings_put(findings, name, FINDING_OK, "%zu specification%s of ours", n_ours, n_ours == 1 ? "" : "s");
                return;
        }
        if (n_files)
                findings_put(findings, name, FINDING_LIMITED,
                             "of %zu specification%s in /etc/cdi and /run/cdi none is ours: no devices of ours by name",
                             n_files, n_files == 1 ? "" : "s");
        else
                findings_put(findings, name, FINDING_LIMITED,
                             "no specification in /etc/cdi and /run/cdi: no devices of ours by name");
        findings_next(findings,
                      "sublet cdi generate --output /etc/cdi/sublet.json, where a runtime is to give devices by name");
}

void offers_judge_router(struct findings *findings, const char *nginx, const char *module)
{
        static const char name[] = "router";

        if (*nginx && *module) {
                findings_put(findings, name, FINDING_OK, "%s with %s", nginx, module);
                return;
        }
        findings_put(findings, name, FINDING_LIMITED, "%s: no sublet route here",
                     *nginx ? "nginx has no module of ours" : "no nginx in PATH");
        findings_next(findings, *nginx ? "build or install the whole: make install" : "apt install nginx");
}
