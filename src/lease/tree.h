/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered set of things that embed a node, by a key of two numbers: (space, base), say.
 *
 * A treap: a search tree by key and a heap by a random priority. The priorities come from the tree's own sequence and
 * never from the keys, so a tenant's choice of keys does not shape it: expected depth is logarithmic. Nothing here
 * allocates, recurses or fails.
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
};

struct tree {
        struct tree_node *root;
        size_t n_nodes;
        uint64_t random; /* where its sequence of priorities is; starts anywhere */
};

/* Equal keys are fine: the newest comes first. */
void tree_put(struct tree *tree, struct tree_node *node, struct tree_key key);
void tree_take(struct tree *tree, struct tree_node *node);

/* The first node that is not below key; NULL: none. */
struct tree_node *tree_from(const struct tree *tree, struct tree_key key);
struct tree_node *tree_next(const struct tree_node *node); /* in order; NULL at the end */
