/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the simulated driver, whatever they say. An input is a sequence of
 *
 *      u8 file, u8 file named (0: none), u8 op, u32 request, u16 block, u8 n, u16 segment[n], bytes
 *
 * to one machine with two devices. Afterwards every file is closed, and then nothing may be held: a
 * byte of a heap, a client, or (by the sanitizer) a byte of memory.
 */
#include "sim/server/machine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        N_FILES = 5,
        N_MESSAGES = 64,
};

struct input {
        const uint8_t *at;
        size_t left;
};

static uint32_t take(struct input *input, size_t size)
{
        uint32_t value = 0;

        size = size < input->left ? size : input->left;
        memcpy(&value, input->at, size);
        input->at += size;
        input->left -= size;
        return value;
}

/* The next message, in `data`; its size. */
static size_t message_make(struct input *input, unsigned char data[static SIM_MESSAGE_MAX])
{
        struct sim_request request = { .op = take(input, 1), .request = take(input, 4) };
        size_t size;

        request.block_size = take(input, 2);
        request.n_segments = take(input, 1) % 4;
        size = request.block_size;
        for (size_t i = 0; i < request.n_segments; i++) {
                request.segment_size[i] = take(input, 2);
                size += request.segment_size[i];
        }
        if (request.op == SIM_OP_MMAP || request.op == SIM_OP_MUNMAP)
                for (size_t i = 0; i < 5; i++)
                        request.argument[i] = (uint64_t)take(input, 4) << (i % 4 ? 0 : 12);
        if (size > SIM_MESSAGE_MAX - sizeof(request))
                size = SIM_MESSAGE_MAX - sizeof(request); /* shorter than it says: malformed */
        memcpy(data, &request, sizeof(request));
        memset(data + sizeof(request), 0, size);
        memcpy(data + sizeof(request), input->at, size < input->left ? size : input->left);
        input->at += size < input->left ? size : input->left;
        input->left -= size < input->left ? size : input->left;
        return sizeof(request) + size;
}

static void files_open(struct machine *machine, struct file *files[static N_FILES])
{
        static const enum rm_node nodes[N_FILES] = { RM_NODE_CTL, RM_NODE_DEVICE, RM_NODE_UVM, RM_NODE_CTL,
                                                     RM_NODE_DEVICE };
        struct sim_request open = { .op = SIM_OP_OPEN };

        for (size_t i = 0; i < N_FILES; i++) {
                if (machine_file_new(machine, nodes[i], i == 4, -1, &files[i]) < 0)
                        abort();
                machine_message(files[i], (unsigned char *)&open, sizeof(open), (struct ucred){ .pid = 100 }, i + 1,
                                -1);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct machine_options options = { .n_gpus = 2, .memory = 1 * GIB, .release = MACHINE_RELEASE };
        static unsigned char message[SIM_MESSAGE_MAX];
        static struct machine machine;
        struct input input = { data, size };
        struct file *files[N_FILES];
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (machine_init(&machine, &options, 1) < 0)
                abort();
        files_open(&machine, files);
        for (size_t n = 0; n < N_MESSAGES && input.left; n++) {
                struct file *file = files[take(&input, 1) % N_FILES];
                uint64_t named = take(&input, 1) % (N_FILES + 1);
                size_t length = message_make(&input, message);

                machine.now += NSEC_PER_MSEC / 2;
                machine_message(file, message, length, (struct ucred){ .pid = 100 + (pid_t)(n % 7 == 6) }, named,
                                dup(null)); /* an answer that cannot be sent */
        }
        machine.now += 100 * NSEC_PER_MSEC;
        (void)machine_advance(&machine);
        for (size_t i = 0; i < N_FILES; i++)
                machine_hang_up(files[i]);
        if (machine.gpus[0].heap.used || machine.gpus[1].heap.used || machine.handles.clients.n_used ||
            machine.files.n_used || machine.gpus[0].buffers || machine.gpus[0].pages ||
            machine.gpus[0].engines[0].groups)
                abort();
        machine_done(&machine);
        close(null);
        return 0;
}
