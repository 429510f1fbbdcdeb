/* The verbs of this room. */
#pragma once

int device_plugin_main(int argc, char **argv);
int extender_main(int argc, char **argv);
int kubectl_main(int argc, char **argv);
int webhook_main(int argc, char **argv);
