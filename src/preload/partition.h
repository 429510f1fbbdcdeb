/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SM partition: a tenant computes on some of a device's multiprocessors only (`sublet run --sms`).
 *
 * The driver's ioctls say nothing of it: which multiprocessors a kernel may use is in what libcuda writes for the
 * device, and the kernel's own control for it is refused to user space (measured, docs/modes.md). So the library uses
 * libcuda's own means, green contexts, inside the program:
 *      P1  each device has one green context of the lease's size, made when the program first retains the primary
 *          context. Programs keep the primary context's name: whenever they make it current the green one becomes
 *          current instead, and whenever they ask which is current they get the primary's name. Memory, modules and
 *          channels are the same. Streams made then are the green context's, which has a NULL stream of its own;
 *      P2  a context of cuCtxCreate is another green context. It shares the primary's memory and modules;
 *      P3  the device appears to have as many multiprocessors as the lease says: a program that counts them, to fill
 *          the device with blocks that wait for each other, would otherwise wait for ever;
 *      P4  if the size cannot be had, the program's request for a context is refused, with one line on stderr; the
 *          tenant never gets more;
 *      P5  a lease of all multiprocessors makes no green context.
 * Like all that runs inside, it guards against accidents, not against an enemy.
 */
#pragma once

#include "preload/lease_descriptor.h"
#include "preload/resolve.h"

/* Whether the lease has a partition. Threads: any. */
bool partition_is_requested(void);

/* The lease's part of the device. Returns the CUDA error of a call that failed. */
CUresult partition_resource(CUdevice device, CUdevResource *ret);
unsigned int partition_size(CUdevice device); /* 0: unknown */

/* P1: the primary context was retained; is released, or reset whoever retains it. */
CUresult partition_hold(CUdevice device, CUcontext primary);
void partition_drop(CUdevice device, bool is_reset);

/* P2. */
CUresult partition_new(CUdevice device, CUcontext *ret);
bool partition_delete(CUcontext context, CUresult *ret); /* false: not one of P2 */

/* P1: from the name that programs know to the green context, and back. */
CUcontext partition_inside(CUcontext context);
CUcontext partition_outside(CUcontext context);
