/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs whose work is done in this room; see src/verbs.def. */
#pragma once

int plan_main(int argc, char **argv);
