/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file of NVIDIA's device plugin, version v1, as far as Sublet's offers the same.
 *
 *  N1  A key that is not known is refused, and so is a value that asks for what is not there: what the file says is
 *      what is done.
 *  N2  What only says that NVIDIA's plugin should do as by default is accepted, and what is for another program (gfd).
 *
 * Source: README.md of NVIDIA/k8s-device-plugin, 0.17.1.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct conf_lines;
struct err;

enum {
        NVIDIA_NAME = 64, /* of a resource, with its NUL */
        NVIDIA_REPLICAS_MAX = 1024,
};

struct nvidia_config {
        unsigned int replicas;  /* of each GPU; 1: it is not shared */
        char name[NVIDIA_NAME]; /* what kubelet is offered: "nvidia.com/gpu", "nvidia.com/gpu.shared" */
        bool is_mps;            /* under an MPS control daemon, each replica with its part */
        bool is_single;         /* a container has one replica at most */
        bool has_cdi, has_annotation, has_nodes;
};

/* lines: of `root`; NULL: none in messages. 0; -EINVAL with err: one line, with the key and what is known. */
int nvidia_config_read(const char *file, const json_t *root, const struct conf_lines *lines, struct nvidia_config *ret,
                       struct err *err);

/* The same of a file. 0; -errno with err. */
int nvidia_config_load(const char *file, struct nvidia_config *ret, struct err *err);
