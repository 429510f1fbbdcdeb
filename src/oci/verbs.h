/* The verbs of this room. */
#pragma once

int oci_main(int argc, char **argv);
int cdi_main(int argc, char **argv);
