/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins tenancies without a pause, each of which ends at once (--preload: not even a process is started). A row of
 * each stays in the daemon's store.
 *
 *      attack-tenancies-many DIR MACHINE N        N of them, or until 200 were refused: "begun=N refused=M"
 *
 * No driver: any user's program. Exit status: 0; 2 its set-up failed.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
        PAUSE_USEC = 5000, /* after a refusal */
        REFUSED_MOST = 200,
};

/* What the daemon answers; "" if it hangs up. */
static void lease(const char *dir, const char *request, char *answer, size_t size)
{
        struct sockaddr_un at = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        ssize_t n = -1;

        (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/tenant.sock", dir);
        if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
            send(fd, request, strlen(request), MSG_NOSIGNAL) > 0)
                n = recv(fd, answer, size - 1, 0);
        answer[n > 0 ? n : 0] = '\0';
        (void)close(fd);
}

int main(int argc, char **argv)
{
        char request[2048], answer[4096], label[64];
        unsigned int begun = 0, refused = 0, most;

        if (argc != 4)
                return 2;
        memset(label, 'x', sizeof(label) - 4);
        label[sizeof(label) - 4] = '\0';
        (void)snprintf(request, sizeof(request),
                       "{\"v\":1,\"type\":\"lease\",\"tenant\":\"many\",\"named\":false,\"mem\":\"1M\","
                       "\""
                       "plane"
                       "\":\"preload\",\"attach\":\"never\",\"machine\":\"%s\",\"command\":\"%s\","
                       "\"labels\":\"a=%s,b=%s,c=%s,d=%s\"}",
                       argv[2], label, label, label, label, label);
        most = (unsigned int)atoi(argv[3]);
        while (begun < most && refused < REFUSED_MOST) {
                lease(argv[1], request, answer, sizeof(answer));
                if (strstr(answer, "\"granted\"")) {
                        begun++;
                        continue;
                }
                refused++;
                (void)usleep(PAUSE_USEC);
        }
        printf("begun=%u refused=%u\n", begun, refused);
        return 0;
}
