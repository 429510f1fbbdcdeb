/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/grant.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "lease/capabilities.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum {
        /* On all devices. Of one it has a part: gate/books/channel_parts.c. */
        GROUPS_MAX = 512,
        CHANNELS_MAX = 1536,
};

/* A device by its UUID or its PCI address. */
static int device_find(const char *text, const struct lease *lease, unsigned int *ret, struct err *err)
{
        unsigned int n = 0;

        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (device_name_fits(text, lease->devices[i].uuid, lease->devices[i].bus_id)) {
                        *ret = i;
                        n++;
                }
        if (n == 1)
                return 0;
        if (n)
                return err_say(err, -EINVAL, "'%s' is the beginning of %u devices' UUIDs", text, n);
        return err_say(err, -EINVAL,
                       "'%s' is no device here: a number, a UUID or a PCI address, as 'nvidia-smi -L' "
                       "and 'nvidia-smi -q' list them",
                       text);
}

static int device_parse(const char *text, const struct lease *lease, unsigned int *ret, struct err *err)
{
        uint64_t number;

        if (number_parse(text, &number) < 0)
                return device_find(text, lease, ret, err);
        if (number >= lease->n_devices)
                return lease->n_devices == 1 ?
                               err_say(err, -EINVAL, "there is no device %s: this machine has only device 0", text) :
                               err_say(err, -EINVAL, "there is no device %s: this machine has %u (0 to %u)", text,
                                       lease->n_devices, lease->n_devices - 1);
        *ret = (unsigned int)number;
        return 0;
}

static int select_gpus(const char *gpus, struct lease *lease, struct err *err)
{
        _cleanup_(freep) char *copy = gpus ? strdup(gpus) : NULL;
        bool is_all = !gpus || !strcmp(gpus, "all");
        char *rest = copy, *item;
        unsigned int device = 0;
        int r;

        for (unsigned int i = 0; i < lease->n_devices; i++)
                lease->devices[i].is_granted = is_all;
        if (is_all)
                return 0;
        if (!copy)
                return err_set(err, -ENOMEM, "--gpu");
        while ((item = strsep(&rest, ","))) {
                r = device_parse(item, lease, &device, err);
                if (r < 0)
                        return err_while(err, "--gpu %s", gpus);
                lease->devices[device].is_granted = true;
        }
        return 0;
}

static int set_quota(const char *text, struct lease_device *device, unsigned int index, struct err *err)
{
        char has[BYTES_TEXT], wrong[BYTES_WRONG];
        bytes size;
        int r = bytes_parse(text, device->total, &size);

        /* bytes_parse has one error for nothing and for more than any device could have. */
        if ((r == 0 && size > device->total) || (r == -ERANGE && strtod(text, NULL) >= 1))
                return err_say(err, -ERANGE, "%s is more than device %u has (%s)", text, index,
                               bytes_format(device->total, has));
        if (r < 0)
                return err_say(err, -EINVAL, "'%s': %s", text,
                               bytes_wrong(text, "not a size such as 8G, 512M or 25%", wrong));
        device->quota.size = size;
        return 0;
}

/* "16G" is for every device granted, "1=16G" for one. */
static int set_item(char *item, struct lease *lease, struct err *err)
{
        char *size = strchr(item, '=');
        unsigned int device = 0;
        int r;

        if (size) {
                *size++ = '\0';
                r = device_parse(item, lease, &device, err);
                if (r < 0)
                        return r;
                if (!lease->devices[device].is_granted)
                        return err_say(err, -EINVAL, "device %u is not among --gpu", device);
                return set_quota(size, &lease->devices[device], device, err);
        }
        for (unsigned int i = 0; i < lease->n_devices; i++) {
                if (!lease->devices[i].is_granted)
                        continue;
                r = set_quota(item, &lease->devices[i], i, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int set_memory(const char *memory, struct lease *lease, struct err *err)
{
        _cleanup_(freep) char *copy = memory ? strdup(memory) : NULL;
        char *rest = copy, *item;

        for (unsigned int i = 0; i < lease->n_devices; i++)
                lease->devices[i].quota.size = lease->devices[i].total;
        if (!memory)
                return 0;
        if (!copy)
                return err_set(err, -ENOMEM, "--mem");
        while ((item = strsep(&rest, ",")))
                if (set_item(item, lease, err) < 0)
                        return err_while(err, "--mem %s", memory);
        return 0;
}

static int set_host(const char *host, struct lease *lease, struct err *err)
{
        struct sysinfo info;
        char wrong[BYTES_WRONG];
        bytes whole, size;
        int r;

        if (sysinfo(&info) < 0)
                return err_set(err, -errno, "asking for the machine's memory");
        whole = (bytes)info.totalram * info.mem_unit;
        if (!host) {
                lease->host.size = whole;
                return 0;
        }
        r = bytes_parse(host, whole, &size);
        if (r < 0)
                return err_say(err, -EINVAL, "--host-mem %s: %s", host,
                               bytes_wrong(host, "not a size such as 8G, 512M or 25%", wrong));
        lease->host.size = size;
        return 0;
}

static int set_managed(const char *managed, struct lease *lease, struct err *err)
{
        static const char *const names[] = { "charge", "deny", "allow" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!managed || !strcmp(managed, names[i])) {
                        lease->managed = (enum lease_managed)i;
                        return 0;
                }
        return err_say(err, -EINVAL, "--managed=%s: charge, deny or allow", managed);
}

static int set_capabilities(const char *list, struct lease *lease, struct err *err)
{
        const char *wrong;

        if (capabilities_parse(list ? list : "", &lease->capabilities, &wrong) == 0)
                return 0;
        return err_say(err, -EINVAL,
                       "--capabilities %s: '%.*s' is none of compute, utility, video, graphics, profile and all", list,
                       (int)strcspn(wrong, ","), wrong);
}

/* Too much is for those to say who know how much there is. */
static int check_size(const char *text, const char *whole, const char *option, struct err *err)
{
        char wrong[BYTES_WRONG];
        bytes size;
        int r = bytes_parse(text, INT64_MAX, &size);

        if (r == -ERANGE && strchr(text, '%') && strtod(text, NULL) > 100)
                return err_say(err, -EINVAL, "--%s %s: '%s': at most 100%%", option, whole, text);
        if (r == 0 || (r == -ERANGE && strtod(text, NULL) >= 1))
                return 0;
        return err_say(err, -EINVAL, "--%s %s: '%s': %s", option, whole, text,
                       bytes_wrong(text, "not a size such as 8G, 512M or 25%", wrong));
}

int grant_check(const struct grant *grant, struct err *err)
{
        _cleanup_(freep) char *copy = grant->memory ? strdup(grant->memory) : NULL;
        struct lease nothing = { 0 };
        char *rest = copy, *item;
        int r = grant->host ? check_size(grant->host, grant->host, "host-mem", err) : 0;

        if (grant->memory && !copy)
                return err_set(err, -ENOMEM, "--mem");
        while (r == 0 && (item = strsep(&rest, ","))) {
                const char *size = strchr(item, '=');

                r = check_size(size ? size + 1 : item, grant->memory, "mem", err);
        }
        if (r == 0 && (r = set_managed(grant->managed, &nothing, err)) == 0)
                r = set_capabilities(grant->capabilities, &nothing, err);
        return r;
}

/* Whoever may use the device may take its memory without a driver call: mbind, move_pages. */
static int refuse_nodes(const struct lease *lease, struct err *err)
{
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].is_granted && lease->devices[i].is_node)
                        return err_say(
                                err, -EINVAL,
                                "the memory of device %u is a NUMA node of the host (Grace Hopper and its like), or "
                                "the "
                                "driver does not say that it is none: no quota holds there, so it is not leased; ask "
                                "for another one with --gpus",
                                i);
        return 0;
}

int grant_apply(const struct grant *grant, struct lease *lease, struct err *err)
{
        int r;

        if ((r = select_gpus(grant->gpus, lease, err)) < 0 || (r = refuse_nodes(lease, err)) < 0 ||
            (r = set_memory(grant->memory, lease, err)) < 0 || (r = set_host(grant->host, lease, err)) < 0 ||
            (r = set_managed(grant->managed, lease, err)) < 0 ||
            (r = set_capabilities(grant->capabilities, lease, err)) < 0)
                return r;
        lease->groups_max = GROUPS_MAX;
        lease->channels_max = CHANNELS_MAX;
        return 0;
}
