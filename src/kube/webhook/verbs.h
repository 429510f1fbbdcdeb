/* The verb of this room. */
#pragma once

int webhook_main(int argc, char **argv);
