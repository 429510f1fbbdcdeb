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
}

void tree_put(struct tree *tree, struct tree_node *node, struct tree_key key)
{
        struct tree_node **link = &tree->root, *parent = NULL;

        while (*link) {
                parent = *link;
                link = is_below(parent->key, key) ? &parent->right : &parent->left;
        }
        *node = (struct tree_node){ key, parent, NULL, NULL, random_next(&tree->random) };
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
