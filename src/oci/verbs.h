/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of this room; see src/verbs.def. */
#pragma once

int oci_main(int argc, char **argv);
int oci_runtime_main(int argc, char **argv); /* oci runtime */
int cdi_main(int argc, char **argv);
int hook_main(int argc, char **argv);
