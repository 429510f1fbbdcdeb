/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/extend.h"

#include "base/cleanup.h"
#include "kube/extender/jobs/jobs.h"
#include "kube/extender/writer.h"

#include <stdio.h>
#include <string.h>

/* ---- filter, prioritize ------------------------------------------------------------------------ */

static const char no_pod[] =
        "{\"Nodes\":null,\"NodeNames\":[],\"FailedNodes\":{},\"Error\":\"the request has no Pod\"}";

/* The lists of an answer, while they grow. */
struct verdict {
        struct writer passed, items, failed, final;
};

static void verdict_done(struct verdict *verdict)
{
        writer_done(&verdict->passed);
        writer_done(&verdict->items);
        writer_done(&verdict->failed);
        writer_done(&verdict->final);
}

static void append_failed(struct writer *to, const char *name, const char *why)
{
        writer_text(to, to->size ? "," : "{");
        writer_string(to, name);
        writer_text(to, ":\"");
        writer_text(to, why);
        writer_text(to, "\"");
}

static void append_passed(const struct extender_args *args, size_t i, struct verdict *to)
{
        _cleanup_(freep) char *item = NULL;

        writer_text(&to->passed, to->passed.size ? "," : "[");
        writer_string(&to->passed, extender_args_name(args, i));
        if (!args->has_whole_nodes)
                return;
        item = json_dumps(json_array_get(args->nodes, i), JSON_COMPACT);
        writer_text(&to->items, to->items.size ? "," : "{\"items\":[");
        writer_text(&to->items, item ? item : "null");
        to->items.is_broken |= !item;
}

/* A final failure is in both maps: older schedulers read only FailedNodes, newer ones let the other map win. */
static void filter_node(struct extend *extend, const struct extender_args *args, size_t i, struct verdict *to)
{
        const char *name = extender_args_name(args, i);
        struct cluster_node *node = name ? cluster_node(&extend->cluster, name) : NULL;
        const struct cluster_memo memo = extend_verdict(extend, &args->pod, node);
        char why[EXTEND_WHY];

        if (!name)
                return;
        if (memo.outcome == PLACEMENT_OK) {
                append_passed(args, i, to);
                return;
        }
        extend_reason(node, &args->pod, memo.outcome, why);
        append_failed(&to->failed, name, why);
        if (memo.outcome <= PLACEMENT_E_FEW) /* preemption cannot help */
                append_failed(&to->final, name, why);
}

/* The known ones among those that the scheduler offers. The list is the caller's (free); NULL: no memory. */
static struct cluster_node **offered(const struct extend *extend, const struct extender_args *args, size_t *ret_n)
{
        struct cluster_node **list = calloc(json_array_size(args->nodes) + 1, sizeof(*list));

        *ret_n = 0;
        for (size_t i = 0; list && i < json_array_size(args->nodes); i++) {
                const char *name = extender_args_name(args, i);
                struct cluster_node *node = name ? cluster_node(&extend->cluster, name) : NULL;

                if (node)
                        list[(*ret_n)++] = node;
        }
        return list;
}

/* A job's pod has one place, or waits: then no node can take it, and preemption cannot help (jobs.h). */
static void filter_job(struct extend *extend, const struct extender_args *args, struct verdict *to)
{
        struct jobs_nodes nodes;
        _cleanup_(freep) struct cluster_node **list = offered(extend, args, &nodes.n);
        char why[EXTEND_WHY] = "no memory";
        const char *place;

        nodes.list = list;
        place = list ? jobs_place(extend, args->pod.uid, &nodes, why) : NULL;
        if (place)
                (void)snprintf(why, sizeof(why), "the place of this pod of job '%s' is on node %.100s", args->pod.job,
                               place);
        for (size_t i = 0; i < json_array_size(args->nodes); i++) {
                const char *name = extender_args_name(args, i);

                if (!name)
                        continue;
                if (place && !strcmp(name, place)) {
                        append_passed(args, i, to);
                        continue;
                }
                append_failed(&to->failed, name, why);
                append_failed(&to->final, name, why);
        }
}

static void filter_nodes(struct extend *extend, const struct extender_args *args, struct verdict *to)
{
        for (size_t i = 0; i < json_array_size(args->nodes); i++)
                filter_node(extend, args, i, to);
}

/* Where a pod fits nowhere, jobs may have to give up places that are only reserved. */
static void filter_pod(struct extend *extend, const struct extender_args *args, struct verdict *to)
{
        struct jobs_nodes nodes;
        _cleanup_(freep) struct cluster_node **list = NULL;

        filter_nodes(extend, args, to);
        if (to->passed.size || !extend->cluster.jobs || !(list = offered(extend, args, &nodes.n)))
                return;
        nodes.list = list;
        if (!jobs_yield(extend, &args->pod, &nodes))
                return;
        verdict_done(to);
        filter_nodes(extend, args, to);
}

static char *verdict_take(struct verdict *verdict, bool is_whole, size_t *ret_size)
{
        struct writer all = { 0 };

        writer_text(&all, "{\"Nodes\":");
        writer_add(&all, &verdict->items);
        writer_text(&all, !is_whole ? "null" : verdict->items.size ? "]}" : "{\"items\":[]}");
        writer_text(&all, ",\"NodeNames\":");
        writer_add(&all, &verdict->passed);
        writer_text(&all, verdict->passed.size ? "],\"FailedNodes\":" : "[],\"FailedNodes\":");
        writer_add(&all, &verdict->failed);
        writer_text(&all,
                    verdict->failed.size ? "},\"FailedAndUnresolvableNodes\":" : "{},\"FailedAndUnresolvableNodes\":");
        writer_add(&all, &verdict->final);
        writer_text(&all, verdict->final.size ? "},\"Error\":\"\"}" : "{},\"Error\":\"\"}");
        return writer_take(&all, ret_size);
}

char *extend_filter(struct extend *extend, const struct extender_args *args, size_t *ret_size)
{
        struct verdict verdict = { 0 };
        char *text;

        if (!args->has_pod) {
                *ret_size = sizeof(no_pod) - 1;
                return strdup(no_pod);
        }
        jobs_tidy(extend);
        if (args->pod.job_pods && !args->pod.problem)
                filter_job(extend, args, &verdict);
        else
                filter_pod(extend, args, &verdict);
        text = verdict_take(&verdict, args->has_whole_nodes, ret_size);
        verdict_done(&verdict);
        return text;
}

char *extend_prioritize(struct extend *extend, const struct extender_args *args, size_t *ret_size)
{
        _cleanup_(writer_done) struct writer to = { 0 };
        bool is_first = true;

        writer_text(&to, "[");
        for (size_t i = 0; args->has_pod && i < json_array_size(args->nodes); i++) {
                const char *name = extender_args_name(args, i);

                if (!name)
                        continue;
                writer_text(&to, is_first ? "{\"Host\":" : ",{\"Host\":");
                writer_string(&to, name);
                writer_text(&to, ",\"Score\":");
                writer_number(&to, extend_verdict(extend, &args->pod, cluster_node(&extend->cluster, name)).score);
                writer_text(&to, "}");
                is_first = false;
        }
        writer_text(&to, "]");
        return writer_take(&to, ret_size);
}
