/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GetPreferredAllocation: memory and time are packed on the device with the least left that is enough, so that large
 * gaps stay large; seats are spread, over devices that lie close together (near/near.h). Where no device has enough
 * kubelet chooses by itself, and Allocate then refuses.
 */
#include "kube/plugin/plugin_inside.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "near/near.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An id that may be taken, borrowed from the message. */
struct offer {
        char *id;
        size_t device;
        unsigned int number;
        bool is_taken;
};

struct choice {
        const struct plugin_resource *resource;
        struct offer *offers;
        size_t n_offers;
        unsigned int left[PLUGIN_DEVICES], taken[PLUGIN_DEVICES];
        char **ids; /* the chosen ones */
        size_t n_ids, size;
};

static int compare_offers(const void *a, const void *b)
{
        const struct offer *x = a, *y = b;

        if (x->device != y->device)
                return x->device < y->device ? -1 : 1;
        return x->number < y->number ? -1 : x->number > y->number;
}

static void take_offer(struct choice *choice, struct offer *offer)
{
        offer->is_taken = true;
        choice->left[offer->device]--;
        choice->taken[offer->device]++;
        choice->ids[choice->n_ids++] = offer->id;
}

/* The device to take from next; -1: nothing is left. */
static int next_device(const struct choice *choice, size_t n_devices)
{
        bool spreads = choice->resource->kind == PLUGIN_SEATS || choice->resource->kind == PLUGIN_MPS;
        unsigned int wanted = (unsigned int)(choice->size - choice->n_ids);
        int best = -1;

        for (int i = 0; i < (int)n_devices; i++) {
                bool fits, best_fits;

                if (!choice->left[i])
                        continue;
                if (best < 0) {
                        best = i;
                        continue;
                }
                fits = choice->left[i] >= wanted;
                best_fits = choice->left[best] >= wanted;
                if (choice->taken[i] != choice->taken[best]) {
                        if (spreads == (choice->taken[i] < choice->taken[best]))
                                best = i;
                } else if (spreads || !best_fits) {
                        if (choice->left[i] > choice->left[best])
                                best = i;
                } else if (fits && choice->left[i] < choice->left[best]) {
                        best = i;
                }
        }
        return best;
}

static void take_from(struct choice *choice, size_t device)
{
        bool is_one = choice->resource->kind == PLUGIN_SEATS || choice->resource->kind == PLUGIN_MPS;

        for (size_t i = 0; i < choice->n_offers && choice->n_ids < choice->size; i++) {
                if (choice->offers[i].is_taken || choice->offers[i].device != device)
                        continue;
                take_offer(choice, &choice->offers[i]);
                if (is_one)
                        return;
        }
}

static int take_musts(struct choice *choice, const struct plugin_node *node, const Plugin__ContainerChoice *asked)
{
        for (size_t i = 0; i < asked->n_must_include; i++) {
                struct offer wanted, *offer;

                if (plugin_id_parse(choice->resource, node, asked->must_include[i], &wanted.device, &wanted.number) < 0)
                        return -ENOENT;
                offer = bsearch(&wanted, choice->offers, choice->n_offers, sizeof(*offer), compare_offers);
                if (!offer || offer->is_taken)
                        return -EINVAL;
                take_offer(choice, offer);
        }
        return 0;
}

static int read_offers(struct choice *choice, const struct plugin_node *node, const Plugin__ContainerChoice *asked)
{
        for (size_t i = 0; i < asked->n_available; i++) {
                struct offer *offer = &choice->offers[i];

                offer->id = asked->available[i];
                if (plugin_id_parse(choice->resource, node, offer->id, &offer->device, &offer->number) < 0)
                        return -ENOENT;
                choice->left[offer->device]++;
        }
        qsort(choice->offers, choice->n_offers, sizeof(*choice->offers), compare_offers);
        for (size_t i = 1; i < choice->n_offers; i++)
                if (compare_offers(&choice->offers[i - 1], &choice->offers[i]) == 0)
                        return -EINVAL;
        return 0;
}

/* Several seats, each on a device of its own: the nearest ones with those that must be. Without such devices nothing is
 * taken. */
static void take_near(struct choice *choice, const struct plugin_node *node)
{
        struct near_device devices[NEAR_DEVICES];
        struct near_view view = { devices, node->n_devices, 0, (unsigned int)choice->size };
        uint32_t sets[NEAR_DEVICES], must = 0;
        size_t n, at = 0;

        if (choice->resource->kind != PLUGIN_SEATS || choice->size < 2 || choice->size > node->n_devices)
                return;
        for (size_t i = 0; i < node->n_devices; i++) {
                devices[i] = (struct near_device){ node->devices[i].nvlink, node->devices[i].numa,
                                                   -(int64_t)(choice->left[i] + choice->taken[i]) };
                view.may |= (uint32_t)(choice->left[i] || choice->taken[i]) << i;
                must |= (uint32_t)(choice->taken[i] > 0) << i;
        }
        n = near_pick(&view, sets);
        while (at < n && (sets[at] & must) != must)
                at++;
        for (uint32_t left = at < n ? sets[at] & ~must : 0; left; left &= left - 1)
                take_from(choice, (size_t)__builtin_ctz(left));
}

/* For one container. ret->ids is the caller's (free), its texts are borrowed from the message. */
static int choose_ids(const struct plugin_resource *resource, const struct plugin_node *node,
                      const Plugin__ContainerChoice *asked, Plugin__ContainerIds *ret)
{
        _cleanup_(freep) struct offer *offers = calloc(asked->n_available + 1, sizeof(*offers));
        _cleanup_(freep) char **ids = NULL;
        struct choice choice = { .resource = resource, .offers = offers, .n_offers = asked->n_available };
        int r, device;

        if (asked->size < 0 || (size_t)asked->size > asked->n_available || asked->n_must_include > (size_t)asked->size)
                return -EINVAL;
        choice.size = (size_t)asked->size;
        ids = calloc(choice.size + 1, sizeof(*ids));
        if (!offers || !ids)
                return -ENOMEM;
        choice.ids = ids;
        r = read_offers(&choice, node, asked);
        if (r == 0)
                r = take_musts(&choice, node, asked);
        if (r < 0)
                return r;
        take_near(&choice, node);
        while (choice.n_ids < choice.size && (device = next_device(&choice, node->n_devices)) >= 0)
                take_from(&choice, (size_t)device);
        ret->n_ids = choice.n_ids;
        ret->ids = TAKE(ids);
        return 0;
}

int plugin_prefer(const struct plugin_resource *resource, const struct plugin_node *node,
                  const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        _cleanup_(prefer_freep) Plugin__PreferRequest *asked = NULL;
        _cleanup_(freep) Plugin__ContainerIds *answers = NULL;
        _cleanup_(freep) Plugin__ContainerIds **list = NULL;
        Plugin__PreferAnswer message = PLUGIN__PREFER_ANSWER__INIT;
        int r = 0;

        asked = plugin__prefer_request__unpack(NULL, request->size, request->data);
        if (!asked)
                return err_say(err, -EINVAL, "GetPreferredAllocation: malformed request");
        answers = calloc(asked->n_containers + 1, sizeof(*answers));
        list = calloc(asked->n_containers + 1, sizeof(Plugin__ContainerIds *));
        if (!answers || !list)
                return err_set(err, -ENOMEM, "GetPreferredAllocation");
        for (size_t i = 0; i < asked->n_containers && r == 0; i++) {
                list[i] = &answers[i];
                plugin__container_ids__init(&answers[i]);
                r = choose_ids(resource, node, asked->containers[i], &answers[i]);
        }
        message.containers = list;
        message.n_containers = asked->n_containers;
        r = r < 0 ? err_say(err, r, "GetPreferredAllocation: not ids of %s", resource->name) :
                    grpc_message_pack(&message.base, ret);
        for (size_t i = 0; i < asked->n_containers; i++)
                free(answers[i].ids);
        return r;
}
