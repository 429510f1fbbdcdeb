/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between a process and the simulated driver.
 *
 * A simulated machine is a directory:
 *      dev/nvidiactl, dev/nvidia0, ..., dev/nvidia-uvm    listening SOCK_SEQPACKET sockets
 *      sys/module/nvidia/version                          the release that it simulates
 *      proc/driver/nvidia/...                             the files that `sublet doctor` reads
 *      control                                            a socket that takes faults (faults.def)
 *      log                                                the driver's lines of the kernel's log
 *      pid                                                the server's process
 *      id                                                 of this machine, another one each time it starts
 *      lock                                               locked (flock) as long as the server lives
 * SUBLET_SIM names the directory, by a path that is valid for the server, too. An "open" is a connect
 * and a SIM_OP_OPEN, so a struct file of the driver is one connection: dup, fork, SCM_RIGHTS and
 * pidfd_getfd share it, and the last close is a hang-up, exactly as with the real nodes.
 *
 * A request is one message on that connection, with descriptors beside it:
 *      [0]  the end of a socketpair for the answer (several processes share a connection, so the
 *           answer cannot come there). None: one-way, there is no answer.
 *      [1]  the file that the block or its parameters name by descriptor number, if they do; of an
 *           open the connection itself. The server identifies files by their SO_COOKIE.
 * The kernel adds the sender's credentials (SCM_CREDENTIALS). The server never follows a pointer: what
 * the driver would copy from user memory travels as segments of the message.
 *
 *      message = struct sim_request, block, segments[0], segments[1], ...
 *      answer  = struct sim_answer, block, segments...   perhaps with one descriptor
 *
 * Segments of an ALLOC: its parameters, then its rights mask. Of a CONTROL: its parameters, then
 * what rm_pointers() names in them, in that order. In an answer the block and each segment have
 * either the size that they had in the request or 0: the driver would not have written it back.
 *
 * The server sends a byte on the connection itself when an event is pending, which makes the
 * descriptor readable as poll(2) of the real node would; the client takes it off with EVENT_DATA.
 */
#pragma once

#include <stdint.h>

#define SIM_ENV "SUBLET_SIM"

enum {
        SIM_MESSAGE_MAX = 128 * 1024, /* bytes of one request or answer */
        SIM_SEGMENTS_MAX = 8,
};

enum sim_op {
        SIM_OP_IOCTL = 1,
        SIM_OP_MMAP,   /* answered with a memfd to map in place of the node */
        SIM_OP_MUNMAP, /* base and length in argument[0..1]; sent by libsublet-sim.so for UVM ranges */
        SIM_OP_GPU,    /* what the real driver gets by doorbell: launches, copies; see sim/doorbell.h */
        SIM_OP_OPEN,   /* the first message of a connection */
};

struct sim_request {
        uint32_t op;
        uint32_t request; /* of an ioctl */
        uint32_t block_size;
        uint32_t n_segments;
        uint32_t segment_size[SIM_SEGMENTS_MAX];
        uint64_t argument[6]; /* of mmap: address, length, prot, flags, offset */
};

struct sim_answer {
        int32_t result; /* what the system call returns: 0 or more, or a negative errno */
        uint32_t block_size;
        uint32_t n_segments;
        uint32_t segment_size[SIM_SEGMENTS_MAX];
        uint32_t has_fd;
        uint64_t argument[2]; /* of mmap: offset in the descriptor, sim_map flags; doorbell: see
                                 there */
};

/* argument[1] of an answered mmap. */
enum sim_map {
        SIM_MAP_UVM = 1, /* a UVM range: of this process only; its munmap is to be reported */
};
