/*
 * What the scheduler sends with a question: ExtenderArgs of k8s.io/kube-scheduler/extender/v1, a pod and either the names
 * of nodes or the nodes whole; or, for preempt, ExtenderPreemptionArgs.
 *
 *      _cleanup_(extender_args_done) struct question question = { 0 };
 *      r = extender_args_read(body, size, unit, &question);
 *
 *  Q1  A body is read the same whether it took the short way or the long one.
 *
 * Threads: any; nothing is shared.
 */
#pragma once

#include "kube/extender/object.h"

struct node_name {
        const char *text; /* UTF-8, `size` bytes without a NUL; borrowed of the body, or of `args` */
        size_t size;
};

struct extender_args {
        bool has_pod;
        struct object_pod pod;
        struct node_name *names; /* of the nodes asked about */
        size_t n_names;
        const json_t *items; /* the same nodes whole, where they came so; of `args` */
        json_t *args;        /* all of it, if it took the long way */
};

/* body: outlives the question; ends with a NUL that is not counted. 0; -EINVAL: it is not a JSON object; -ENOMEM. */
int extender_args_read(const char *body, size_t size, bytes unit, struct extender_args *ret);
int extender_args_read_whole(const char *body, size_t size, bytes unit,
                             struct extender_args *ret); /* always the long way: preempt */
void extender_args_done(struct extender_args *args);
