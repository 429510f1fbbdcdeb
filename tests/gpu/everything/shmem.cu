/* SPDX-License-Identifier: Apache-2.0 */
/* shmem - NVSHMEM with one processing element: symmetric memory, a put, a barrier on a stream. */
#include "clock.h"

#include <nvshmem.h>
#include <nvshmemx.h>

__global__ void put(int *to, int value)
{
        nvshmem_int_p(to + threadIdx.x, value, nvshmem_my_pe());
}

int main(void)
{
        nvshmem_init();
        int *memory = (int *)nvshmem_malloc(1 << 20);
        MUST(memory == NULL);
        put<<<1, 256>>>(memory, 7);
        nvshmemx_barrier_all_on_stream(0);
        MUST(cudaDeviceSynchronize());
        printf("elements=%d sum=%llu\n", nvshmem_n_pes(), device_sum(memory, 1024));
        nvshmem_free(memory);
        nvshmem_finalize();
        return 0;
}
