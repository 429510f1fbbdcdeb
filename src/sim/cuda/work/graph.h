/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: ops in the order in which their nodes were added, which is an order that their edges
 * allow. */
#pragma once

#include "sim/cuda/context/stream.h"

CUresult graph_new(struct device *device, CUgraph *ret);
CUresult graph_append(CUgraph graph, const struct op *op, CUgraphNode *ret); /* ret may be NULL */
