/* SPDX-License-Identifier: Apache-2.0 */
/* The verb whose work is done in this room; see src/verbs.def. */
#pragma once

int explain_main(int argc, char **argv);
