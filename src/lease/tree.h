/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered set of things that embed a node, by a key of two numbers: (space, base), say.
 *
 * A treap: a search tree by key and a heap by a random priority. The priorities come from the tree's own sequence and
 * never from the keys, so a tenant's choice of keys does not shape it: expected depth is logarithmic. Nothing here
 * allocates, recurses or fails.
 *
 * A node may have a length: then it is a span from its key's low number on. Each node knows how far the spans below it
 * reach, so those that lie over an address are found without a look at the others, however many and however long.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_key {
        uint64_t high, low;
};

struct tree_node {
        struct tree_key key;
        struct tree_node *parent, *left, *right;
        uint64_t priority;
        uint64_t last;  /* of its span; key.low without one */
        uint64_t reach; /* the largest `last` of it and all below */
};

struct tree {
        struct tree_node *root;
        size_t n_nodes;
        uint64_t random; /* where its sequence of priorities is; starts anywhere */
};

/* Equal keys are fine: the newest comes first. A span ends at the last number at the latest. */
void tree_put(struct tree *tree, struct tree_node *node, struct tree_key key, uint64_t length);
void tree_take(struct tree *tree, struct tree_node *node);

/* The first node that is not below key; NULL: none. */
struct tree_node *tree_from(const struct tree *tree, struct tree_key key);
struct tree_node *tree_next(const struct tree_node *node); /* in order; NULL at the end */

/* The first node that is not below `from`, has its high number, and whose span has a number of [first, last]. */
struct tree_node *tree_over(const struct tree *tree, struct tree_key from, uint64_t first, uint64_t last);
