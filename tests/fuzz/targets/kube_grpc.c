/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of HTTP/2 on a real socket of the server: whatever comes, it ends, and gives back all that it took. */
#include "base/cleanup.h"
#include "kube/plugin/grpc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_echo(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        (void)context;
        (void)err;
        ret->data = malloc(request->size + 1);
        assert(ret->data);
        if (request->size)
                memcpy(ret->data, request->data, request->size);
        ret->size = request->size;
        return 0;
}

static const struct grpc_method methods[] = {
        { "/v1beta1.DevicePlugin/Allocate", false, on_echo },
        { "/v1beta1.DevicePlugin/ListAndWatch", true, on_echo },
};

struct peer {
        struct loop_source source;
        struct loop *loop;
        struct grpc_server *server;
};

static void on_peer(struct loop_source *source, uint32_t events)
{
        struct peer *peer = source->context;
        char answer[4096];

        (void)events;
        grpc_server_push(peer->server);
        if (recv(source->fd, answer, sizeof(answer), MSG_DONTWAIT) <= 0)
                loop_stop(peer->loop);
}

static void on_late(struct loop_timer *timer)
{
        struct peer *peer = timer->context;

        assert(!peer->loop); /* the server neither answers nor ends */
        loop_stop(peer->loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct peer peer = { 0 };
        struct loop_timer late = { .due = on_late, .context = &peer };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (size > 64 << 10)
                size = 64 << 10; /* what a socket takes at once */
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/sublet-fuzz-grpc-%d", (int)getpid());
        assert(loop_new(&peer.loop) == 0);
        assert(grpc_server_new(peer.loop, address.sun_path, methods, ARRAY_SIZE(methods), NULL, &peer.server, NULL) ==
               0);
        assert(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
        (void)send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert(shutdown(fd, SHUT_WR) == 0);
        peer.source = (struct loop_source){ .fd = fd, .ready = on_peer, .context = &peer };
        assert(loop_add(peer.loop, &peer.source, EPOLLIN) == 0);
        loop_timer_set(peer.loop, &late, 20 * NSEC_PER_SEC, 0);
        assert(loop_run(peer.loop) == 0);
        loop_drop(peer.loop, &peer.source);
        (void)grpc_server_free(peer.server);
        (void)loop_free(peer.loop);
        (void)close(fd);
        return 0;
}
