/* SPDX-License-Identifier: Apache-2.0 */
/* The verb of this room. */
#pragma once

int extender_main(int argc, char **argv);
