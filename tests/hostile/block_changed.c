/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory whose size another thread keeps changing in the call's parameters while it is decided. */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* MiB. Were each piece large, twice the quota's count of pieces would still leave a device of 24 GiB some memory, for
 * whoever asks it what is free. */
enum { LARGE = 16 };

static unsigned char params[128];

static void *change(void *unused)
{
        (void)unused;
        for (uint64_t mib = 2;; mib = mib == 2 ? LARGE : 2) {
                kit_put64(params, 88, mib * MIB - 1);
                kit_put64(params, 64, mib * MIB);
                atomic_signal_fence(memory_order_seq_cst);
        }
        return NULL;
}

int main(void)
{
        uint32_t handle = KIT_MEMORY;
        struct kit_rm rm;
        pthread_t thread;
        unsigned int n_refused = 0;
        uint64_t got = 0;

        kit_rm_open(&rm);
        kit_rm_memory_params(&rm, params, 2 * MIB);
        if (pthread_create(&thread, NULL, change, NULL))
                kit_cannot("no thread");
        while (got < 2 * kit_quota_mib() && n_refused < 200) {
                bool is_there =
                        kit_ok(kit_rm_alloc(&rm, KIT_DEVICE, handle++, KIT_CLASS_MEMORY, params, sizeof(params)));

                n_refused = is_there ? 0 : n_refused + 1;
                got += is_there ? 2 : 0; /* at least */
        }
        kit_hold(got);
        exit(0);
}
