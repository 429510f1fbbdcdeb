/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/mig.h"

#include "base/err.h"
#include "daemon/state/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void mig_scan(struct daemon *daemon)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                struct device *device = &daemon->devices[i];

                if (device->info.can_mig)
                        (void)gpu_instances(device->info.uuid, &device->info.has_mig, device->instances,
                                            &device->n_instances);
        }
}

int mig_avoid(const struct daemon *daemon, struct lease *lease, bool is_named, struct err *err)
{
        unsigned int n = 0;
        int cut = -1;

        for (unsigned int i = 0; i < lease->n_devices; i++) {
                if (!lease->devices[i].is_granted)
                        continue;
                if (daemon->devices[i].info.has_mig) {
                        cut = (int)i;
                        lease->devices[i].is_granted = false;
                } else
                        n++;
        }
        if (cut < 0 || (n && !is_named))
                return 0;
        return err_say(
                err, -EINVAL,
                "device %d is in MIG mode, where a program without an instance finds nothing: ask for --mode mig, "
                "or name other devices (--gpu)",
                cut);
}

static bool is_taken(const struct daemon *daemon, unsigned int device, const struct gpu_instance *instance)
{
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                if (tenant_has(t, device) && message_lease_is_mig(&t->lease) && t->lease.mig.gpu == instance->gpu)
                        return true;
        return false;
}

/* "10 GiB on device 0, ...": the free ones. Returns how many instances there are. */
static unsigned int list_free(const struct daemon *daemon, const struct message_lease *lease, char *ret, size_t size)
{
        unsigned int n = 0;
        size_t at = 0;

        *ret = '\0';
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                const struct device *device = &daemon->devices[i];

                for (unsigned int k = 0; lease->devices[i].is_granted && k < device->n_instances; k++) {
                        char memory[BYTES_TEXT];

                        n++;
                        if (at < size && !is_taken(daemon, i, &device->instances[k]))
                                at += (size_t)snprintf(ret + at, size - at, "%s%s on device %u", at ? ", " : "",
                                                       bytes_format(device->instances[k].memory, memory), i);
                }
        }
        return n;
}

static int mig_refuse(const struct daemon *daemon, const struct message_lease *lease, struct err *err)
{
        char free[200];

        if (!list_free(daemon, lease, free, sizeof(free)))
                return err_say(err, -ENOSPC,
                               "no MIG instance is there: 'nvidia-smi mig' makes them, Sublet does not; or ask for "
                               "another --mode or --gpu");
        if (!*free)
                return err_say(err, -ENOSPC, "all MIG instances are taken: end a tenant ('sublet ps'), or wait");
        return err_say(err, -ENOSPC, "no free MIG instance is that large; free are: %s; ask for less --mem", free);
}

static void take_instance(struct message_lease *lease, unsigned int device, const struct gpu_instance *instance,
                          bool has_size)
{
        bytes quota = has_size ? lease->devices[device].quota : instance->memory;

        memset(lease->devices, 0, sizeof(lease->devices));
        lease->devices[device].is_granted = true;
        lease->devices[device].quota = quota;
        memcpy(lease->mig.uuid, instance->uuid, sizeof(lease->mig.uuid));
        lease->mig.gpu = instance->gpu;
        lease->mig.compute = instance->compute;
        lease->mig.memory = instance->memory;
}

int mig_choose(const struct daemon *daemon, struct message_lease *lease, bool has_size, struct err *err)
{
        const struct gpu_instance *best = NULL;
        unsigned int where = 0;

        if (lease->share || lease->cap < TURNS_WHOLE || lease->class != TURNS_NORMAL)
                return err_say(err, -EINVAL,
                               "--share, --cap and --class are for tenants that share multiprocessors; a MIG instance "
                               "has its own: leave them out");
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                const struct device *device = &daemon->devices[i];

                for (unsigned int k = 0; lease->devices[i].is_granted && k < device->n_instances; k++) {
                        const struct gpu_instance *one = &device->instances[k];

                        if (is_taken(daemon, i, one) || (has_size && one->memory < lease->devices[i].quota) ||
                            (best && best->memory <= one->memory))
                                continue;
                        best = one;
                        where = i;
                }
        }
        if (!best)
                return mig_refuse(daemon, lease, err);
        take_instance(lease, where, best, has_size);
        return 0;
}

void mig_environment(const struct message_lease *lease, json_t *env)
{
        (void)json_object_set_new(env, "CUDA_VISIBLE_DEVICES", json_string(lease->mig.uuid));
        (void)json_object_set_new(env, "NVIDIA_VISIBLE_DEVICES", json_string(lease->mig.uuid));
}
