/*
 * The seccomp profile of a tenant's container: what a container may do by default, and the gate's filter in the words of the
 * runtime specification (LinuxSeccomp).
 *
 *      P1  never weaker than the base: what it refuses is refused. Of ioctl and mmap, which every base allows, some go to
 *          the gate;
 *      P2  what goes to the gate is what filter_build hands it, bit for bit (gate/policy/caught.h);
 *      P3  one table of system calls: a process that uses another (i386, x32) is killed. The gate's own filter refuses only
 *          their ioctl and shared mmap (F4), which a profile cannot say;
 *      P4  the program that libseccomp makes of it is run here before it is handed out (check.c).
 *
 * A rule without conditions swallows the others of its call in libseccomp, and one whose mask is 0 becomes such a rule. So
 * "every other ioctl" is said as "request at least 0": it is compared last, whatever the order of the rules. Seen with
 * 2.5.4; P4 is for all others.
 */
#pragma once

#include "rm/layout.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

enum {
        PROFILE_FORM = 1, /* of the rules; it counts up when the gate needs others */
        CALL_LAST = 450,  /* set_mempolicy_home_node, Linux 5.17 */
        PROFILE_METADATA = 64,
};

struct profile_settings {
        const char *listener, *metadata;
        const char *const *capabilities; /* of the container, "CAP_CHOWN", ends with NULL; NULL: Docker's default */
        bool is_killable;                /* with the flag that crun knows and runc 1.1 refuses */
};

/* What a profile says of itself (listenerMetadata), so that the one who gets the listener knows what the filter catches:
 * "sublet/1 580.159.04". `metadata` has PROFILE_METADATA bytes. */
void profile_sign(const char *release, char *metadata);
bool profile_is_for(const char *metadata, const char *release);

/* An argument's condition in a rule. The caller's. */
json_t *profile_condition(unsigned int index, uint64_t value, uint64_t value_two, const char *op);

/* The default, from calls.def. The caller's. NULL: out of memory. */
json_t *profile_default(void);

/*
 * A base of somebody's: LinuxSeccomp as it stands in a container's specification, or the form with conditions in which
 * Docker and containers/common ship it, resolved for x86-64, `capabilities` and a kernel of today. *ret is the caller's.
 * 0; -EINVAL and why it is none.
 */
int profile_resolve(const json_t *base, const char *const *capabilities, json_t **ret, struct err *err);

/* The base with our rules (P1 to P3). 0; -EINVAL: it cannot be joined, and why; -ENOMEM. */
int profile_join(const json_t *base, const struct rm_layout *layout, const struct profile_settings *desired,
                 json_t **ret, struct err *err);

/* P4. `allows`: the base lets ioctl and mmap through. 0; -EINVAL: this libseccomp makes something else of it. */
int profile_check(const json_t *profile, const struct rm_layout *layout, struct err *err);
