/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/objects/handles.h"

#include "base/cleanup.h"
#include "sim/client/doorbell.h"
#include "sim/list.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLIENT_BASE 0xc1d00000u /* RS_CLIENT_HANDLE_BASE */
#define OBJECT_BASE 0xcaf00000u /* RS_UNIQUE_HANDLE_BASE */

enum {
        CLASS_CLIENT = 0x41,
        DEPTH_MAX = 32, /* the driver's classes make 6 at most; this bounds our recursion */
};

void handles_init(struct handles *handles, void (*gone)(void *context, struct object *object), void *context)
{
        *handles = (struct handles){ .gone = gone, .context = context };
}

void handles_done(struct handles *handles)
{
        struct client *client;

        for (size_t i = 0; (client = map_next(&handles->clients, &i)) != NULL; i = 0)
                handles_client_free(handles, client);
        map_done(&handles->clients);
}

/* ---- clients ------------------------------------------------------------------------------- */

int handles_client_new(struct handles *handles, pid_t pid, uid_t uid, struct client **ret)
{
        _cleanup_(freep) struct client *client = calloc(1, sizeof(*client));
        int r;

        if (!client)
                return -ENOMEM;
        client->top = (struct object){ .client = client, .class_number = CLASS_CLIENT, .policy = SHARE_PROCESS };
        client->pid = pid;
        client->uid = uid;
        do {
                client->top.handle = CLIENT_BASE + (++handles->n_made & 0xfffffu);
                r = map_put(&handles->clients, client->top.handle, client);
        } while (r == -EEXIST);
        if (r < 0)
                return r;
        *ret = TAKE(client);
        return 0;
}

struct client *handles_client(const struct handles *handles, uint32_t handle)
{
        return map_get(&handles->clients, handle);
}

void handles_client_free(struct handles *handles, struct client *client)
{
        while (client->top.children)
                handles_free(handles, client->top.children);
        (void)map_take(&handles->clients, client->top.handle);
        map_done(&client->objects);
        if (client->touch) {
                (void)munmap(client->touch, sizeof(*client->touch));
                close(client->touch_fd);
        }
        free(client);
}

/* ---- objects ------------------------------------------------------------------------------- */

struct object *handles_get(struct client *client, uint32_t handle)
{
        return handle == client->top.handle ? &client->top : map_get(&client->objects, handle);
}

struct object *handles_next(const struct client *client, size_t *i)
{
        return map_next(&client->objects, i);
}

/* T3 */
static uint32_t handle_pick(struct client *client)
{
        uint32_t handle = OBJECT_BASE + (uint32_t)client->objects.n_used;

        while (handles_get(client, handle))
                handle++;
        return handle;
}

int handles_put(struct client *client, uint32_t parent, uint32_t handle, uint32_t class_number, struct object **ret)
{
        _cleanup_(freep) struct object *object = NULL;
        struct object *above = handles_get(client, parent);
        int r;

        if (!above || above->depth == DEPTH_MAX)
                return HANDLES_E_PARENT;
        if (!handle)
                handle = handle_pick(client);
        if (handles_get(client, handle))
                return HANDLES_E_HANDLE;
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
        return HANDLES_OK;
}

void handles_depend(struct object *object, uint32_t on)
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

        for (size_t i = 0; (object = handles_next(client, &i)) != NULL;)
                if (object->depends[0] == handle || object->depends[1] == handle)
                        return object;
        return NULL;
}

void handles_free(struct handles *handles, struct object *object)
{
        struct client *client = object->client;
        struct object *other;

        (void)map_take(&client->objects, object->handle); /* T2 */
        depend_no_more(object);
        while (object->children)
                handles_free(handles, object->children);
        while (object->n_dependants && (other = dependant(client, object->handle)) != NULL) {
                object->n_dependants--;
                handles_free(handles, other);
        }
        LIST_REMOVE(&object->parent->children, object);
        handles->gone(handles->context, object);
        free(object);
}
