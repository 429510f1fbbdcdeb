/* The verbs whose work is done in this room; see src/verbs.def. */
#pragma once

int run_main(int argc, char **argv);
int lease_main(int argc, char **argv);
int keeper_main(int argc, char **argv);
int keepers_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int hook_main(int argc, char **argv);
int daemon_main(int argc, char **argv);
