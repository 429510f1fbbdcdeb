/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs, minimal: nodes run one after the other in the order in which they were added. A node can
 * only depend on nodes that exist, so this order is valid, though nothing overlaps.
 */
#include "sim/cuda/work/graph.h"

#include "base/cleanup.h"
#include "sim/cuda/work/module.h"
#include "sim/cuda/memory/pool.h"

#include <stdlib.h>
#include <string.h>

struct CUgraphNode_st {
        CUgraphNode next;
        CUgraph graph;
        struct op op;
};

struct CUgraph_st {
        struct device *device;
        CUgraphNode first, last;
        size_t n;
};

struct CUgraphExec_st {
        struct device *device;
        struct op_list ops;
        bool frees_on_launch;
};

CUresult graph_new(struct device *device, CUgraph *ret)
{
        CUgraph graph = calloc(1, sizeof(*graph));

        if (!graph)
                return CUDA_ERROR_OUT_OF_MEMORY;
        graph->device = device;
        *ret = graph;
        return CUDA_SUCCESS;
}

CUresult graph_append(CUgraph graph, const struct op *op, CUgraphNode *ret)
{
        CUgraphNode node = calloc(1, sizeof(*node));
        CUresult r;

        if (!node)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = op_copy(op, &node->op);
        if (r != CUDA_SUCCESS) {
                free(node);
                return r;
        }
        node->graph = graph;
        if (graph->last)
                graph->last->next = node;
        else
                graph->first = node;
        graph->last = node;
        graph->n++;
        if (ret)
                *ret = node;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphCreate(CUgraph *graph, unsigned int flags)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!graph || flags)
                return CUDA_ERROR_INVALID_VALUE;
        return graph_new(context->device, graph);
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!graph)
                return CUDA_ERROR_INVALID_VALUE;
        while (graph->first) {
                CUgraphNode node = graph->first;

                graph->first = node->next;
                op_done(&node->op);
                free(node);
        }
        free(graph);
        return CUDA_SUCCESS;
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* The common part of every Add: edges may only come from nodes of the same graph. */
static CUresult node_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                         const struct op *op)
{
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!node || !graph || (n_after && !after))
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < n_after; i++)
                if (!after[i] || after[i]->graph != graph)
                        return CUDA_ERROR_INVALID_VALUE;
        return graph_append(graph, op, node);
}

/* The address is known at once; the memory comes when the graph is launched. */
CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                        CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();
        CUmemoryPool pool;
        struct device *device;
        uint64_t at;

        if (r != CUDA_SUCCESS)
                return r;
        if (!node || !graph || !params || !params->bytesize ||
            params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
            params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
                return CUDA_ERROR_INVALID_VALUE;
        device = device_of(params->poolProps.location.id);
        if (!device)
                return CUDA_ERROR_INVALID_DEVICE;
        r = pool_of_graphs(device, &pool);
        if (r == CUDA_SUCCESS)
                r = pool_reserve(pool, params->bytesize, &at);
        if (r != CUDA_SUCCESS)
                return r;
        r = node_add(node, graph, after, n_after, &(struct op){ .kind = OP_ALLOC, .at = at });
        pool_reserved_unref(at); /* the node has its own reference */
        if (r == CUDA_SUCCESS)
                params->dptr = at;
        return r;
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                       CUdeviceptr at)
{
        LOCKED_LIBRARY;

        return node_add(node, graph, after, n_after, &(struct op){ .kind = OP_FREE, .at = at });
}

/* ---- running ------------------------------------------------------------------------------- */

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
        LOCKED_LIBRARY;
        CUgraphExec made;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!exec || !graph)
                return CUDA_ERROR_INVALID_VALUE;
        made = calloc(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        made->device = graph->device;
        made->frees_on_launch = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        for (CUgraphNode node = graph->first; node && r == CUDA_SUCCESS; node = node->next)
                r = op_list_append(&made->ops, &node->op);
        if (r != CUDA_SUCCESS) {
                op_list_done(&made->ops);
                free(made);
                return r;
        }
        *exec = made;
        return CUDA_SUCCESS;
}

/* Frees what the last launch left allocated (AUTO_FREE_ON_LAUNCH). */
static void free_last(CUgraphExec exec, CUstream stream)
{
        for (const struct op_entry *e = exec->ops.first; e; e = e->next) {
                struct allocation *allocation = e->op.kind == OP_ALLOC ? allocation_named(e->op.at) : NULL;

                if (allocation && allocation->kind == ALLOCATION_POOL)
                        pool_give_in(allocation, stream);
        }
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream name)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (!exec)
                return CUDA_ERROR_INVALID_VALUE;
        if (exec->frees_on_launch)
                free_last(exec, stream);
        for (const struct op_entry *e = exec->ops.first; e && r == CUDA_SUCCESS; e = e->next)
                r = stream_submit(stream, &e->op);
        return r;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!exec)
                return CUDA_ERROR_INVALID_VALUE;
        op_list_done(&exec->ops);
        free(exec);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice ordinal)
{
        LOCKED_LIBRARY;
        struct device *device;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        device = device_of(ordinal);
        if (!device)
                return CUDA_ERROR_INVALID_DEVICE;
        if (device->graph_pool)
                pool_trim(device->graph_pool, 0);
        return CUDA_SUCCESS;
}
