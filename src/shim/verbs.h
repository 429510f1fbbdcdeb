/* The verbs of this room; see src/verbs.def. */
#pragma once

int keeper_main(int argc, char **argv);
int keepers_main(int argc, char **argv);
