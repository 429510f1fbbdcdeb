/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler sends two requests for each pod, filter and prioritize, and pods come in series of the same shape. So a
 * verdict on a node is kept for one shape until the node is counted again: of 5,000 nodes only those that changed are
 * evaluated, the others cost a lookup by name.
 */
#include "kube/extender/verdict.h"

#include "kube/client/names.h"

#include <stdio.h>
#include <string.h>

/* ---- reasons ----------------------------------------------------------------------------------- */

static void largest(const struct cluster_node *node, bool has_swap, bytes *ret_total, bytes *ret_free, size_t *ret_at)
{
        *ret_total = *ret_free = 0;
        *ret_at = 0;
        for (size_t i = 0; i < node->n_devices; i++) {
                bytes free = placement_free(&node->devices[i], has_swap);

                if (!node->devices[i].is_unhealthy && node->devices[i].total > *ret_total)
                        *ret_total = node->devices[i].total;
                if (free > *ret_free) {
                        *ret_free = free;
                        *ret_at = i;
                }
        }
}

static void wanted(const struct object_pod *pod, bytes *ret_most, unsigned int *ret_share)
{
        *ret_most = 0;
        *ret_share = 0;
        for (size_t i = 0; i < pod->n_wants; i++) {
                if (pod->is_together)
                        *ret_most += pod->wants[i].memory;
                else if (pod->wants[i].memory > *ret_most)
                        *ret_most = pod->wants[i].memory;
                if (pod->wants[i].share > *ret_share)
                        *ret_share = pod->wants[i].share;
        }
}

/* How many devices the container with the most of them asks for. */
static unsigned int largest_set(const struct object_pod *pod)
{
        unsigned int most = 0, n = 0;

        for (size_t i = 0; i < pod->n_wants; i++) {
                n = i && pod->wants[i].set && pod->wants[i].set == pod->wants[i - 1].set ? n + 1 : 1;
                most = n > most ? n : most;
        }
        return most;
}

void extend_reason(const struct cluster_node *node, const struct object_pod *pod, int outcome,
                   char why[static EXTEND_WHY])
{
        char a[BYTES_TEXT], b[BYTES_TEXT];
        bytes most, total, free;
        unsigned int share;
        size_t at;

        if (pod->problem || !node) {
                (void)snprintf(why, EXTEND_WHY, "%s", pod->problem ? pod->problem : "the node is not known yet");
                return;
        }
        wanted(pod, &most, &share);
        largest(node, pod->has_swap, &total, &free, &at);
        switch (outcome) {
        case PLACEMENT_E_NONE:
                (void)snprintf(why, EXTEND_WHY, "%s", node->problem ? node->problem : "it has no GPU memory to rent");
                break;
        case PLACEMENT_E_NO_SWAP:
                (void)snprintf(why, EXTEND_WHY,
                               "it has no host memory for a pod with " ANNOTATION_SWAP " ('sublet daemon --swap')");
                break;
        case PLACEMENT_E_HOST:
                (void)snprintf(why, EXTEND_WHY,
                               "%s of GPU memory with " ANNOTATION_SWAP " beside that of others: its %s of host memory "
                               "for those do not hold what their exchange would need",
                               bytes_format(most, a), bytes_format(node->swap, b));
                break;
        case PLACEMENT_E_LARGE:
                (void)snprintf(why, EXTEND_WHY,
                               "%s of GPU memory asked for on one device, its largest healthy one has %s",
                               bytes_format(most, a), bytes_format(total, b));
                break;
        case PLACEMENT_E_FEW:
                (void)snprintf(why, EXTEND_WHY, "%u devices asked for, each with %s of GPU memory: it has fewer such",
                               largest_set(pod), bytes_format(most, a));
                break;
        case PLACEMENT_E_TAKEN:
                (void)snprintf(why, EXTEND_WHY, "%u devices asked for, fewer have %s of GPU memory%s free",
                               largest_set(pod), bytes_format(most, a), share ? " and so much time" : "");
                break;
        case PLACEMENT_E_FULL:
                (void)snprintf(why, EXTEND_WHY,
                               "%s of GPU memory asked for on one device, the most free is %s (device %zu)%s",
                               bytes_format(most, a), bytes_format(free, b), at,
                               pod->has_swap ? ", beside pods without " ANNOTATION_SWAP : "");
                break;
        case PLACEMENT_E_SHARE:
                (void)snprintf(why, EXTEND_WHY, "no device has both %s of GPU memory and %u %% of its time free",
                               bytes_format(most, a), share / (PLACEMENT_WHOLE / 100));
                break;
        default:
                (void)snprintf(why, EXTEND_WHY,
                               "each of the pod's GPU containers would fit alone, but not all together");
                break;
        }
}

int extend_pick(const struct extend *extend, const char *name, const struct object_pod *pod, struct placement *ret,
                char why[static EXTEND_WHY])
{
        const struct placement_request request = extend_request(pod);
        const struct cluster_node *node = cluster_node(&extend->cluster, name);
        int outcome = PLACEMENT_E_NONE;

        why[0] = '\0';
        if (!pod->problem && !pod->n_wants) {
                *ret = (struct placement){ 0 };
                return PLACEMENT_OK;
        }
        if (node && !pod->problem) {
                const struct placement_node view = cluster_view(node);

                outcome = placement_pick(&view, &request, extend->policy, &extend->cluster.mix, ret);
        }
        if (outcome != PLACEMENT_OK)
                extend_reason(node, pod, outcome, why);
        return outcome;
}

bool extend_is_place_good(const struct cluster_pod *pod)
{
        const struct cluster_node *node = pod->node;

        for (size_t i = 0; i < pod->n_wants; i++)
                if (pod->devices[i] >= node->n_devices || node->devices[pod->devices[i]].is_unhealthy)
                        return false;
        return node->is_known;
}

/* ---- verdicts that nodes keep ------------------------------------------------------------------ */

static bool is_same_shape(const struct extend *extend, const struct object_pod *pod)
{
        return extend->shape && extend->n_wants == pod->n_wants && extend->is_together == pod->is_together &&
               extend->has_swap == pod->has_swap &&
               !memcmp(extend->wants, pod->wants, pod->n_wants * sizeof(*pod->wants)) &&
               (extend->policy != PLACEMENT_FRAGMENT || extend->n_counted == extend->cluster.n_counted);
}

static void begin_shape(struct extend *extend, const struct object_pod *pod)
{
        if (is_same_shape(extend, pod))
                return;
        if (++extend->shape == 0) /* 0 means no verdict */
                extend->shape = 1;
        memcpy(extend->wants, pod->wants, pod->n_wants * sizeof(*pod->wants));
        extend->n_wants = pod->n_wants;
        extend->is_together = pod->is_together;
        extend->has_swap = pod->has_swap;
        extend->n_counted = extend->cluster.n_counted;
}

static struct cluster_memo evaluate_node(const struct extend *extend, const struct cluster_node *node)
{
        const struct placement_request request = { extend->wants, extend->n_wants, extend->is_together,
                                                   extend->has_swap };
        const struct placement_node view = cluster_view(node);
        struct cluster_memo memo = { .shape = extend->shape };
        struct placement placement;

        memo.outcome = (unsigned char)placement_pick(&view, &request, extend->policy, &extend->cluster.mix, &placement);
        if (memo.outcome == PLACEMENT_OK)
                memo.score = (unsigned char)placement_score(&view, &request, extend->policy, &extend->cluster.mix,
                                                            &placement);
        return memo;
}

/* The node may be unknown (NULL), and the pod may be impossible. */
static struct cluster_memo node_memo(const struct extend *extend, const struct object_pod *pod,
                                     struct cluster_node *node)
{
        if (!pod->problem && !pod->n_wants)
                return (struct cluster_memo){ 0 };
        if (pod->problem || !node)
                return (struct cluster_memo){ .outcome = PLACEMENT_E_NONE };
        if (node->memo.shape != extend->shape)
                node->memo = evaluate_node(extend, node);
        return node->memo;
}

struct cluster_memo extend_verdict(struct extend *extend, const struct object_pod *pod, struct cluster_node *node)
{
        begin_shape(extend, pod);
        return node_memo(extend, pod, node);
}
