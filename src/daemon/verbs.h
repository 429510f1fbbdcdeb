/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of this room; see src/verbs.def. */
#pragma once

int checkpoint_main(int argc, char **argv);
int daemon_main(int argc, char **argv);
