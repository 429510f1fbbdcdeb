/* SPDX-License-Identifier: Apache-2.0 */
/* The driver, for `sublet doctor`: its release, its nodes and its devices. */
#include "doctor/inside.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gpu/find.h"
#include "gpu/health.h"
#include "wire/machine.h"
#include "wire/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

static void check_release(struct doctor *doctor)
{
        struct findings *findings = &doctor->findings;
        char path[PATH_MAX];
        struct err err = { 0 };
        int r;

        (void)snprintf(path, sizeof(path), "%s/sys/module/nvidia/version", doctor->root);
        r = gpu_release_read(path, &doctor->backend, &err);
        if (r < 0 && r != -ENOTSUP) {
                findings_gap(findings, "driver", FINDING_MISSING,
                             "load one, or try on a simulated GPU: sublet sim -- sublet doctor", "%s",
                             r != -ENOENT                ? err.text :
                             doctor_is_simulated(doctor) ? "SUBLET_SIM does not name a simulated machine" :
                                                           "no NVIDIA driver is loaded");
                return;
        }
        findings_put(findings, "driver", FINDING_OK, "%s%s", doctor->backend.release,
                     doctor_is_simulated(doctor) ? ", simulated" : "");
        if (r == 0) {
                findings_put(findings, "abi", FINDING_OK, "known for this release");
                return;
        }
        findings_judge_release(findings, doctor->backend.release);
}

static int node_open(const struct doctor *doctor, const char *node)
{
        char path[PATH_MAX];
        int fd;

        if (doctor->has_backend)
                return doctor->backend.open(doctor->backend.context, node);
        (void)snprintf(path, sizeof(path), "%s/dev/%s", doctor->root, node);
        fd = open(path, O_RDWR | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static void check_node(struct doctor *doctor, const char *node, const char *name, const char *next)
{
        struct findings *findings = &doctor->findings;
        _cleanup_(closep) int fd = node_open(doctor, node);

        if (fd >= 0) {
                findings_put(findings, name, FINDING_OK, "can be opened");
                return;
        }
        findings_put(findings, name, FINDING_MISSING, "/dev/%s: %s", node, strerror(-fd));
        if (fd == -EACCES)
                findings_next(findings, "give this user read and write permission on /dev/%s", node);
        else
                findings_next(findings, "%s", next);
}

static bool is_all_known(const struct lease *lease)
{
        for (unsigned int i = 0; i < lease->n_devices; i++)
                for (size_t kind = 0; kind < LEASE_OWN; kind++)
                        if (!lease->devices[i].own.of[kind].is_known)
                                return false;
        return true;
}

/* What contexts cost here: measured, known, or the largest known. */
static void check_own(struct doctor *doctor, struct lease *lease)
{
        struct findings *findings = &doctor->findings;
        struct err err = { 0 };
        int r = own_file_apply(NULL, doctor->backend.release, lease, &err);
        const char *next = "on idle devices, as root: sublet doctor --measure";

        if (r < 0)
                findings_gap(findings, "own memory", FINDING_LIMITED, next,
                             "%s; the largest known figures are charged for contexts", err.text);
        else if (is_all_known(lease))
                findings_put(findings, "own memory", FINDING_OK, "what contexts cost is %s",
                             r == OWN_FILE_OK ? "measured" : "known for this device and release");
        else
                findings_gap(
                        findings, "own memory", FINDING_LIMITED, next,
                        "what contexts cost was not measured on this device: the largest known figures are charged");
}

/* Without NVML nothing is asked, and nothing said: `card` has told what there is. */
static void check_health(struct doctor *doctor, const struct gpu_device *devices, unsigned int n)
{
        struct gpu_figures figures;
        struct gpu_health *health;

        if (gpu_health_open(&health) < 0)
                return;
        for (unsigned int i = 0; i < n; i++)
                findings_judge_health(&doctor->findings, i,
                                      gpu_health_read(health, devices[i].uuid, &figures) == 0 ? &figures : NULL);
        (void)gpu_health_close(health);
}

static void check_devices(struct doctor *doctor)
{
        struct findings *findings = &doctor->findings;
        static struct lease lease; /* large */
        static struct gpu_device found[GPU_DEVICES_MAX];
        unsigned int n_found = 0;
        char size[BYTES_TEXT];
        int r = machine_probe(&doctor->backend, &lease, NULL);

        if (r == 0)
                (void)gpu_find(&doctor->backend, found, &n_found, NULL); /* for their names */
        for (unsigned int i = 0; r == 0 && i < lease.n_devices; i++) {
                findings_put(findings, "card", FINDING_OK, "device %u: %s%s%s, /dev/nvidia%u", i,
                             i < n_found ? found[i].name : "", i < n_found && found[i].name[0] ? ", " : "",
                             bytes_format(lease.devices[i].total, size), lease.devices[i].minor);
        }
        for (unsigned int i = 0; r == 0 && i < lease.n_devices; i++)
                if (lease.devices[i].is_node)
                        findings_gap(findings, "coherent memory", FINDING_LIMITED,
                                     "lease other devices; programs take memory of such a node without the driver",
                                     "device %u: its memory is a NUMA node of the host (Grace Hopper and its like), "
                                     "or the driver does not say that it is none (request 0xd7); no quota can hold "
                                     "such memory: it is not leased",
                                     i);
        if (r == 0) {
                check_health(doctor, found, n_found);
                check_own(doctor, &lease);
        }
        if (r == 0)
                return;
        findings_gap(findings, "card", FINDING_MISSING,
                     r == -EACCES || r == -EPERM ?
                             "give this user read and write permission on /dev/nvidia0 and the others" :
                     r == -ENOENT ? "make the nodes: nvidia-modprobe -c 0" :
                                    "see 'nvidia-smi' and the kernel's log",
                     "%s (%s)", r == -ENODEV ? "the driver has no device" : "the driver does not list its devices",
                     strerror(-r));
}

void doctor_check_driver(struct doctor *doctor)
{
        struct err err = { 0 };

        check_release(doctor);
        if (!findings_can_run(&doctor->findings))
                return;
        doctor->has_backend = gpu_backend_find(&doctor->backend, &err) == 0;
        check_node(doctor, "nvidiactl", "nvidiactl", "make the node: nvidia-modprobe");
        /* A tenant cannot gain privileges, so its libcuda cannot load the module either. */
        check_node(doctor, "nvidia-uvm", "nvidia-uvm", "load it before any tenant: nvidia-modprobe -u -c 0");
        if (doctor->has_backend)
                check_devices(doctor);
}
