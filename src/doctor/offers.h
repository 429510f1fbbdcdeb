/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine offers beyond a tenant with a share of time: other ways to share, other ways to supervise,
 * containers and the router. None of it is needed to run a tenant, so none is ever "missing".
 *
 * Pure: values that were read come in, a judgement goes out; offers_read does the reading.
 */
#pragma once

#include "doctor/findings.h"

#include <sys/types.h>

struct gpu_backend;
struct gpu_device;

struct offers_mps {
        bool has_program; /* nvidia-cuda-mps-control is in PATH */
        bool has_process; /* one runs, and is not the daemon's */
        bool is_ours;     /* the daemon's runs */
        bool has_pipe;    /* the usual pipe directory is there */
};
void offers_judge_mps(struct findings *findings, const struct offers_mps *mps);

/* n_instances: of a device in MIG mode. */
void offers_judge_mig(struct findings *findings, const struct gpu_device *device, unsigned int n_instances);

/* branch: of the driver's release; 0: not known. has_library, has_call: libcuda, and its cuGreenCtxCreate. */
void offers_judge_green(struct findings *findings, unsigned int branch, bool has_library, bool has_call);

struct offers_daemon {
        char dir[128];
        int error; /* of stat(2): 0, or an errno */
        mode_t mode;
        uid_t owner;
        bool answers;   /* a daemon listens in it */
        bool has_agent; /* and takes containers: seccomp.sock */
};
void offers_judge_directory(struct findings *findings, const struct offers_daemon *daemon);
void offers_judge_daemon(struct findings *findings, const struct offers_daemon *daemon);
void offers_judge_containers(struct findings *findings, const struct offers_daemon *daemon);

/* listener: of a child that asked for a filter with a listener; filter: of filter_check. 0, or an errno. */
void offers_judge_attach(struct findings *findings, int filter, int listener, bool has_daemon);

/* n_files: CDI specifications; n_ours: those that name our devices. */
void offers_judge_cdi(struct findings *findings, size_t n_files, size_t n_ours);

/* The paths of nginx and of the module; "": not found. */
void offers_judge_router(struct findings *findings, const char *nginx, const char *module);

/* Reads and judges all of it. backend: NULL without a driver. listener: as for offers_judge_attach; -1: could not be
 * tried. */
void offers_read(struct findings *findings, const struct gpu_backend *backend, int listener);
