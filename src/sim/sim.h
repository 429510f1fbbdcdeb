/* The verb of the room: `sublet sim`. */
#pragma once

/* Exit status: the program's, or 128 + the signal that ended it; 2: bad use; 127: no such program;
 * 1: the machine could not be made. */
int sim_main(int argc, char **argv);
