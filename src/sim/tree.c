#include "sim/tree.h"

#include "base/cleanup.h"

#include <errno.h>

#define CLIENT_BASE 0xc1d00000u /* RS_CLIENT_HANDLE_BASE */
#define OBJECT_BASE 0xcaf00000u /* RS_UNIQUE_HANDLE_BASE */

enum {
        CLASS_CLIENT = 0x41,
        DEPTH_MAX = 32, /* the driver's classes make 6 at most; this bounds our recursion */
};

void tree_init(struct tree *tree, void (*gone)(void *context, struct object *object), void *context)
{
        *tree = (struct tree){ .gone = gone, .context = context };
}

void tree_done(struct tree *tree)
{
        struct client *client;

        for (size_t i = 0; (client = map_next(&tree->clients, &i)) != NULL; i = 0)
                tree_client_free(tree, client);
        map_done(&tree->clients);
}

/* ---- clients ----------------------------------------------------------------------------------- */

int tree_client_new(struct tree *tree, pid_t pid, uid_t uid, struct client **ret)
{
        _cleanup_(freep) struct client *client = calloc(1, sizeof(*client));
        int r;

        if (!client)
                return -ENOMEM;
        client->top = (struct object){ .client = client, .class_number = CLASS_CLIENT, .policy = SHARE_PROCESS };
        client->pid = pid;
        client->uid = uid;
        do {
                client->top.handle = CLIENT_BASE + (++tree->n_made & 0xfffffu);
                r = map_put(&tree->clients, client->top.handle, client);
        } while (r == -EEXIST);
        if (r < 0)
                return r;
        *ret = TAKE(client);
        return 0;
}

struct client *tree_client(const struct tree *tree, uint32_t handle)
{
        return map_get(&tree->clients, handle);
}

void tree_client_free(struct tree *tree, struct client *client)
{
        while (client->top.children)
                tree_free(tree, client->top.children);
        (void)map_take(&tree->clients, client->top.handle);
        map_done(&client->objects);
        free(client);
}

/* ---- objects ----------------------------------------------------------------------------------- */

struct object *tree_get(struct client *client, uint32_t handle)
{
        return handle == client->top.handle ? &client->top : map_get(&client->objects, handle);
}

struct object *tree_next(const struct client *client, size_t *i)
{
        return map_next(&client->objects, i);
}

/* T3 */
static uint32_t handle_pick(struct client *client)
{
        uint32_t handle = OBJECT_BASE + (uint32_t)client->objects.n_used;

        while (tree_get(client, handle))
                handle++;
        return handle;
}

int tree_put(struct client *client, uint32_t parent, uint32_t handle, uint32_t class_number,
             struct object **ret)
{
        _cleanup_(freep) struct object *object = NULL;
        struct object *above = tree_get(client, parent);
        int r;

        if (!above || above->depth == DEPTH_MAX)
                return TREE_E_PARENT;
        if (!handle)
                handle = handle_pick(client);
        if (tree_get(client, handle))
                return TREE_E_HANDLE;
        object = calloc(1, sizeof(*object));
        if (!object)
                return -ENOMEM;
        *object = (struct object){ .client = client,
                                   .parent = above,
                                   .next = above->children,
                                   .handle = handle,
                                   .class_number = class_number,
                                   .depth = above->depth + 1,
                                   .gpu = above->gpu };
        r = map_put(&client->objects, handle, object);
        if (r < 0)
                return r;
        above->children = object;
        *ret = TAKE(object);
        return TREE_OK;
}

static void unlink_from_parent(struct object *object)
{
        struct object **at = &object->parent->children;

        while (*at != object)
                at = &(*at)->next;
        *at = object->next;
}

void tree_depend(struct object *object, uint32_t on)
{
        struct object *other = map_get(&object->client->objects, on);

        for (size_t i = 0; i < ARRAY_SIZE(object->depends) && other && other != object; i++) {
                if (object->depends[i])
                        continue;
                object->depends[i] = on;
                other->n_dependants++;
                return;
        }
}

static void depend_no_more(const struct object *object)
{
        struct object *other;

        for (size_t i = 0; i < ARRAY_SIZE(object->depends); i++)
                if ((other = map_get(&object->client->objects, object->depends[i])) != NULL)
                        other->n_dependants--;
}

/* Something that depends on the handle, which is out of the map. */
static struct object *dependant(const struct client *client, uint32_t handle)
{
        struct object *object;

        for (size_t i = 0; (object = tree_next(client, &i)) != NULL;)
                if (object->depends[0] == handle || object->depends[1] == handle)
                        return object;
        return NULL;
}

void tree_free(struct tree *tree, struct object *object)
{
        struct client *client = object->client;
        struct object *other;

        (void)map_take(&client->objects, object->handle); /* T2 */
        depend_no_more(object);
        while (object->children)
                tree_free(tree, object->children);
        while (object->n_dependants && (other = dependant(client, object->handle)) != NULL) {
                object->n_dependants--;
                tree_free(tree, other);
        }
        unlink_from_parent(object);
        tree->gone(tree->context, object);
        free(object);
}
