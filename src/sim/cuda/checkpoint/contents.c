/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/checkpoint/contents.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "sim/cuda/context/stream.h"
#include "sim/client/doorbell.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static int store = -1; /* contents of all memories, one after another; -1: nothing has left */

/* What was never written is not read either, and is zero again where it comes back. */
static int copy_written(int from, off_t from_at, int to, off_t to_at, off_t size)
{
        static char buffer[1 << 20];
        off_t at = from_at;

        for (;;) {
                off_t data = lseek(from, at, SEEK_DATA), end;

                if (data < 0 || data >= from_at + size)
                        return data < 0 && errno != ENXIO ? -errno : 0;
                end = lseek(from, data, SEEK_HOLE);
                if (end < 0)
                        return -errno;
                if (end > from_at + size)
                        end = from_at + size;
                for (at = data; at < end;) {
                        size_t most = (size_t)(end - at) < sizeof(buffer) ? (size_t)(end - at) : sizeof(buffer);
                        ssize_t n = pread(from, buffer, most, at);

                        if (n <= 0 || pwrite(to, buffer, (size_t)n, to_at + (at - from_at)) != n)
                                return -EIO;
                        at += n;
                }
        }
}

/* Of the memory's bytes in the simulator; or a negative errno. */
static int bytes_open(const struct memory *memory)
{
        uint64_t size = 0;
        _cleanup_(closep) int fd = sim_gpu_backing(library.nv.ctl, library.nv.client, memory->handle, &size);

        return fd < 0 ? fd : size < memory->size ? -EIO : TAKE_FD(fd);
}

static CUresult save_all(int to)
{
        off_t at = 0;

        for (const struct memory *memory = memories_first(); memory; memory = memory->next) {
                _cleanup_(closep) int fd = bytes_open(memory);

                if (fd < 0 || copy_written(fd, 0, to, at, (off_t)memory->size) < 0)
                        return CUDA_ERROR_OPERATING_SYSTEM;
                at += (off_t)memory->size;
        }
        return ftruncate(to, at) < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult load_all(int from)
{
        off_t at = 0;

        for (const struct memory *memory = memories_first(); memory; memory = memory->next) {
                _cleanup_(closep) int fd = bytes_open(memory);

                if (fd < 0 || copy_written(from, at, fd, 0, (off_t)memory->size) < 0)
                        return CUDA_ERROR_OPERATING_SYSTEM;
                at += (off_t)memory->size;
        }
        return CUDA_SUCCESS;
}

static bool is_movable(void)
{
        if (library.has_shared)
                return false;
        for (const struct mapping *mapping = mapping_after(NULL); mapping; mapping = mapping_after(mapping))
                if (mapping->views || mapping->memory->kind == MEMORY_MANAGED)
                        return false;
        return true;
}

static void leave(struct memory *memory)
{
        for (struct mapping *mapping = mapping_after(NULL); mapping; mapping = mapping_after(mapping))
                if (mapping->memory == memory)
                        mapping_leave(mapping);
        memory_leave(memory);
}

static CUresult come_back(struct memory *memory)
{
        CUresult r = memory_return(memory);

        if (r != CUDA_SUCCESS)
                return r;
        for (struct mapping *mapping = mapping_after(NULL); mapping && r == CUDA_SUCCESS;
             mapping = mapping_after(mapping))
                if (mapping->memory == memory)
                        r = mapping_return(mapping);
        if (r != CUDA_SUCCESS) /* what is not mapped is unmapped without effect */
                leave(memory);
        return r;
}

CUresult contents_leave(void)
{
        _cleanup_(closep) int to = memfd_create("sublet-sim-contents", MFD_CLOEXEC);
        CUresult r = CUDA_SUCCESS;

        if (to < 0)
                return CUDA_ERROR_OPERATING_SYSTEM;
        if (!is_movable())
                return CUDA_ERROR_NOT_SUPPORTED;
        for (CUcontext context = library.contexts; context && r == CUDA_SUCCESS; context = context->next)
                r = context_wait(context);
        if (r == CUDA_SUCCESS)
                r = save_all(to);
        if (r != CUDA_SUCCESS)
                return r;
        for (struct memory *memory = memories_first(); memory; memory = memory->next)
                leave(memory);
        store = TAKE_FD(to);
        return CUDA_SUCCESS;
}

CUresult contents_return(void)
{
        struct memory *memory = memories_first();
        CUresult r = CUDA_SUCCESS;

        while (memory && (r = come_back(memory)) == CUDA_SUCCESS)
                memory = memory->next;
        if (r == CUDA_SUCCESS)
                r = load_all(store);
        if (r != CUDA_SUCCESS) {
                for (struct memory *back = memories_first(); back != memory; back = back->next)
                        leave(back);
                return r;
        }
        closep(&store);
        return CUDA_SUCCESS;
}
