/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the simulator's nvidia-smi. They print to standard output and end the program on an error of NVML. */
#pragma once

#include "sublet/sim/nvml.h"

#include <stdbool.h>

/* Ends the program unless r is NVML_SUCCESS: as nvidia-smi does, with what failed. */
void smi_check(const char *what, nvmlReturn_t r);

/* Devices and their processes, as boxes. */
void smi_table(void);

/* A line for each device: "GPU 0: NVIDIA H200 (UUID: GPU-...)". */
void smi_list(void);
