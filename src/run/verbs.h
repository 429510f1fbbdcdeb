/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of this room; see src/verbs.def. */
#pragma once

int run_main(int argc, char **argv);
int lease_main(int argc, char **argv);
