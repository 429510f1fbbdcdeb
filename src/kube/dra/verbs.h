/* SPDX-License-Identifier: Apache-2.0 */
/* The verb of this room. */
#pragma once

int dra_driver_main(int argc, char **argv);
