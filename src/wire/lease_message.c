/* SPDX-License-Identifier: Apache-2.0 */
/* A request for a lease, and a lease, as JSON. Input is checked field by field: a text that does not fit or a number
 * out of range is refused, never truncated. */
#include "wire/messages.h"

#include "base/cleanup.h"
#include "gate/policy/own_table.h"
#include "lease/capabilities.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const enforcement_names[] = { "gate", "attached", "preload" };
static const char *const managed_names[] = { "charge", "deny", "allow" };

const char *enforcement_name(enum enforcement enforcement)
{
        return enforcement_names[enforcement];
}

int enforcement_parse(const char *text, enum enforcement *ret)
{
        for (size_t i = 0; i < ARRAY_SIZE(enforcement_names); i++)
                if (!strcmp(text, enforcement_names[i])) {
                        *ret = (enum enforcement)i;
                        return 0;
                }
        return -EINVAL;
}

/* Peers older than enforcement modes send none. */
static bool copy_enforcement(const json_t *body, enum enforcement *ret)
{
        return enforcement_parse(message_text(body, "plane", "gate"), ret) == 0;
}

/* Empty if it is absent or null. */
static bool copy_text(const json_t *body, const char *name, char *ret, size_t room)
{
        const char *text = message_text(body, name, "");

        if (strlen(text) >= room)
                return false;
        (void)snprintf(ret, room, "%s", text);
        return true;
}

static bool copy_permille(const json_t *body, const char *name, permille otherwise, permille *ret)
{
        int64_t value = message_number(body, name, otherwise);

        *ret = (permille)value;
        return value >= 0 && value <= TURNS_WHOLE;
}

static bool copy_class(const json_t *body, enum turns_class *ret)
{
        return turns_class_parse(message_text(body, "class", "normal"), ret) == 0;
}

/* In microseconds; peers older than goals send none. */
static bool copy_goal(const json_t *body, nsec *ret)
{
        int64_t value = message_number(body, "latency_us", 0);

        *ret = value > 0 && value <= TURNS_GOAL_MOST / NSEC_PER_USEC ? value * NSEC_PER_USEC : 0;
        return *ret || !value;
}

/* Likewise. */
static bool copy_sleep(const json_t *body, nsec *ret)
{
        int64_t value = message_number(body, "sleep_after_us", 0);

        *ret = value >= MESSAGE_SLEEP_LEAST / NSEC_PER_USEC && value <= MESSAGE_SLEEP_MOST / NSEC_PER_USEC ?
                       value * NSEC_PER_USEC :
                       0;
        return *ret || !value;
}

/* Peers that know of no bound send none. */
static bool copy_host_swap(const json_t *body, bytes *ret)
{
        int64_t value = message_number(body, "host_swap_bytes", 0);

        *ret = value > 0 ? (bytes)value : 0;
        return value >= 0;
}

/* A period of an hour is as good as none. */
static bool copy_audit(const json_t *body, uint64_t *ret)
{
        int64_t value = message_number(body, "audit_ms", 0);

        *ret = (uint64_t)value;
        return value >= 0 && value <= 3600000;
}

static void put_text(json_t *body, const char *name, const char *text)
{
        (void)json_object_set_new(body, name, *text ? json_string(text) : json_null());
}

json_t *message_request_new(const struct message_request *request)
{
        json_t *body = message_new("lease");

        if (!body)
                return NULL;
        put_text(body, "tenant", request->tenant);
        put_text(body, "gpus", request->gpus);
        put_text(body, "mem", request->mem);
        put_text(body, "host_mem", request->host);
        put_text(body, "managed", request->managed);
        put_text(body, "capabilities", request->capabilities);
        put_text(body, "mode", request->mode);
        put_text(body, "job", request->job);
        put_text(body, "group", request->group);
        put_text(body, "labels", request->labels);
        put_text(body, "command", request->command);
        put_text(body, "attach", request->attach);
        put_text(body, "sms", request->sms);
        put_text(body, "place", request->directory);
        put_text(body, "machine", request->machine);
        (void)json_object_set_new(body, "plane", json_string(enforcement_name(request->enforcement)));
        (void)json_object_set_new(body, "named", json_boolean(request->is_named));
        (void)json_object_set_new(body, "share", json_integer(request->share));
        (void)json_object_set_new(body, "cap", json_integer(request->cap));
        (void)json_object_set_new(body, "class", json_string(turns_class_name(request->class)));
        (void)json_object_set_new(body, "latency_us", json_integer(request->goal / NSEC_PER_USEC));
        (void)json_object_set_new(body, "sleep_after_us", json_integer(request->sleep_after / NSEC_PER_USEC));
        (void)json_object_set_new(body, "swap", json_boolean(request->swap));
        (void)json_object_set_new(body, "host_swap_bytes", json_integer((json_int_t)request->host_swap));
        (void)json_object_set_new(body, "ipc_host", json_boolean(request->ipc_host));
        (void)json_object_set_new(body, "audit_ms", json_integer((json_int_t)request->audit_ms));
        return body;
}

/* NULL: all fields are fine. */
static const char *request_fields(const json_t *body, struct message_request *to)
{
        const struct {
                const char *name;
                char *text;
                size_t room;
        } texts[] = {
                { "tenant", to->tenant, sizeof(to->tenant) },
                { "gpus", to->gpus, sizeof(to->gpus) },
                { "mem", to->mem, sizeof(to->mem) },
                { "host_mem", to->host, sizeof(to->host) },
                { "managed", to->managed, sizeof(to->managed) },
                { "capabilities", to->capabilities, sizeof(to->capabilities) },
                { "mode", to->mode, sizeof(to->mode) },
                { "job", to->job, sizeof(to->job) },
                { "group", to->group, sizeof(to->group) },
                { "labels", to->labels, sizeof(to->labels) },
                { "command", to->command, sizeof(to->command) },
                { "attach", to->attach, sizeof(to->attach) },
                { "sms", to->sms, sizeof(to->sms) },
                { "place", to->directory, sizeof(to->directory) },
                { "machine", to->machine, sizeof(to->machine) },
        };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                if (!copy_text(body, texts[i].name, texts[i].text, texts[i].room))
                        return texts[i].name;
        if (!labels_are_good(to->labels))
                return "labels";
        if (!copy_permille(body, "share", 0, &to->share))
                return "share";
        if (!copy_permille(body, "cap", TURNS_WHOLE, &to->cap) || !to->cap)
                return "cap";
        if (!copy_class(body, &to->class))
                return "class";
        if (!copy_goal(body, &to->goal))
                return "latency_us";
        if (!copy_sleep(body, &to->sleep_after))
                return "sleep_after_us";
        if (!copy_host_swap(body, &to->host_swap))
                return "host_swap_bytes";
        if (!copy_enforcement(body, &to->enforcement))
                return "plane";
        return copy_audit(body, &to->audit_ms) ? NULL : "audit_ms";
}

int message_request_parse(const json_t *body, struct message_request *ret, const char **ret_field)
{
        struct message_request request = {
                .is_named = message_flag(body, "named", true),
                .swap = message_flag(body, "swap", false),
                .ipc_host = message_flag(body, "ipc_host", false),
        };
        const char *wrong = request_fields(body, &request);

        if (wrong) {
                *ret_field = wrong;
                return -EINVAL;
        }
        *ret = request;
        return 0;
}

void message_lease_fill(const struct lease *lease, struct message_lease *ret)
{
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++) {
                ret->devices[i].is_granted = i < lease->n_devices && lease->devices[i].is_granted;
                ret->devices[i].quota = ret->devices[i].is_granted ? (bytes)lease->devices[i].quota.size : 0;
                ret->devices[i].own = lease->devices[i].own;
        }
        ret->host = lease->host.size;
        ret->managed = lease->managed;
        ret->capabilities = lease->capabilities;
        ret->groups_max = lease->groups_max;
        ret->channels_max = lease->channels_max;
}

int message_lease_apply(const struct message_lease *from, struct lease *lease)
{
        (void)snprintf(lease->tenant, sizeof(lease->tenant), "%s", from->tenant);
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++) {
                if (from->devices[i].is_granted && i >= lease->n_devices)
                        return -ENODEV;
                lease->devices[i].is_granted = from->devices[i].is_granted;
                lease->devices[i].quota.size = from->devices[i].quota;
                lease->devices[i].own = from->devices[i].own;
                lease->devices[i].mig.is_one = from->devices[i].is_granted && from->mig.uuid[0];
                lease->devices[i].mig.gpu = from->mig.gpu;
                lease->devices[i].mig.compute = from->mig.compute;
        }
        lease->host.size = from->host;
        lease->managed = from->managed;
        lease->capabilities = from->capabilities;
        lease->groups_max = from->groups_max;
        lease->channels_max = from->channels_max;
        return 0;
}

/* Only what is known: of the rest the largest known counts. */
static json_t *own_new(const struct lease_own *own)
{
        json_t *body = json_object();

        for (enum own_kind kind = 0; body && kind < OWN_KINDS; kind++)
                if (own->of[kind].is_known)
                        (void)json_object_set_new(body, own_name(kind), json_integer((json_int_t)own->of[kind].size));
        return body;
}

static json_t *devices_new(const struct message_lease *lease)
{
        json_t *devices = json_array();

        for (unsigned int i = 0; devices && i < LEASE_DEVICES_MAX; i++)
                if (lease->devices[i].is_granted)
                        (void)json_array_append_new(devices,
                                                    json_pack("{s:i, s:I, s:o}", "index", (int)i, "quota_bytes",
                                                              (json_int_t)lease->devices[i].quota, "own_bytes",
                                                              own_new(&lease->devices[i].own)));
        return devices;
}

static json_t *mig_new(const struct message_lease *lease)
{
        if (!lease->mig.uuid[0])
                return json_null();
        return json_pack("{s:s, s:I, s:I, s:I}", "uuid", lease->mig.uuid, "gpu", (json_int_t)lease->mig.gpu, "compute",
                         (json_int_t)lease->mig.compute, "bytes", (json_int_t)lease->mig.memory);
}

json_t *message_container_new(const struct message_container *container)
{
        if (!container->id[0])
                return json_null();
        return json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", container->id, "pod", container->pod, "namespace",
                         container->namespace, "name", container->name, "container", container->container);
}

json_t *message_lease_new(const struct message_lease *lease)
{
        char capabilities[CAPABILITIES_TEXT_MAX];
        json_t *devices = devices_new(lease);

        if (!devices)
                return NULL;
        return json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:s, s:b, s:I, s:o, s:I, s:s, s:I, s:I, s:o, s:o, "
                         "s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:b, s:I, s:s, s:I}",
                         "id", (json_int_t)lease->id, "tenant", lease->tenant, "command", lease->command, "mode",
                         lease->mode, "owner", (json_int_t)lease->owner, "since", (json_int_t)lease->since, "share",
                         (int)lease->share, "cap", (int)lease->cap, "class", turns_class_name(lease->class), "ipc_host",
                         lease->ipc_host, "audit_ms", (json_int_t)lease->audit_ms, "devices", devices, "host_bytes",
                         (json_int_t)lease->host, "managed", managed_names[lease->managed], "groups_max",
                         (json_int_t)lease->groups_max, "channels_max", (json_int_t)lease->channels_max, "mig",
                         mig_new(lease), "container", message_container_new(&lease->container), "plane",
                         enforcement_name(lease->enforcement), "place", lease->directory, "sms", lease->sms, "job",
                         lease->job, "capabilities", capabilities_format(lease->capabilities, capabilities), "labels",
                         labels_new(lease->labels), "latency_us", (json_int_t)(lease->goal / NSEC_PER_USEC),
                         "sleep_after_us", (json_int_t)(lease->sleep_after / NSEC_PER_USEC), "swap", (int)lease->swap,
                         "host_swap_bytes", (json_int_t)lease->host_swap, "group", lease->group, "team",
                         (json_int_t)lease->team);
}

/* Absent: not known. */
static bool copy_own(const json_t *body, struct lease_own *to)
{
        for (enum own_kind kind = 0; kind < OWN_KINDS; kind++) {
                int64_t size = message_number(body, own_name(kind), 0);

                if (size < 0 || size > (int64_t)OWN_KIB_MAX * (int64_t)KIB)
                        return false;
                to->of[kind].is_known = json_is_integer(json_object_get(body, own_name(kind)));
                to->of[kind].size = (bytes)size;
        }
        return true;
}

static bool copy_devices(const json_t *devices, struct message_lease *to)
{
        json_t *device;
        size_t i;

        json_array_foreach (devices, i, device) {
                int64_t index = message_number(device, "index", -1), quota = message_number(device, "quota_bytes", -1);

                if (index < 0 || index >= LEASE_DEVICES_MAX || quota < 0 ||
                    !copy_own(json_object_get(device, "own_bytes"), &to->devices[index].own))
                        return false;
                to->devices[index].is_granted = true;
                to->devices[index].quota = (bytes)quota;
        }
        return json_is_array(devices);
}

static bool copy_managed(const json_t *body, enum lease_managed *ret)
{
        const char *text = message_text(body, "managed", "charge");

        for (size_t i = 0; i < ARRAY_SIZE(managed_names); i++)
                if (!strcmp(text, managed_names[i])) {
                        *ret = (enum lease_managed)i;
                        return true;
                }
        return false;
}

/* Absent: a lease of an older daemon. */
static bool copy_capabilities(const json_t *body, unsigned int *ret)
{
        const char *wrong;

        return capabilities_parse(message_text(body, "capabilities", ""), ret, &wrong) == 0;
}

static bool copy_u32(const json_t *body, const char *name, uint32_t *ret)
{
        int64_t value = message_number(body, name, -1);

        *ret = (uint32_t)value;
        return value >= 0 && value <= UINT32_MAX;
}

static bool copy_limits(const json_t *body, struct message_lease *to)
{
        int64_t host = message_number(body, "host_bytes", -1);

        to->host = (bytes)host;
        return host >= 0 && copy_managed(body, &to->managed) && copy_capabilities(body, &to->capabilities) &&
               copy_u32(body, "groups_max", &to->groups_max) && copy_u32(body, "channels_max", &to->channels_max) &&
               copy_u32(body, "owner", &to->owner);
}

/* A lease of a group without its number would be one of nobody's server. */
static bool copy_group(const json_t *body, struct message_lease *to)
{
        int64_t team = message_number(body, "team", 0);

        to->team = (uint32_t)team;
        return team >= 0 && team <= UINT32_MAX && copy_text(body, "group", to->group, sizeof(to->group)) &&
               !to->group[0] == !to->team;
}

/* A lease of mode mig without an instance would be a lease of the whole device. */
static bool copy_mig(const json_t *body, struct message_lease *to)
{
        const json_t *mig = json_object_get(body, "mig");
        int64_t memory = message_number(mig, "bytes", -1);

        if (strcmp(to->mode, "mig") != 0)
                return true;
        to->mig.memory = (bytes)memory;
        return memory >= 0 && copy_text(mig, "uuid", to->mig.uuid, sizeof(to->mig.uuid)) && to->mig.uuid[0] &&
               copy_u32(mig, "gpu", &to->mig.gpu) && copy_u32(mig, "compute", &to->mig.compute);
}

static bool copy_container(const json_t *container, struct message_container *to)
{
        return copy_text(container, "id", to->id, sizeof(to->id)) &&
               copy_text(container, "pod", to->pod, sizeof(to->pod)) &&
               copy_text(container, "namespace", to->namespace, sizeof(to->namespace)) &&
               copy_text(container, "name", to->name, sizeof(to->name)) &&
               copy_text(container, "container", to->container, sizeof(to->container));
}

int message_lease_parse(const json_t *body, struct message_lease *ret)
{
        struct message_lease lease = {
                .id = (uint64_t)message_number(body, "id", 0),
                .since = message_number(body, "since", 0),
                .swap = message_flag(body, "swap", false),
                .ipc_host = message_flag(body, "ipc_host", false),
        };

        if (!copy_text(body, "tenant", lease.tenant, sizeof(lease.tenant)) || !*lease.tenant ||
            !copy_text(body, "command", lease.command, sizeof(lease.command)) ||
            !copy_text(body, "mode", lease.mode, sizeof(lease.mode)) ||
            !copy_permille(body, "share", 0, &lease.share) || !copy_permille(body, "cap", TURNS_WHOLE, &lease.cap) ||
            !copy_class(body, &lease.class) || !copy_goal(body, &lease.goal) || !copy_sleep(body, &lease.sleep_after) ||
            !copy_host_swap(body, &lease.host_swap) || !copy_audit(body, &lease.audit_ms) ||
            !copy_limits(body, &lease) || !copy_mig(body, &lease) ||
            !copy_container(json_object_get(body, "container"), &lease.container) ||
            !copy_enforcement(body, &lease.enforcement) ||
            !copy_text(body, "place", lease.directory, sizeof(lease.directory)) ||
            !copy_text(body, "sms", lease.sms, sizeof(lease.sms)) ||
            !copy_text(body, "job", lease.job, sizeof(lease.job)) || !copy_group(body, &lease) ||
            !labels_read(json_object_get(body, "labels"), lease.labels) ||
            !copy_devices(json_object_get(body, "devices"), &lease))
                return -EINVAL;
        *ret = lease;
        return 0;
}

bool message_lease_is_spatial(const struct message_lease *lease)
{
        return !strcmp(lease->mode, "spatial");
}

bool message_lease_is_mig(const struct message_lease *lease)
{
        return !strcmp(lease->mode, "mig");
}

bool message_lease_is_client(const struct message_lease *lease)
{
        return lease->team || message_lease_is_spatial(lease);
}
