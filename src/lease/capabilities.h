/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver capabilities: which parts of the driver a tenant may use beside its memory. The words are those of
 * NVIDIA_DRIVER_CAPABILITIES (compute, utility, video, graphics), and `profile`, which NVIDIA's containers do not know:
 * hardware counters, which count the neighbours' work too.
 *
 * Pure. What a capability opens stands in gate/policy/engines.def.
 */
#pragma once

enum {
        CAPABILITY_NONE = 0, /* of a rule: everybody */
        CAPABILITY_COMPUTE = 1 << 0,
        CAPABILITY_UTILITY = 1 << 1,
        CAPABILITY_VIDEO = 1 << 2,    /* decoders, encoders, JPEG and optical flow engines */
        CAPABILITY_GRAPHICS = 1 << 3, /* Vulkan, OpenGL, EGL */
        CAPABILITY_PROFILE = 1 << 4,  /* hardware counters */

        CAPABILITIES_DEFAULT = CAPABILITY_COMPUTE | CAPABILITY_UTILITY,
        CAPABILITIES_KNOWN = (1 << 5) - 1,

        CAPABILITIES_TEXT_MAX = 48, /* bytes of a formatted list, its end included */
};

/*
 * "compute,video": the mask of a list. "all": all but profile, as a container's "all" has always meant. compat32,
 * display and ngx, which only choose the libraries that are mounted, count as nothing. "": the default. 0; -EINVAL:
 * another word, *ret_wrong (in text) is where it begins.
 */
int capabilities_parse(const char *text, unsigned int *ret, const char **ret_wrong);

/* "compute,utility"; "none". Returns buffer. */
const char *capabilities_format(unsigned int capabilities, char buffer[static CAPABILITIES_TEXT_MAX]);
