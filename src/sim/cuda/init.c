/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuInit, the lock, and the checks that every call begins with.
 *
 * A process forked after cuInit has the library's memory but no access to its client: every call there
 * returns CUDA_ERROR_NOT_INITIALIZED, as in the real library.
 */
#include "rm/numbers.h"
#include "sim/cuda/checkpoint/checkpoint.h"
#include "sim/cuda/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct library library;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static pthread_cond_t unlocked = PTHREAD_COND_INITIALIZER;
static bool is_locked; /* for a checkpoint: calls of the program wait */
static _Thread_local bool is_insider;

static void wait_while_locked(void)
{
        while (is_locked && !is_insider)
                (void)pthread_cond_wait(&unlocked, &mutex);
}

int library_lock(void)
{
        int r = pthread_mutex_lock(&mutex);

        wait_while_locked();
        return r;
}

void library_be_insider(void)
{
        is_insider = true;
}

void library_set_locked(bool is)
{
        is_locked = is;
        if (!is)
                (void)pthread_cond_broadcast(&unlocked);
}

void library_unlock(int *locked)
{
        (void)locked;
        (void)pthread_mutex_unlock(&mutex);
}

void library_wait(pthread_cond_t *condition)
{
        (void)pthread_cond_wait(condition, &mutex);
        wait_while_locked();
}

static void before_fork(void)
{
        (void)pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
        (void)pthread_mutex_unlock(&mutex);
}

static void after_fork_child(void)
{
        library.was_forked = library.is_ready;
        is_locked = false;
        checkpoint_forget();
        (void)pthread_mutex_unlock(&mutex);
}

CUresult library_check(void)
{
        return library.is_ready && !library.was_forked ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

struct device *device_of(CUdevice ordinal)
{
        return ordinal >= 0 && ordinal < library.n_devices ? &library.device[ordinal] : NULL;
}

CUresult device_enter(CUdevice ordinal, struct device **ret)
{
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        *ret = device_of(ordinal);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- which devices ------------------------------------------------------------------------- */

static int by_pci_address(const void *a, const void *b)
{
        const struct nv_device_info *x = a, *y = b;
        uint64_t p = (uint64_t)x->domain << 16 | (uint64_t)x->bus << 8 | x->slot;
        uint64_t q = (uint64_t)y->domain << 16 | (uint64_t)y->bus << 8 | y->slot;

        return (p > q) - (p < q);
}

/* "MIG-...": the process sees one instance, of the device that has them (sublet sim --mig). */
static bool is_instance(const char *uuid)
{
        FILE *file = fopen("/proc/driver/nvidia/gpus/0000:01:00.0/instances", "re");
        char is[64];
        bool found = false;

        while (file && !found && fscanf(file, "%*u %*u %*u %63s", is) == 1)
                found = !strcmp(is, uuid);
        if (file)
                (void)fclose(file);
        return found;
}

/* CUDA_VISIBLE_DEVICES: "1,0": the list ends at the first word that is not a device. NULL: all. */
static bool is_chosen(const char *visible, uint32_t index, uint32_t *ret_rank)
{
        uint32_t rank = 0;

        *ret_rank = index;
        if (!visible)
                return true;
        if (!strncmp(visible, "MIG-", 4)) {
                *ret_rank = 0;
                return index == 0 && is_instance(visible);
        }
        while (*visible) {
                char *end;
                unsigned long wanted = strtoul(visible, &end, 10);

                if (end == visible || (*end && *end != ','))
                        return false;
                *ret_rank = rank++;
                if (wanted == index)
                        return true;
                if (!*end)
                        return false;
                visible = end + 1;
        }
        return false;
}

static bool is_probed(const struct start_process *process, uint32_t gpu_id)
{
        for (uint32_t i = 0; i < process->n_probed; i++)
                if (process->probed[i] == gpu_id)
                        return true;
        return false;
}

/* If the gate refuses a call here, the machine seems to have no device, as with the real library. */
static CUresult devices_start(struct start_process *process)
{
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        struct nv_device_info *info = process->devices, chosen[NV_DEVICES] = { 0 };
        bool is_there[NV_DEVICES] = { false };

        qsort(info, process->n_devices, sizeof(*info), by_pci_address);
        for (uint32_t i = 0, rank; i < process->n_devices; i++) {
                if (!is_probed(process, info[i].gpu_id) || !is_chosen(visible, i, &rank))
                        continue;
                chosen[rank] = info[i];
                is_there[rank] = true;
        }
        for (uint32_t i = 0; i < NV_DEVICES; i++) {
                struct device *device = &library.device[library.n_devices];

                if (!is_there[i])
                        continue;
                *device = (struct device){ .info = chosen[i] };
                device->start.nv = &library.nv;
                device->start.minor = chosen[i].minor;
                device->start.gpu_id = chosen[i].gpu_id;
                if (start_device(&device->start) == RM_STATUS_OK)
                        library.n_devices++;
        }
        return library.n_devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult CUDAAPI cuInit(unsigned int flags)
{
        LOCKED_LIBRARY;
        struct start_process process = { 0 };
        CUresult r;

        if (flags)
                return CUDA_ERROR_INVALID_VALUE;
        if (library.was_forked)
                return CUDA_ERROR_NOT_INITIALIZED;
        if (library.is_ready)
                return CUDA_SUCCESS;

        r = nv_init(&library.nv, 0x5c000000, 1) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
        if (r == CUDA_SUCCESS && start_process(&library.nv, &process) != RM_STATUS_OK)
                r = CUDA_ERROR_NO_DEVICE;
        if (r == CUDA_SUCCESS)
                r = devices_start(&process);
        if (r != CUDA_SUCCESS) {
                nv_done(&library.nv);
                return r;
        }
        library.is_ready = true;
        checkpoint_serve();
        (void)pthread_atfork(before_fork, after_fork, after_fork_child);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
        if (!version)
                return CUDA_ERROR_INVALID_VALUE;
        *version = CUDA_VERSION;
        return CUDA_SUCCESS;
}
