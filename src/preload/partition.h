/*
 * The SM partition: all that a tenant computes runs on some of a device's multiprocessors (`sublet run --sms`).
 *
 * The idea. The driver's calls know nothing of it: which multiprocessors a kernel may use stands in what libcuda writes
 * for the device, and the kernel's own control for it is refused to user space (measured, docs/modes.md). So it is done
 * with libcuda's own means, green contexts, in the program:
 *      P1  of each device there is one green context of the lease's size, made when the program first retains the primary
 *          context. Programs keep the name of the primary context; whenever they make it current, the green one becomes
 *          current in its place, and whenever they ask which is current, they hear the primary's name. Memory, modules
 *          and channels are the same. Streams made then are the green context's, and its NULL stream is its own;
 *      P2  a context of cuCtxCreate is a green context besides. It shares the primary's memory and modules;
 *      P3  the device has as many multiprocessors as the lease says: a program that counts them, to fill the card with
 *          blocks that wait for each other, would otherwise wait for ever;
 *      P4  what cannot be had is refused where the program asks for a context, and said in one line: never more;
 *      P5  no lease of all multiprocessors makes a green context.
 * Like all that runs inside, it guards against accidents, not against an enemy.
 */
#pragma once

#include "preload/lease_descriptor.h"
#include "preload/resolve.h"

/* Whether this tenant has one. Any thread, any time. */
bool partition_is_requested(void);

/* The device's multiprocessors as the lease has them; a call of CUDA's that fails is answered. */
CUresult partition_resource(CUdevice device, CUdevResource *ret);
unsigned int partition_size(CUdevice device); /* 0: unknown */

/* P1: the primary context was retained, is given back, is ended. */
CUresult partition_hold(CUdevice device, CUcontext primary);
void partition_drop(CUdevice device);
void partition_end(CUdevice device);

/* P2. */
CUresult partition_new(CUdevice device, CUcontext *ret);
bool partition_delete(CUcontext context, CUresult *ret); /* false: it is not ours */

/* P1: between the name that programs know and what is current. */
CUcontext partition_inside(CUcontext context);
CUcontext partition_outside(CUcontext context);
