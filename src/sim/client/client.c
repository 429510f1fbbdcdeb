/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport. The peer address of a connection names the node: it is the listening socket
 * <directory>/dev/<node>, and only the server listens there.
 */
#include "sim/client/client.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/rights.h"
#include "sim/client/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
        BUFFERS_MAX = 1 + SIM_SEGMENTS_MAX,
        FDS_MAX = 2, /* the answer's way, and the file named */
};

static void errno_restorep(int *saved)
{
        errno = *saved;
}

#define ERRNO_SURVIVES _cleanup_(errno_restorep) __attribute__((unused)) int errno_saved_ = errno

const char *sim_directory(void)
{
        const char *directory = getenv(SIM_ENV);

        return directory && *directory ? directory : NULL;
}

/* ---- which node ---------------------------------------------------------------------------- */

/* "nvidia7" -> RM_NODE_DEVICE, 7. */
static enum rm_node node_of_name(const char *name, uint32_t *ret_minor)
{
        unsigned int minor;
        int end = 0;

        if (strcmp(name, "nvidiactl") == 0)
                return RM_NODE_CTL;
        if (strcmp(name, "nvidia-uvm") == 0)
                return RM_NODE_UVM;
        if (strcmp(name, "nvidia-uvm-tools") == 0)
                return RM_NODE_UVM_TOOLS;
        if (sscanf(name, "nvidia%3u%n", &minor, &end) == 1 && !name[end]) {
                if (ret_minor)
                        *ret_minor = minor;
                return RM_NODE_DEVICE;
        }
        return RM_NODE_OTHER;
}

/* The node that the peer's address names; of any directory if it is NULL. */
static enum rm_node node_of_peer(const char *directory, int fd, uint32_t *ret_minor)
{
        struct sockaddr_un address = { 0 };
        socklen_t size = sizeof(address) - 1; /* keeps a NUL at the end */
        size_t length = directory ? strlen(directory) : 0;
        const char *name;

        if (getpeername(fd, (struct sockaddr *)&address, &size) < 0 || address.sun_family != AF_UNIX)
                return RM_NODE_OTHER;
        name = strrchr(address.sun_path, '/');
        if (!name || name - address.sun_path < 4 || strncmp(name - 4, "/dev", 4) != 0)
                return RM_NODE_OTHER;
        if (directory &&
            ((size_t)(name - 4 - address.sun_path) != length || strncmp(address.sun_path, directory, length) != 0))
                return RM_NODE_OTHER;
        return node_of_name(name + 1, ret_minor);
}

/* The server's process, from the file `pid` of the directory. 0: unknown. */
static pid_t pid_of(const char *directory)
{
        _cleanup_(closep) int fd = -1;
        char path[256], text[16] = { 0 };
        int pid = 0;

        if (snprintf(path, sizeof(path), "%s/pid", directory) >= (int)sizeof(path))
                return 0;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%d", &pid) != 1)
                return 0;
        return pid;
}

/* A path can be imitated in another mount namespace, the listener's process cannot. The file is read
 * again only if a peer's pid differs from the one that this thread has verified before. */
static bool is_server(const char *directory, int fd)
{
        static _Thread_local struct {
                char directory[sizeof(((struct sockaddr_un *)0)->sun_path)];
                pid_t pid;
        } known;
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0)
                return false;
        if (peer.pid == known.pid && strcmp(directory, known.directory) == 0)
                return true;
        if (peer.pid != pid_of(directory) || strlen(directory) >= sizeof(known.directory))
                return false;
        strcpy(known.directory, directory);
        known.pid = peer.pid;
        return true;
}

enum rm_node sim_node(const char *directory, int fd, uint32_t *ret_minor)
{
        ERRNO_SURVIVES;
        uint32_t minor = 0;
        enum rm_node node = node_of_peer(directory, fd, &minor);

        if (node == RM_NODE_OTHER || (directory && !is_server(directory, fd)))
                return RM_NODE_OTHER;
        if (ret_minor)
                *ret_minor = minor;
        return node;
}

/* ---- one message and its answer ------------------------------------------------------------ */

struct message {
        struct sim_request header;
        struct iovec parts[1 + BUFFERS_MAX];
};

static int message_fill(struct message *message, const struct sim_request *request, const struct sim_buffer *buffers,
                        size_t n_buffers)
{
        size_t total = sizeof(message->header);

        if (n_buffers > BUFFERS_MAX)
                return -EMSGSIZE;
        message->header = *request;
        message->header.block_size = n_buffers ? buffers[0].size : 0;
        message->header.n_segments = n_buffers ? (uint32_t)n_buffers - 1 : 0;
        message->parts[0] = (struct iovec){ &message->header, sizeof(message->header) };
        for (size_t i = 0; i < n_buffers; i++) {
                message->parts[1 + i] = (struct iovec){ buffers[i].data, buffers[i].size };
                if (i)
                        message->header.segment_size[i - 1] = buffers[i].size;
                total += buffers[i].size;
        }
        return total > SIM_MESSAGE_MAX ? -EMSGSIZE : 0;
}

static int message_send(int fd, struct message *message, size_t n_parts, const int *fds, size_t n_fds)
{
        ssize_t n = rights_send(fd, message->parts, n_parts, fds, n_fds, MSG_NOSIGNAL);

        if (n >= 0)
                return 0;
        return n == -ECONNRESET || n == -ENOTCONN ? -EPIPE : (int)n;
}

static bool answer_fits(const struct sim_answer *answer, const struct sim_buffer *buffers, size_t n_buffers)
{
        if (answer->block_size && (!n_buffers || answer->block_size != buffers[0].size))
                return false;
        if (answer->n_segments > SIM_SEGMENTS_MAX)
                return false;
        for (size_t i = 0; i < answer->n_segments; i++)
                if (answer->segment_size[i] && (i + 1 >= n_buffers || answer->segment_size[i] != buffers[i + 1].size))
                        return false;
        return true;
}

/* The header, which gives the sizes of the parts that follow. */
static int answer_peek(int from, const struct sim_buffer *buffers, size_t n_buffers, struct sim_answer *ret)
{
        ssize_t n;

        do
                n = recv(from, ret, sizeof(*ret), MSG_PEEK);
        while (n < 0 && errno == EINTR);
        if (n < (ssize_t)sizeof(*ret))
                return n < 0 && errno != ECONNRESET ? -errno : -EPIPE;
        return answer_fits(ret, buffers, n_buffers) ? 0 : -EPROTO;
}

static int answer_receive(int from, const struct sim_buffer *buffers, size_t n_buffers, struct sim_answer *ret,
                          int *ret_fd)
{
        struct iovec parts[1 + BUFFERS_MAX];
        struct sim_answer answer;
        struct rights rights;
        size_t n_parts = 1;
        ssize_t n;
        int r;

        r = answer_peek(from, buffers, n_buffers, &answer);
        if (r < 0)
                return r;
        parts[0] = (struct iovec){ &answer, sizeof(answer) };
        if (answer.block_size)
                parts[n_parts++] = (struct iovec){ buffers[0].data, answer.block_size };
        for (size_t i = 0; i < answer.n_segments; i++)
                if (answer.segment_size[i])
                        parts[n_parts++] = (struct iovec){ buffers[i + 1].data, answer.segment_size[i] };
        n = rights_receive(from, parts, n_parts, 1, 0, DESCRIPTORS_OURS, &rights);
        if (n < 0)
                return (int)n;
        if (ret_fd)
                *ret_fd = rights.fds[0];
        else
                closep(&rights.fds[0]);
        *ret = answer;
        return 0;
}

int sim_transact(int fd, const struct sim_request *request, const struct sim_buffer *buffers, size_t n_buffers,
                 int named, struct sim_answer *ret_answer, int *ret_fd)
{
        ERRNO_SURVIVES;
        _cleanup_(closep) int mine = -1;
        struct message message = { 0 };
        int fds[FDS_MAX], pair[2], r;

        if (ret_fd)
                *ret_fd = -1;
        r = message_fill(&message, request, buffers, n_buffers);
        if (r < 0)
                return r;
        if (!ret_answer)
                return message_send(fd, &message, 1 + n_buffers, NULL, 0);

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        mine = pair[0];
        fds[0] = pair[1];
        fds[1] = named;
        r = message_send(fd, &message, 1 + n_buffers, fds, named < 0 ? 1 : 2);
        close(pair[1]); /* the server's end is then the only one: if the server dies, the read ends */
        if (r < 0)
                return r;
        return answer_receive(mine, buffers, n_buffers, ret_answer, ret_fd);
}

/* ---- open, mmap, munmap -------------------------------------------------------------------- */

static int node_connect(const char *directory, const char *node, int flags)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int type = SOCK_SEQPACKET | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0);
        int fd, r;

        if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/dev/%s", directory, node) >=
            (int)sizeof(address.sun_path))
                return -ENAMETOOLONG;
        fd = socket(AF_UNIX, type, 0);
        if (fd < 0)
                return -errno;
        do
                r = connect(fd, (const struct sockaddr *)&address, sizeof(address));
        while (r < 0 && errno == EINTR);
        if (r == 0)
                return fd;
        r = errno == ECONNREFUSED || errno == ECONNRESET ? -ENODEV : -errno;
        close(fd);
        return r;
}

int sim_open(const char *directory, const char *node, int flags)
{
        ERRNO_SURVIVES;
        _cleanup_(closep) int fd = node_connect(directory, node, flags);
        struct sim_request request = { .op = SIM_OP_OPEN };
        struct sim_answer answer;
        int r;

        if (fd < 0)
                return TAKE_FD(fd);
        r = sim_transact(fd, &request, NULL, 0, fd, &answer, NULL);
        if (r < 0)
                return r == -EPIPE ? -ENODEV : r;
        return answer.result < 0 ? answer.result : TAKE_FD(fd);
}

intptr_t sim_mmap(int fd, void *address, size_t length, int prot, int flags, int64_t offset, bool *ret_is_uvm)
{
        ERRNO_SURVIVES;
        struct sim_request request = { .op = SIM_OP_MMAP,
                                       .argument = { (uintptr_t)address, length, (uint64_t)prot, (uint64_t)flags,
                                                     (uint64_t)offset } };
        _cleanup_(closep) int memory = -1;
        struct sim_answer answer;
        void *at;
        int r;

        r = sim_transact(fd, &request, NULL, 0, -1, &answer, &memory);
        if (r < 0)
                return r == -EPIPE ? -ENODEV : r;
        if (answer.result < 0 || memory < 0)
                return answer.result < 0 ? answer.result : -EPROTO;

        at = mmap(address, length, prot, flags, memory, (off_t)answer.argument[0]);
        *ret_is_uvm = answer.argument[1] & SIM_MAP_UVM;
        if (at != MAP_FAILED) {
                if (*ret_is_uvm) /* as the driver's VM_DONTCOPY */
                        (void)madvise(at, length, MADV_DONTFORK);
                return (intptr_t)at;
        }
        r = -errno;
        if (*ret_is_uvm)
                (void)sim_munmap(fd, address, length);
        return r;
}

int sim_munmap(int fd, void *address, size_t length)
{
        struct sim_request request = { .op = SIM_OP_MUNMAP, .argument = { (uintptr_t)address, length } };
        struct sim_answer answer;
        int r;

        r = sim_transact(fd, &request, NULL, 0, -1, &answer, NULL);
        return r < 0 ? r : answer.result;
}

/* ---- the release --------------------------------------------------------------------------- */

int sim_layout(const char *directory, struct rm_layout *ret)
{
        _cleanup_(closep) int fd = -1;
        char path[256], text[64] = { 0 };
        struct rm_version version;
        int r;

        if (snprintf(path, sizeof(path), "%s/sys/module/nvidia/version", directory) >= (int)sizeof(path))
                return -ENAMETOOLONG;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
                return -errno;
        text[strcspn(text, "\n")] = 0;
        r = rm_version_parse(text, &version);
        return r < 0 ? r : rm_layout_for(version, ret);
}
