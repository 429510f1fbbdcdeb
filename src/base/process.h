/* What /proc says of a process. */
#pragma once

#include <sys/types.h>

pid_t process_parent(pid_t process); /* -1: it has gone */
