#include "base/process.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <limits.h>
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

bool process_beside(const char *relative, char *ret, size_t size)
{
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        char *slash;

        self[n < 0 ? 0 : n] = '\0';
        slash = strrchr(self, '/');
        if (!slash)
                return false;
        *slash = '\0';
        n = snprintf(ret, size, "%s/%s", self, relative);
        return n > 0 && (size_t)n < size && access(ret, R_OK) == 0;
}
