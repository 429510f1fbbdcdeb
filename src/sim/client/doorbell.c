/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/client/doorbell.h"

#include "sim/client/client.h"
#include "sim/client/wire.h"

int sim_gpu_send(int ctl, const struct sim_gpu *launch)
{
        struct sim_request request = { .op = SIM_OP_GPU };
        struct sim_buffer block = { (void *)(uintptr_t)launch, sizeof(*launch) };

        return sim_transact(ctl, &request, &block, 1, -1, NULL, NULL);
}

static int gpu_transact(int ctl, const struct sim_gpu *question, struct sim_answer *ret, int *ret_fd)
{
        struct sim_request request = { .op = SIM_OP_GPU };
        struct sim_buffer block = { (void *)(uintptr_t)question, sizeof(*question) };
        int r;

        r = sim_transact(ctl, &request, &block, 1, -1, ret, ret_fd);
        return r < 0 ? r : ret->result;
}

int sim_gpu_wait(int ctl, uint32_t client, uint32_t channel, uint64_t value, uint64_t timeout, uint64_t *ret_reached)
{
        struct sim_gpu request = {
                .op = SIM_GPU_FENCE, .client = client, .object = channel, .value = value, .timeout = timeout
        };
        struct sim_answer answer = { 0 };
        int r;

        r = gpu_transact(ctl, &request, &answer, NULL);
        if (ret_reached)
                *ret_reached = answer.argument[0];
        return r;
}

int sim_gpu_backing(int ctl, uint32_t client, uint32_t memory, uint64_t *ret_size)
{
        struct sim_gpu request = { .op = SIM_GPU_BACKING, .client = client, .object = memory };
        struct sim_answer answer;
        int r, fd;

        r = gpu_transact(ctl, &request, &answer, &fd);
        if (r < 0)
                return r;
        *ret_size = answer.argument[1];
        return fd;
}

int sim_gpu_touch(int ctl, uint32_t client)
{
        struct sim_gpu request = { .op = SIM_GPU_TOUCH, .client = client };
        struct sim_answer answer;
        int r, fd;

        r = gpu_transact(ctl, &request, &answer, &fd);
        return r < 0 ? r : fd;
}
