/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp profile of a tenant's container: what a container may do by default, and the gate's filter in the format
 * of the runtime specification (LinuxSeccomp).
 *
 *      P1  never weaker than the base: what the base refuses is refused. Some calls of ioctl and mmap, which every base
 *          allows, go to the gate, and all of remap_file_pages;
 *      P2  the calls that go to the gate are those of filter_build, bit for bit (gate/policy/caught.h);
 *      P3  one table of system calls: a process that uses another (i386, x32) is killed. The gate's own filter refuses
 *          only what carries driver calls (F4), which a profile cannot express;
 *      P4  the program that libseccomp makes of it is run before the profile is handed out (check.c).
 *
 * In libseccomp a rule without conditions replaces the other rules of its call, and so does one with mask 0. So "every
 * other ioctl" is expressed as "request at least 0", which is compared last, whatever the order of the rules. Seen with
 * 2.5.4; P4 covers the other releases.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

enum {
        PROFILE_FORM = 4, /* version of the rules; incremented when the gate needs others */
        CALL_LAST = 450,  /* set_mempolicy_home_node, Linux 5.17 */
        PROFILE_METADATA = 64,
};

struct profile_settings {
        const char *listener, *metadata;
        const char *const *capabilities; /* of the container: "CAP_CHOWN", ..., NULL. NULL: Docker's default */
        bool is_killable;                /* set the flag that crun supports and runc 1.1 refuses */
};

/* A profile's listenerMetadata, which tells the receiver of the listener what the filter catches: "sublet/4
 * 580.159.04". `metadata` has PROFILE_METADATA bytes. */
void profile_sign(const char *release, char *metadata);
bool profile_is_for(const char *metadata, const char *release);

/* An argument's condition in a rule. The caller's. */
json_t *profile_condition(unsigned int index, uint64_t value, uint64_t value_two, const char *op);

/* The default, from calls.def. The caller's. NULL: out of memory. */
json_t *profile_default(void);

/*
 * Reads a base: LinuxSeccomp as in a container's specification, or the form with conditions that Docker and
 * containers/common ship, resolved for x86-64, `capabilities` and the running kernel. *ret is the caller's. 0; -EINVAL.
 */
int profile_resolve(const json_t *base, const char *const *capabilities, json_t **ret, struct err *err);

/* Joins the base and the gate's rules (P1 to P3). *ret is the caller's. 0; -EINVAL: they cannot be joined; -ENOMEM. */
int profile_join(const json_t *base, const struct profile_settings *desired, json_t **ret, struct err *err);

/* P4. 0; -EINVAL: this libseccomp makes another filter of it. */
int profile_check(const json_t *profile, struct err *err);
