/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What stands behind the name in a `stat` of /proc, which may hold anything. False: it cannot be read. */
static bool stat_read(const char *path, char *text, size_t size, const char **ret)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

        if (n <= 0)
                return false;
        text[n] = '\0';
        *ret = strrchr(text, ')');
        return *ret && strlen(*ret) > 4;
}

pid_t process_parent(pid_t process)
{
        char path[64], text[512];
        const char *at;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", process);
        return stat_read(path, text, sizeof(text), &at) ? (pid_t)strtol(at + 4, NULL, 10) : -1;
}

uint64_t process_began(pid_t process)
{
        enum { FIELD = 22, STATE = 3 }; /* proc(5): starttime, and what stands behind the name */
        char path[64], text[512];
        const char *at;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", process);
        if (!stat_read(path, text, sizeof(text), &at))
                return 0;
        at += 2;
        for (int i = STATE; i < FIELD && at; i++)
                at = (at = strchr(at, ' ')) ? at + 1 : NULL;
        return at ? strtoull(at, NULL, 10) : 0;
}

/* One number behind it: a process below another PID namespace has one of each. */
static bool has_one_number(const char *status)
{
        const char *at = strstr(status, "\nNSpid:\t");

        if (!at)
                return true; /* a kernel without namespaces */
        at += strlen("\nNSpid:\t");
        return at[strspn(at, "0123456789")] == '\n';
}

bool process_is_near(pid_t process, uid_t user)
{
        _cleanup_(closep) int fd = -1;
        char path[64], text[4096];
        unsigned int ids[4];
        const char *at;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/status", process);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        if (n == sizeof(text) - 1)
                return false; /* so many groups that the rest was not read */
        text[n < 0 ? 0 : n] = '\0';
        at = strstr(text, "\nUid:\t"); /* a newline in its name is written as \n */
        if (!at || sscanf(at, "\nUid:\t%u\t%u\t%u\t%u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
                return false;
        for (int i = 0; i < 4; i++)
                if (ids[i] != user)
                        return false;
        return has_one_number(text);
}

static bool thread_is_alive(pid_t process, const char *thread)
{
        char path[64], text[512];
        const char *at;

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", process, thread);
        return stat_read(path, text, sizeof(text), &at) && !strchr("ZXx", at[2]);
}

bool process_is_alive(pid_t process)
{
        struct dirent *entry;
        bool is_alive = false;
        char path[64];
        DIR *dir;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", process);
        dir = opendir(path);
        while (dir && !is_alive && (entry = readdir(dir)))
                is_alive = entry->d_name[0] != '.' && thread_is_alive(process, entry->d_name);
        if (dir)
                (void)closedir(dir);
        return is_alive;
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

bool process_line(FILE *list, char *line, size_t size)
{
        size_t n = 0;
        int c = getc_unlocked(list);

        if (c == EOF)
                return false;
        for (; c != EOF && c != '\n'; c = getc_unlocked(list))
                if (n < size - 1)
                        line[n++] = (char)c;
        line[n] = '\0';
        return true;
}

int process_spawn_self(char *const *argv, int output, int errors, pid_t *ret)
{
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, all;
        int r;

        (void)sigemptyset(&none);
        (void)sigfillset(&all);
        (void)posix_spawnattr_init(&attributes);
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &all);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        (void)posix_spawn_file_actions_init(&actions);
        r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
        if (r == 0)
                r = posix_spawn(ret, "/proc/self/exe", &actions, &attributes, argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)posix_spawnattr_destroy(&attributes);
        return -r;
}
