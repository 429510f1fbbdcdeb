/* The verbs of this room; see src/verbs.def. */
#pragma once

int doctor_main(int argc, char **argv);
