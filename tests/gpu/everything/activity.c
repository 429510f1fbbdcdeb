/* SPDX-License-Identifier: Apache-2.0 */
/* activity - CUPTI: activities of kernels, copies and memory, and a callback at each launch. */
#include "clock.h"

#include <cupti.h>
#include <string.h>

static unsigned callbacks, kinds[CUPTI_ACTIVITY_KIND_COUNT];

static void CUPTIAPI buffer_wanted(uint8_t **ret, size_t *ret_size, size_t *ret_records)
{
        *ret_size = 1 << 20;
        *ret = (uint8_t *)aligned_alloc(8, *ret_size);
        *ret_records = 0;
}

static void CUPTIAPI buffer_full(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
        CUpti_Activity *record = NULL;
        (void)context, (void)stream, (void)size;
        while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
                if (record->kind < CUPTI_ACTIVITY_KIND_COUNT)
                        kinds[record->kind]++;
        free(buffer);
}

static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
        (void)user, (void)domain, (void)id, (void)data;
        callbacks++;
}

int main(void)
{
        CUpti_SubscriberHandle subscriber;
        void *memory;
        int status = cuptiSubscribe(&subscriber, called, NULL);
        printf("subscribe=%d\n", status);
        if (status == CUPTI_SUCCESS)
                MUST(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
        MUST(cuptiActivityRegisterCallbacks(buffer_wanted, buffer_full));
        MUST(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
        MUST(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET));
        MUST(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2));
        printf("overhead=%d\n", cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
        MUST(cudaMalloc(&memory, 1 << 20));
        for (int i = 0; i < 10; i++)
                MUST(cudaMemset(memory, i, 1 << 20));
        printf("sum=%llu\n", device_sum(memory, 1 << 20));
        MUST(cudaFree(memory));
        MUST(cuptiActivityFlushAll(1));
        printf("memset=%u memcpy=%u memory=%u callbacks=%s\n", kinds[CUPTI_ACTIVITY_KIND_MEMSET],
               kinds[CUPTI_ACTIVITY_KIND_MEMCPY], kinds[CUPTI_ACTIVITY_KIND_MEMORY2], callbacks ? "yes" : "no");
        return 0;
}
