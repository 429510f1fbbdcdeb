/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp filter: which system calls of a tenant the kernel hands to the gate.
 *
 * It sees registers only, so it lets pass what is certainly not the driver's (caught.c):
 *      F1  ioctl of every size but 0, whatever the number, the type byte, the direction and the upper half of the
 *          register, which the driver ignores; and of size 0 but for a few types that it never takes;
 *      F2  ioctl of /dev/nvidia-uvm, by the whole low 32 bits;
 *      F3  mmap of a shared file at an offset: a UVM range has offset == address;
 *          remap_file_pages, by which the kernel maps a file anew at an offset of the caller's choice, is notified
 *          always, and refused;
 *      F4  the i386 and x32 tables may not carry driver calls: their ioctl, shared mmap and remap_file_pages fail;
 *      F5  everything else is not touched.
 * The filter does not know descriptors: that is the gate's first question. A request that is not the driver's, of a
 * file that is not the driver's, then goes on: some microseconds later than without a gate.
 */
#pragma once

#include <linux/filter.h>
#include <seccomp.h>

/* A program for struct sock_fprog; the caller frees ->filter. 0; -errno. */
int filter_build(struct sock_fprog *ret);

/*
 * What libseccomp made, as a program: it writes to descriptors only. The caller frees ->filter. 0; -errno; -E2BIG:
 * more than the kernel takes.
 */
int filter_export(scmp_filter_ctx context, struct sock_fprog *ret);

/*
 * Installs the program on the calling thread, for good and for all its children, and returns the listener descriptor
 * (close-on-exec). Sets no_new_privs. Async-signal-safe, for use after fork. -errno; -EBUSY: this process is under a
 * supervisor already.
 */
int filter_install(const struct sock_fprog *program);

/* Whether this kernel can do it; says in one line what is missing. 0; -errno. */
struct err;
int filter_check(struct err *err);
