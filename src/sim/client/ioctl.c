/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ioctl(2) on a simulated node: what the driver would copy from and to user memory, as segments of
 * a message. The block is copied once and the copy decides; what it points to is sent by the kernel
 * straight from user memory and received straight into it, so a wild pointer is -EFAULT and no
 * crash.
 */
#include "sim/client/client.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/client/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum {
        BLOCK_MAX = 16384,  /* _IOC_SIZE has 14 bits */
        POINTERS_END = 256, /* pointers and counts in the parameters of a control end before */
        EVENT_SIZE = 16,    /* NvUnixEvent */
};

#define NO_OFFSET UINT32_MAX

/* Controls whose parameters name a descriptor; rm_decode finds those in blocks. The number in an event
 * (class 0x79, 0x90cd) is only a key. Source: docs/rm-abi.md 1.5. */
static const struct named {
        uint32_t control;
        uint32_t at;
} names[] = {
        { 0x3d05, 16 }, { 0x3d06, 0 }, { 0x3d08, 0 }, { 0x3d0b, 0 }, { 0x3d0c, 0 },
};

/* The buffers of a call: sent with it, overwritten by its answer. */
struct parcel {
        struct rm_call call;
        struct sim_buffer buffers[1 + SIM_SEGMENTS_MAX];
        size_t n_buffers;
};

/* A copy of user memory without the risk of a fault. By the thread: the main thread may have ended. */
static int copy_in(void *to, const void *from, size_t size)
{
        struct iovec here = { to, size }, there = { (void *)(uintptr_t)from, size };
        ssize_t n;

        if (!size)
                return 0;
        n = syscall(SYS_process_vm_readv, gettid(), &here, 1UL, &there, 1UL, 0UL);
        if (n == (ssize_t)size)
                return 0;
        if (n < 0 && (errno == ENOSYS || errno == EPERM)) { /* forbidden here: trust the host */
                memcpy(to, from, size);
                return 0;
        }
        return -EFAULT;
}

static uint32_t copy_in32(uint64_t from)
{
        uint32_t value = 0;

        (void)copy_in(&value, (const void *)(uintptr_t)from, sizeof(value));
        return value;
}

static int parcel_add(struct parcel *parcel, uint64_t address, uint64_t size)
{
        if (parcel->n_buffers == 1 + SIM_SEGMENTS_MAX || size > SIM_MESSAGE_MAX)
                return -EINVAL;
        parcel->buffers[parcel->n_buffers++] = (struct sim_buffer){ (void *)(uintptr_t)address, (uint32_t)size };
        return 0;
}

/* What the parameters of a control point to. */
static int parcel_add_pointers(struct parcel *parcel, const struct rm_layout *layout)
{
        unsigned char params[POINTERS_END];
        uint32_t size = parcel->call.params_size < POINTERS_END ? parcel->call.params_size : POINTERS_END;
        const struct rm_pointer *pointers;
        size_t n = rm_pointers(layout, parcel->call.class_or_cmd, &pointers);
        int r = 0;

        if (!n)
                return 0;
        if (copy_in(params, (const void *)(uintptr_t)parcel->call.params, size) < 0)
                return -EFAULT;
        for (size_t i = 0; i < n && !r; i++) {
                uint64_t address = rm_get64(params, size, pointers[i].at);

                /* No method here reads what rm/pointers.def does not describe. */
                r = parcel_add(parcel, address, pointers[i].element ? rm_pointer_bytes(&pointers[i], params, size) : 0);
        }
        return r;
}

static int file_named(const struct parcel *parcel, enum rm_node node, const unsigned char *block, uint32_t size)
{
        int fd = -1;

        /* UVM_MM_INITIALIZE is the only UVM call that uses a descriptor (uvm.c, 525 to 595). */
        if (parcel->call.fd_at != NO_OFFSET && (node != RM_NODE_UVM || parcel->call.kind == RM_UVM_MM_INITIALIZE))
                fd = (int)rm_get32(block, size, parcel->call.fd_at);
        for (size_t i = 0; i < ARRAY_SIZE(names) && parcel->call.params; i++)
                if (parcel->call.kind == RM_CONTROL && parcel->call.class_or_cmd == names[i].control)
                        fd = (int)copy_in32(parcel->call.params + names[i].at);
        return fd >= 0 && fcntl(fd, F_GETFD) >= 0 ? fd : -1;
}

static int parcel_add_parameters(struct parcel *parcel, const struct rm_layout *layout, const unsigned char *block,
                                 uint32_t size)
{
        uint64_t rights = rm_get64(block, size, parcel->call.rights_at);
        uint32_t params = rm_params_size(layout, &parcel->call);
        int r;

        if (parcel->call.kind == RM_EVENT_DATA)
                params = EVENT_SIZE;
        if (parcel->call.params_at == NO_OFFSET)
                return 0;
        /* More than a message holds has no control: the driver refuses it by its size. */
        if (params > SIM_MESSAGE_MAX / 2 || !parcel->call.params)
                params = 0;
        r = parcel_add(parcel, parcel->call.params, params);
        if (r < 0)
                return r;
        if (parcel->call.kind == RM_CONTROL)
                return params ? parcel_add_pointers(parcel, layout) : 0;
        return rights ? parcel_add(parcel, rights, RM_RIGHTS_SIZE) : 0;
}

static int parcel_transact(int fd, enum rm_node node, const struct rm_layout *layout, struct parcel *parcel,
                           uint32_t request, void *block, const unsigned char *copy, uint32_t size)
{
        struct sim_request message = { .op = SIM_OP_IOCTL, .request = request };
        struct sim_answer answer;
        int r;

        r = parcel_add(parcel, (uintptr_t)block, size);
        if (!r)
                r = parcel_add_parameters(parcel, layout, copy, size);
        if (r < 0)
                return r;
        r = sim_transact(fd, &message, parcel->buffers, parcel->n_buffers, file_named(parcel, node, copy, size),
                         &answer, NULL);
        return r < 0 ? r : answer.result;
}

static int ioctl_perform(int fd, enum rm_node node, const struct rm_layout *layout, uint32_t request, void *block)
{
        struct parcel parcel = { 0 };
        unsigned char copy[BLOCK_MAX];
        enum rm_kind kind;
        uint32_t size;

        if (rm_request_find(layout, node, request, &kind, &size) != RM_OK || size > sizeof(copy))
                return -EINVAL;
        if (copy_in(copy, block, size) < 0)
                return -EFAULT;
        if (rm_decode(layout, kind, request, copy, size, &parcel.call) != RM_OK)
                return -EINVAL;
        if (kind != RM_XFER)
                return parcel_transact(fd, node, layout, &parcel, request, block, copy, size);

        /* One level deep: rm_decode has refused an XFER in an XFER. */
        return ioctl_perform(fd, node, layout, RM_REQUEST(parcel.call.class_or_cmd, parcel.call.params_size),
                             (void *)(uintptr_t)parcel.call.params);
}

int sim_ioctl(int fd, const struct rm_layout *layout, uint32_t request, void *block)
{
        enum rm_node node = sim_node(NULL, fd, NULL);
        int saved = errno, r;
        char token;

        if (node == RM_NODE_OTHER)
                return -ENOTTY;
        if (node != RM_NODE_UVM && (request & 0xff) == RM_NR_EVENT_DATA)
                (void)recv(fd, &token, sizeof(token), MSG_DONTWAIT); /* wire.h: an event is pending */
        r = ioctl_perform(fd, node, layout, request, block);
        errno = saved;
        return r == -EPIPE ? -ENODEV : r;
}
