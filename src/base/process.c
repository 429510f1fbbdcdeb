#include "base/process.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pid_t process_parent(pid_t process)
{
        char path[64], text[512];
        _cleanup_(closep) int fd = -1;
        const char *at;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", process);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return -1;
        text[n] = '\0';
        at = strrchr(text, ')'); /* the name may hold anything */
        return at && strlen(at) > 4 ? (pid_t)strtol(at + 4, NULL, 10) : -1;
}
