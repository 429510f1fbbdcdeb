/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Signals are ignored, capabilities dropped but for those that a gate needs, and nobody may look into the process. */
void shim_harden(void);
