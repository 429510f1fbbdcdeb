/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/tree.h"

static bool is_below(struct tree_key a, struct tree_key b)
{
        return a.high != b.high ? a.high < b.high : a.low < b.low;
}

/* splitmix64 */
static uint64_t random_next(uint64_t *random)
{
        uint64_t x = *random += 0x9e3779b97f4a7c15u;

        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        return x ^ (x >> 31);
}

/* Where the pointer to this node is kept. */
static struct tree_node **link_of(struct tree *tree, const struct tree_node *node)
{
        if (!node->parent)
                return &tree->root;
        return node->parent->left == node ? &node->parent->left : &node->parent->right;
}

static uint64_t later(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

static void measure(struct tree_node *node)
{
        node->reach = node->last;
        if (node->left)
                node->reach = later(node->reach, node->left->reach);
        if (node->right)
                node->reach = later(node->reach, node->right->reach);
}

static void adopt(struct tree_node *parent, struct tree_node **link, struct tree_node *child)
{
        *link = child;
        if (child)
                child->parent = parent;
}

/* The node takes its parent's place, and the parent becomes its child; order is kept. */
static void rise(struct tree *tree, struct tree_node *node)
{
        struct tree_node *parent = node->parent, **link = link_of(tree, parent);

        if (parent->left == node) {
                adopt(parent, &parent->left, node->right);
                node->right = parent;
        } else {
                adopt(parent, &parent->right, node->left);
                node->left = parent;
        }
        node->parent = parent->parent;
        parent->parent = node;
        *link = node;
        measure(parent);
        measure(node);
}

void tree_put(struct tree *tree, struct tree_node *node, struct tree_key key, uint64_t length)
{
        struct tree_node **link = &tree->root, *parent = NULL;
        uint64_t more = length ? length - 1 : 0, last = more < UINT64_MAX - key.low ? key.low + more : UINT64_MAX;

        while (*link) {
                parent = *link;
                parent->reach = later(parent->reach, last);
                link = is_below(parent->key, key) ? &parent->right : &parent->left;
        }
        *node = (struct tree_node){ key, parent, NULL, NULL, random_next(&tree->random), last, last };
        *link = node;
        tree->n_nodes++;
        while (node->parent && node->parent->priority < node->priority)
                rise(tree, node);
}

void tree_take(struct tree *tree, struct tree_node *node)
{
        while (node->left && node->right)
                rise(tree, node->left->priority > node->right->priority ? node->left : node->right);
        adopt(node->parent, link_of(tree, node), node->left ? node->left : node->right);
        tree->n_nodes--;
        for (struct tree_node *at = node->parent; at; at = at->parent)
                measure(at);
}

struct tree_node *tree_from(const struct tree *tree, struct tree_key key)
{
        struct tree_node *node = tree->root, *best = NULL;

        while (node) {
                if (is_below(node->key, key)) {
                        node = node->right;
                } else {
                        best = node;
                        node = node->left;
                }
        }
        return best;
}

struct tree_node *tree_next(const struct tree_node *node)
{
        struct tree_node *next = node->right;

        if (!next) {
                for (next = node->parent; next && next->right == node; next = next->parent)
                        node = next;
                return next;
        }
        while (next->left)
                next = next->left;
        return next;
}

/* The first of the subtree that reaches so far; it has one. */
static struct tree_node *first_to_reach(struct tree_node *node, uint64_t first)
{
        for (;;) {
                if (node->left && node->left->reach >= first)
                        node = node->left;
                else if (node->last >= first)
                        return node;
                else
                        node = node->right;
        }
}

/* The next in order that reaches so far, past subtrees that do not. */
static struct tree_node *next_to_reach(struct tree_node *node, uint64_t first)
{
        for (;;) {
                if (node->right && node->right->reach >= first)
                        return first_to_reach(node->right, first);
                while (node->parent && node->parent->right == node)
                        node = node->parent;
                node = node->parent;
                if (!node || node->last >= first)
                        return node;
        }
}

struct tree_node *tree_over(const struct tree *tree, struct tree_key from, uint64_t first, uint64_t last)
{
        struct tree_node *node = tree_from(tree, from);

        if (node && node->last < first)
                node = next_to_reach(node, first);
        return node && node->key.high == from.high && node->key.low <= last ? node : NULL;
}
