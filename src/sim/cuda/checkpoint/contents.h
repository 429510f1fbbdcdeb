/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a checkpoint does with the memory of this process: contents to host memory and the objects of the driver freed,
 * and the way back, under the same handles and at the same addresses. Under the library's lock.
 *
 * Less than the real library does: contexts, their channels and buffers stay, only what the program allocated goes. A
 * process that shares memory with another one, reaches a peer's, or has managed memory is refused, untouched.
 */
#pragma once

#include "sublet/sim/cuda.h"

CUresult contents_leave(void);  /* on failure all is as before */
CUresult contents_return(void); /* on failure all is still in host memory */
