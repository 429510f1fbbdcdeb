/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs whose work is done in this room; see src/verbs.def. */
#pragma once

int end_main(int argc, char **argv);
int events_main(int argc, char **argv);
int inspect_main(int argc, char **argv);
int logs_main(int argc, char **argv);
int ps_main(int argc, char **argv);
int resume_main(int argc, char **argv);
int set_main(int argc, char **argv);
int suspend_main(int argc, char **argv);

int top_main(int argc, char **argv);
int trace_main(int argc, char **argv);
int usage_main(int argc, char **argv);
