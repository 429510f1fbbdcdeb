/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/containers/container_request.h"

#include "base/err.h"
#include "base/when.h"
#include "lease/capabilities.h"
#include "oci/side.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int parse_percent(const char *text, const char *what, permille otherwise, permille *ret, struct err *err)
{
        unsigned int parsed = otherwise;

        if (*text && permille_parse(text, &parsed) < 0)
                return err_say(err, -EINVAL, "%s '%s': percent of the device's time, such as 30 or 12.5%%", what, text);
        *ret = parsed;
        return 0;
}

/* Its own list, or that of NVIDIA's runtime, which is in most images. Counters show the neighbours: a container cannot
 * ask for them. */
static int read_capabilities(const struct oci_request *asked, struct message_request *to, struct err *err)
{
        const char *list = asked->capabilities[0] ? asked->capabilities : asked->driver_capabilities, *wrong;
        unsigned int capabilities;

        if (capabilities_parse(list, &capabilities, &wrong) < 0)
                return err_say(err, -EINVAL,
                               "capabilities '%s': '%.*s' is none of compute, utility, video, graphics and all", list,
                               (int)strcspn(wrong, ","), wrong);
        if (capabilities & CAPABILITY_PROFILE)
                return err_say(err, -EPERM,
                               "capabilities '%s': profile shows the neighbours' work; it is for "
                               "'sublet run' by root",
                               list);
        (void)snprintf(to->capabilities, sizeof(to->capabilities), "%s", list);
        return 0;
}

/* What a group's tenant has beside its memory and share is in variables, which no hook can give. */
static int read_group(const struct oci_request *asked, struct message_request *to, struct err *err)
{
        (void)snprintf(to->group, sizeof(to->group), "%s", asked->group);
        if (!asked->group[0])
                return 0;
        if (!asked->has_group_annotation)
                return err_say(err, -EPERM,
                               "SUBLET_GROUP=%s: a variable may be the image's, and tenants of a group fail together: "
                               "annotate it, or its pod, with sublet.dev/group",
                               asked->group);
        if (to->cap < TURNS_WHOLE)
                return err_say(err, -EINVAL,
                               "cap '%s': in a group it is a variable of the container: leave it out, and set "
                               "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE in its environment",
                               asked->cap);
        if (asked->names_pipe)
                return err_say(err, -EINVAL,
                               "CUDA_MPS_PIPE_DIRECTORY is in its environment, and the pipe of group '%s' is at "
                               "/" SIDE_PIPE ": leave the variable out",
                               asked->group);
        return 0;
}

static int read_terms(const struct oci_request *asked, struct message_request *to, struct err *err)
{
        int r;

        if ((r = parse_percent(asked->share, "share", 0, &to->share, err)) < 0 ||
            (r = parse_percent(asked->cap, "cap", TURNS_WHOLE, &to->cap, err)) < 0)
                return r;
        (void)snprintf(to->job, sizeof(to->job), "%s", asked->job);
        if ((r = read_group(asked, to, err)) < 0)
                return r;
        if (asked->class[0] && turns_class_parse(asked->class, &to->class) < 0)
                return err_say(err, -EINVAL, "class '%s': latency, normal or batch", asked->class);
        if (asked->latency[0] &&
            (duration_parse(asked->latency, &to->goal) < 0 || to->goal < NSEC_PER_MSEC || to->goal > TURNS_GOAL_MOST))
                return err_say(err, -EINVAL, "latency '%s': a time from 1ms to 10s, such as 10ms", asked->latency);
        if (asked->sleep_after[0] && (duration_parse(asked->sleep_after, &to->sleep_after) < 0 ||
                                      to->sleep_after < MESSAGE_SLEEP_LEAST || to->sleep_after > MESSAGE_SLEEP_MOST))
                return err_say(err, -EINVAL, "sleep-after '%s': a time from 1s to 7d, such as 30s", asked->sleep_after);
        if (asked->swap[0] && strcmp(asked->swap, "true") != 0 && strcmp(asked->swap, "false") != 0)
                return err_say(err, -EINVAL, "swap '%s': true or false", asked->swap);
        to->swap = !strcmp(asked->swap, "true");
        if (asked->host_swap[0] && (bytes_parse(asked->host_swap, 0, &to->host_swap) < 0 || !to->host_swap))
                return err_say(err, -EINVAL, "host-swap '%s': a size such as 8G", asked->host_swap);
        if (!strcmp(asked->mode, "auto"))
                (void)snprintf(to->mode, sizeof(to->mode), "auto");
        else if (asked->mode[0] && strcmp(asked->mode, "time") != 0)
                return err_say(err, -EINVAL,
                               "mode '%s': a container takes turns (mode time), or with group=NAME runs beside others; "
                               "spatial and mig are for 'sublet run' (docs/containers.md)",
                               asked->mode);
        return read_capabilities(asked, to, err);
}

/* Leaves room for a number behind it. A name that was cut ends in '_', which Kubernetes names cannot contain: so no pod
 * can be named to look like another namespace's. */
static void name_tenant(const struct oci_container *container, struct message_request *to)
{
        enum { ROOM = 57, SPACE = 24 };
        bool is_long = strlen(container->namespace) > SPACE;
        char text[512];

        if (container->pod[0])
                (void)snprintf(text, sizeof(text), "%.*s%s.%s.%s", is_long ? SPACE - 1 : SPACE, container->namespace,
                               is_long ? "_" : "", container->name, container->container);
        else
                (void)oci_container_format(container, text);
        (void)snprintf(to->tenant, sizeof(to->tenant), "%.*s%s", strlen(text) < ROOM ? ROOM - 1 : ROOM - 2, text,
                       strlen(text) < ROOM ? "" : "_");
        (void)snprintf(to->command, sizeof(to->command), "%.63s", container->pod[0] ? container->container : text);
}

/* A device without a lease, or an unknown annotation, is a mistake that the user should hear of. */
static int request_of_annotations(const struct oci_request *asked, struct message_request *to, struct err *err)
{
        if (asked->unknown[0])
                return err_say(err, -EINVAL,
                               "annotation '%s' is none of sublet.dev/mem, share, cap, class, latency, sleep-after, "
                               "swap, host-swap, gpus, mode, job, group and capabilities (docs/containers.md)",
                               asked->unknown);
        if (asked->job[0] && !asked->has_annotations)
                return err_say(err, -EPERM,
                               "SUBLET_JOB=%s: a variable may be the image's, and tenants of a job open each other's "
                               "memory: annotate it with sublet.dev/job",
                               asked->job);
        (void)snprintf(to->mem, sizeof(to->mem), "%s", asked->mem);
        (void)snprintf(to->gpus, sizeof(to->gpus), "%s", asked->gpus);
        if (asked->mem[0] || asked->share[0] || asked->cap[0] || asked->class[0] || asked->latency[0] ||
            asked->sleep_after[0] || asked->swap[0] || asked->host_swap[0] || asked->gpus[0] || asked->mode[0])
                return 0;
        if (!asked->wants_gpu)
                return CONTAINER_REQUEST_E_NONE;
        return err_say(err, -EINVAL,
                       "it has a GPU and asks for no lease: annotate it with sublet.dev/mem=8G, or set SUBLET_MEM "
                       "(docs/containers.md)");
}

/* One size, for each device. A list of sizes by device was written for `sublet run`, where devices have other
 * numbers. */
static int lower_to(bytes *memory, bytes whole, const char *mem, struct err *err)
{
        char wrong[BYTES_WRONG];
        bytes size;

        if (!*mem)
                return 0;
        if (bytes_parse(mem, whole, &size) < 0)
                return err_say(err, -EINVAL, "mem '%s': %s", mem,
                               bytes_wrong(mem, "not a size such as 8G, 512M or 25%", wrong));
        if (size < *memory)
                *memory = size;
        return 0;
}

static int add_device(struct message_request *to, unsigned int device, bytes memory, struct err *err)
{
        size_t m = strlen(to->mem), g = strlen(to->gpus);
        int n = snprintf(to->mem + m, sizeof(to->mem) - m, "%s%u=%llu", m ? "," : "", device,
                         (unsigned long long)memory);
        int k = snprintf(to->gpus + g, sizeof(to->gpus) - g, "%s%u", g ? "," : "", device);

        if (n < 0 || (size_t)n >= sizeof(to->mem) - m || k < 0 || (size_t)k >= sizeof(to->gpus) - g)
                return err_say(err, -EINVAL, "an allocation on so many devices cannot be leased");
        return 0;
}

static int request_of_allocation(const struct tenants *tenants, const struct allocation *allocation,
                                 const struct oci_request *asked, struct message_request *to, struct err *err)
{
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++) {
                bytes memory = allocation->memory[i];
                int r = memory ? lower_to(&memory, tenants->totals[i], asked->mem, err) : 0;

                if (r < 0 || (memory && (r = add_device(to, i, memory, err)) < 0))
                        return r;
        }
        if (!allocation->share || !to->share || to->share > allocation->share)
                to->share = allocation->share;
        return 0;
}

static int request_of_pod(const struct tenants *tenants, const struct allocations *allocations,
                          const struct oci_container *container, const struct oci_request *asked,
                          struct message_request *to, struct err *err)
{
        const struct allocation *allocation = allocations_find(allocations, container->pod, container->container);
        const struct tenant *has = tenants_find_container(tenants, container->pod, container->container);

        if (!allocation && !asked->wants_gpu)
                return CONTAINER_REQUEST_E_NONE;
        if (!allocation)
                return err_say(
                        err, CONTAINER_REQUEST_E_LATER,
                        "nothing is allocated to it: the device plugin has reported %zu containers, and not this "
                        "one ('kubectl describe pod', 'sublet device-plugin')",
                        allocations->n);
        if (has)
                return err_say(err, CONTAINER_REQUEST_E_LATER,
                               "what is allocated to it has tenant '%s', container %.12s", has->lease.tenant,
                               has->lease.container.id);
        return request_of_allocation(tenants, allocation, asked, to, err);
}

/* What is allocated on terms has these, whatever the container asks for. */
static struct oci_request asked_on_terms(const struct allocations *allocations, const struct oci_container *container,
                                         const struct oci_request *asked)
{
        const struct allocation *allocation =
                container->pod[0] ? allocations_find(allocations, container->pod, container->container) : NULL;
        struct oci_request on = *asked;

        if (!allocation)
                return on;
        if (allocation->terms.cap[0])
                (void)snprintf(on.cap, sizeof(on.cap), "%s", allocation->terms.cap);
        if (allocation->terms.class[0])
                (void)snprintf(on.class, sizeof(on.class), "%s", allocation->terms.class);
        if (allocation->terms.latency[0])
                (void)snprintf(on.latency, sizeof(on.latency), "%s", allocation->terms.latency);
        if (allocation->terms.swap[0])
                (void)snprintf(on.swap, sizeof(on.swap), "%s", allocation->terms.swap);
        if (allocation->terms.group[0]) {
                (void)snprintf(on.group, sizeof(on.group), "%s", allocation->terms.group);
                on.has_group_annotation = true;
        }
        if (allocation->terms.capabilities[0])
                (void)snprintf(on.capabilities, sizeof(on.capabilities), "%s", allocation->terms.capabilities);
        return on;
}

int container_request_fill(const struct tenants *tenants, const struct allocations *allocations,
                           const struct oci_container *container, const struct oci_request *asked,
                           struct message_request *ret, struct err *err)
{
        const struct oci_request on_terms = asked_on_terms(allocations, container, asked);
        struct message_request request = { .cap = TURNS_WHOLE };
        int r;

        if (container->is_sandbox)
                return CONTAINER_REQUEST_E_NONE;
        name_tenant(container, &request);
        r = read_terms(&on_terms, &request, err);
        if (r < 0)
                return r;
        r = container->pod[0] ? request_of_pod(tenants, allocations, container, asked, &request, err) :
                                request_of_annotations(asked, &request, err);
        if (r == 0)
                *ret = request;
        return r;
}

void container_request_identity(const struct oci_container *container, struct message_container *ret)
{
        (void)snprintf(ret->id, sizeof(ret->id), "%s", container->id);
        (void)snprintf(ret->pod, sizeof(ret->pod), "%s", container->pod);
        (void)snprintf(ret->namespace, sizeof(ret->namespace), "%s", container->namespace);
        (void)snprintf(ret->name, sizeof(ret->name), "%s", container->name);
        (void)snprintf(ret->container, sizeof(ret->container), "%s", container->container);
}
