/* SPDX-License-Identifier: Apache-2.0 */
/* Files, the machine as a whole, and its faults. */
#include "sim/server/machine.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RAMP (130 * NSEC_PER_USEC) /* runlist.h R5: 0.215 ms less the 0.085 of a switch */

/* ---- files --------------------------------------------------------------------------------- */

int machine_file_new(struct machine *machine, enum rm_node node, uint32_t minor, int fd, struct file **ret)
{
        struct file *file = calloc(1, sizeof(*file));

        if (!file)
                return -ENOMEM;
        *file = (struct file){ .machine = machine, .node = node, .minor = minor, .fd = fd, .refs = 1 };
        *ret = file;
        return 0;
}

/* The last close. */
void file_unref(struct file *file)
{
        if (!file || --file->refs)
                return;
        while (file->clients) {
                struct client *client = file->clients;

                file->clients = client->next;
                handles_client_free(&file->machine->handles, client);
        }
        listens_drop(file->machine, file, 0);
        file->space = space_free(file->space);
        mem_unref(file->mapping);
        exports_free(file->exports);
        if (file->cookie)
                (void)map_take(&file->machine->files, file->cookie);
        file_unref(file->ctl);
        free(file);
}

void machine_hang_up(struct file *file)
{
        if (file->fd >= 0)
                close(file->fd);
        file->fd = -1;
        file_unref(file);
}

void file_event(struct file *file, uint32_t info)
{
        file->event_info = info;
        if (file->has_event || file->fd < 0)
                return;
        file->has_event = send(file->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* ---- the machine --------------------------------------------------------------------------- */

int machine_init(struct machine *machine, const struct machine_options *options, nsec now)
{
        struct rm_version version;

        *machine = (struct machine){ .options = *options, .now = now };
        if (rm_version_parse(options->release, &version) < 0)
                return -EINVAL;
        if (rm_layout_for(version, &machine->layout) != RM_OK &&
            (rm_version_parse(MACHINE_RELEASE, &version) < 0 || rm_layout_for(version, &machine->layout) != RM_OK))
                return -EINVAL;
        handles_init(&machine->handles, object_gone, machine);
        for (unsigned int i = 0; i < options->n_gpus; i++)
                gpu_init(&machine->gpus[i], machine, i);
        return 0;
}

void machine_done(struct machine *machine)
{
        machine->now = RUN_NEVER; /* nothing is late any more */
        (void)answer_late(machine);
        channel_switches_done(machine);
        handles_done(&machine->handles);
        meetings_done(machine);
        for (unsigned int i = 0; i < machine->options.n_gpus; i++)
                records_done(&machine->gpus[i]);
        map_done(&machine->files);
        map_done(&machine->listens);
}

nsec machine_advance(struct machine *machine)
{
        nsec next = meetings_advance(machine), due = channel_switches_advance(machine);

        next = due < next ? due : next;

        for (unsigned int i = 0; i < machine->options.n_gpus; i++) {
                due = copies_advance(&machine->gpus[i]);
                next = due < next ? due : next;
                due = gpu_advance(&machine->gpus[i]);
                next = due < next ? due : next;
        }
        due = answer_late(machine);
        next = due < next ? due : next;
        if (machine->faults.lost_gpu_after && machine->faults.lost_gpu_after <= (uint64_t)machine->now) {
                machine->faults.lost_gpu_after = 0;
                gpu_lose(&machine->gpus[0]);
        }
        due = machine->faults.lost_gpu_after ? (nsec)machine->faults.lost_gpu_after : RUN_NEVER;
        return due < next ? due : next;
}

static void fault_apply(struct machine *machine, const struct faults *faults, enum fault fault, uint64_t value)
{
        switch (fault) {
        case FAULT_lost_gpu:
                gpu_lose(&machine->gpus[value]);
                return;
        case FAULT_lost_gpu_after: /* kept as a point in time */
                machine->faults.lost_gpu_after = (uint64_t)machine->now + value * (uint64_t)NSEC_PER_MSEC;
                return;
        case FAULT_xid:
                gpu_xid(&machine->gpus[0], (unsigned int)value);
                return;
        case FAULT_stuck:
                machine->gpus[0].engines[0].is_stuck = value;
                return;
        case FAULT_switch_cost:
                for (unsigned int i = 0; i < machine->options.n_gpus; i++)
                        gpu_switch_cost(&machine->gpus[i], (nsec)value * NSEC_PER_USEC);
                return;
        case FAULT_next_client:
                machine->handles.n_made = (uint32_t)value - 1;
                return;
        case FAULT_real_time:
                for (unsigned int i = 0; i < machine->options.n_gpus; i++)
                        gpu_ramp(&machine->gpus[i], value ? RAMP : 0);
                break;
        case FAULT_records_ring:
        case FAULT_slow_control:
        case FAULT_oom_at:
        case FAULT_no_size:
        case FAULT_numa_node:
        case FAULT_own_group:
        case FAULT_own_channel:
        case FAULT_channel_ids:
        case FAULT_own_space:
        case FAULT_own_client:
        case FAULT_copy_fault_at:
        case FAULT_map_refused_at:
        case FAULT_unmap_refused_at:
        case FAULT_free_refused_at:
        case FAULT_enable_lost_at:
        case FAULT_migrate_refused_at:
        case FAULT_pin_refused_at:
                break;
        }
        machine->faults = *faults;
}

int machine_fault(struct machine *machine, const char *text)
{
        struct faults faults;
        enum fault fault;
        uint64_t value;
        int r;

        (void)machine_advance(machine);
        faults = machine->faults;
        r = fault_parse(text, &faults, &fault, &value);
        if (r < 0)
                return r;
        if (fault == FAULT_lost_gpu && value >= machine->options.n_gpus)
                return -EINVAL;
        fault_apply(machine, &faults, fault, value);
        return 0;
}

void machine_log(struct machine *machine, const char *format, ...)
{
        _cleanup_(closep) int fd = -1;
        char path[256];
        va_list list;

        if (!machine->options.directory)
                return;
        (void)snprintf(path, sizeof(path), "%s/log", machine->options.directory);
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0)
                return;
        va_start(list, format);
        (void)vdprintf(fd, format, list);
        va_end(list);
}
