/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests. A message is parsed, its call decoded with the layout of the simulated release, the client
 * that it names validated (the driver's strict rule: the file that the client was made through, or a
 * device file registered to that). Then one handler writes the result into the message's own buffers,
 * which become the answer.
 */
#include "sim/server/machine.h"

#include "rm/numbers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MEMORY_BLOCK (1 * GIB) /* the unit of memory hotplug */

enum {
        DEVICE_INFO_SIZE = 72, /* NVIDIA: nv_ioctl_card_info_t */
        STATUS_GENERIC = 0xffff,
        EVENT_INFO_AT = 8, /* NvUnixEvent: hObject@0 NotifyIndex@4 info32@8 info16@12 */
};

/* ---- files ----------------------------------------------------------------------------------- */

static int file_open(struct machine *machine, struct request *request)
{
        struct file *file = request->file;
        int r;

        if (file->cookie || !request->cookie)
                return -EINVAL;
        if (file->node == RM_NODE_DEVICE && machine->gpus[file->minor].is_lost)
                return -EIO;
        r = map_put(&machine->files, request->cookie, file);
        if (r < 0)
                return r == -EEXIST ? -EINVAL : r;
        file->cookie = request->cookie;
        return 0;
}

static int file_register(struct request *request)
{
        struct file *ctl = request->named;

        if (request->file->node != RM_NODE_DEVICE || !ctl || ctl->node != RM_NODE_CTL)
                return -EINVAL;
        if (request->file->ctl)
                return request->file->ctl == ctl ? 0 : -EINVAL;
        request->file->ctl = ctl;
        ctl->refs++;
        return 0;
}

/* ---- the calls that are not about objects -------------------------------------------------- */

static void device_info_put(const struct gpu *gpu, unsigned char *at)
{
        at[0] = 1;                                       /* valid */
        at[8] = (unsigned char)(gpu->id >> 8);           /* bus */
        rm_put32(at, DEVICE_INFO_SIZE, 12, 0x233510deu); /* device and vendor: H200 */
        rm_put32(at, DEVICE_INFO_SIZE, 16, gpu->id);
        rm_put64(at, DEVICE_INFO_SIZE, 24, 0x22042000000u + ((uint64_t)gpu->index << 24));
        rm_put64(at, DEVICE_INFO_SIZE, 32, 16 * MIB); /* registers */
        rm_put64(at, DEVICE_INFO_SIZE, 40, 0x20000000000u + ((uint64_t)gpu->index << 38));
        rm_put64(at, DEVICE_INFO_SIZE, 48, 256 * GIB); /* BAR1 */
        rm_put32(at, DEVICE_INFO_SIZE, 56, gpu->index);
}

static int card_info(struct machine *machine, struct request *request)
{
        size_t n = request->block.size / DEVICE_INFO_SIZE;

        if (request->block.size % DEVICE_INFO_SIZE || n < machine->options.n_gpus)
                return -EINVAL;
        memset(request->block.data, 0, request->block.size);
        for (unsigned int i = 0; i < machine->options.n_gpus; i++)
                device_info_put(&machine->gpus[i], request->block.data + i * DEVICE_INFO_SIZE);
        return 0;
}

/* Commands: 0 strict, '1' relaxed, '2' query. */
static int check_version(struct machine *machine, struct request *request)
{
        char text[64] = { 0 }, *theirs = (char *)request->block.data + 8;
        uint32_t command = rm_get32(request->block.data, request->block.size, 0);
        bool is_same;

        (void)snprintf(text, sizeof(text), "%s", machine->options.release);
        is_same = strncmp(theirs, text, sizeof(text)) == 0;
        memcpy(theirs, text, sizeof(text));
        rm_put32(request->block.data, request->block.size, 4, is_same || command == '2');
        return is_same || command == '2' ? 0 : -EINVAL;
}

static uint32_t event_fetch(struct request *request)
{
        if (!request->file->has_event)
                return STATUS_GENERIC;
        request->file->has_event = false;
        rm_put32(request->block.data, request->block.size, 8, 0); /* no more */
        if (request->segments[0].size) {
                memset(request->segments[0].data, 0, request->segments[0].size);
                rm_put32(request->segments[0].data, request->segments[0].size, EVENT_INFO_AT,
                         request->file->event_info);
                request->segments[0].is_returned = true;
        }
        return RM_STATUS_OK;
}

/* ---- ioctl --------------------------------------------------------------------------------- */

static struct client *client_of(struct machine *machine, const struct file *file, uint32_t handle)
{
        struct client *client = handles_client(&machine->handles, handle);

        return client && (client->file == file || (file->ctl && client->file == file->ctl)) ? client : NULL;
}

/* Of a call on objects: the status. */
static uint32_t call_objects(struct machine *machine, struct request *request)
{
        switch (request->call.kind) {
        case RM_ALLOC_MEMORY:
                return alloc_old_memory(machine, request);
        case RM_ALLOC_CONTEXT_DMA:
                return alloc_old_dma(request);
        case RM_ALLOC:
        case RM_ALLOC_SHORT:
                return alloc_object(machine, request);
        case RM_FREE:
                return alloc_free(machine, request);
        case RM_CONTROL:
                return control_call(machine, request);
        case RM_DUP:
                return alloc_dup(machine, request);
        case RM_SHARE:
                return alloc_share(machine, request);
        case RM_VID_HEAP:
                return mem_heap(machine, request);
        case RM_MAP_MEMORY:
                return mem_map(request);
        case RM_MAP_DMA:
                return taken_map_dma(request);
        case RM_UNMAP_DMA:
                space_unmap(request);
                return RM_STATUS_OK;
        case RM_IDLE_CHANNELS: /* nothing is kept waiting */
        case RM_UNMAP_MEMORY:
        case RM_UPDATE_MAPPING:
                return RM_STATUS_OK;
        default:
                return RM_STATUS_NOT_SUPPORTED;
        }
}

/* A new root is made by a call that names no client yet. */
static bool makes_client(const struct rm_call *call)
{
        return (call->kind == RM_ALLOC || call->kind == RM_ALLOC_SHORT) &&
               (call->class_or_cmd == RM_CLASS_ROOT || call->class_or_cmd == RM_CLASS_ROOT_NON_PRIV ||
                call->class_or_cmd == RM_CLASS_CLIENT);
}

static int ioctl_rm(struct machine *machine, struct request *request)
{
        uint32_t status;

        switch (request->call.kind) {
        case RM_CARD_INFO:
                return card_info(machine, request);
        case RM_REGISTER_FD:
                return file_register(request);
        case RM_CHECK_VERSION:
                return check_version(machine, request);
        case RM_SYS_PARAMS:
                rm_put64(request->block.data, request->block.size, 0, MEMORY_BLOCK);
                return 0;
        case RM_NUMA_INFO:
                memset(request->block.data, 0, request->block.size);
                rm_put32(request->block.data, request->block.size, 0, machine->faults.numa_node ? 2 : UINT32_MAX);
                rm_put32(request->block.data, request->block.size, 4, machine->faults.numa_node ? 3 : 0); /* online */
                rm_put64(request->block.data, request->block.size, 8, MEMORY_BLOCK);
                return 0;
        case RM_WAIT_OPEN:
                memset(request->block.data, 0, request->block.size);
                return 0;
        case RM_EVENT_DATA:
                status = event_fetch(request);
                break;
        case RM_ALLOC_EVENT: /* the client may be anybody's, or nobody */
                status = listens_begin(machine, request);
                break;
        case RM_FREE_EVENT:
                status = listens_end(machine, request);
                break;
        case RM_XFER:
                return -EINVAL; /* one level only, which the client has resolved */
        default:
                request->client = client_of(machine, request->file, request->call.client);
                status = request->client || makes_client(&request->call) ? call_objects(machine, request) :
                                                                           RM_STATUS_INVALID_CLIENT;
                break;
        }
        rm_put32(request->block.data, request->block.size, request->call.status_at, status);
        return 0;
}

static int ioctl_any(struct machine *machine, struct request *request)
{
        enum rm_kind kind;
        uint32_t size;

        if (rm_request_find(&machine->layout, request->file->node, request->header.request, &kind, &size) != RM_OK ||
            size != request->block.size ||
            rm_decode(&machine->layout, kind, request->header.request, request->block.data, size, &request->call) !=
                    RM_OK)
                return -EINVAL;
        request->block.is_returned = true;
        return request->file->node == RM_NODE_UVM ? uvm_ioctl(machine, request) : ioctl_rm(machine, request);
}

/* ---- mmap ---------------------------------------------------------------------------------- */

static int mmap_any(struct machine *machine, struct request *request)
{
        struct file *file = request->file;
        uint64_t length = request->header.argument[1], offset = request->header.argument[4];
        int fd;

        if (file->node == RM_NODE_UVM)
                return uvm_mmap(machine, request);
        if (!file->mapping || length > file->mapping_length || offset > file->mapping_length - length)
                return -EINVAL;
        fd = mem_fd(file->mapping);
        if (fd < 0)
                return fd;
        request->fd = fd;
        request->argument[0] = file->mapping_offset + offset;
        return 0;
}

/* ---- messages ------------------------------------------------------------------------------ */

static int request_parse(struct request *request, unsigned char *data, size_t size)
{
        size_t at = sizeof(request->header);

        if (size < sizeof(request->header))
                return -EINVAL;
        memcpy(&request->header, data, sizeof(request->header));
        if (request->header.n_segments > SIM_SEGMENTS_MAX || request->header.block_size > size - at)
                goto malformed;
        request->block = (struct part){ data + at, request->header.block_size, false };
        at += request->header.block_size;
        for (size_t i = 0; i < request->header.n_segments; i++) {
                if (request->header.segment_size[i] > size - at)
                        goto malformed;
                request->segments[i] = (struct part){ data + at, request->header.segment_size[i], false };
                at += request->header.segment_size[i];
        }
        if (at == size)
                return 0;
malformed:
        request->header.n_segments = 0;
        return -EINVAL;
}

static int request_dispatch(struct machine *machine, struct request *request)
{
        if (request->header.op == SIM_OP_OPEN)
                return file_open(machine, request);
        if (!request->file->cookie)
                return -EINVAL;
        switch (request->header.op) {
        case SIM_OP_IOCTL:
                return ioctl_any(machine, request);
        case SIM_OP_MMAP:
                return mmap_any(machine, request);
        case SIM_OP_MUNMAP:
                return uvm_munmap(machine, request);
        case SIM_OP_GPU:
                gpu_message(machine, request);
                return request->result;
        default:
                return -EINVAL;
        }
}

void machine_message(struct file *file, unsigned char *data, size_t size, struct ucred sender, uint64_t named,
                     int reply)
{
        struct machine *machine = file->machine;
        struct request request = { .file = file, .cookie = named, .sender = sender, .reply = reply, .fd = -1 };

        (void)machine_advance(machine);
        request.named = named ? map_get(&machine->files, named) : NULL;
        request.result = request_parse(&request, data, size);
        if (!request.result)
                request.result = request_dispatch(machine, &request);
        answer_send(&request);
}
