/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's clients and their objects.
 *
 * A client is a root: it belongs to the file that it was made through and is named by a system-wide
 * handle that the driver picks, ever larger. An object belongs to one client, is named there by a
 * handle, and hangs on a parent. Freeing an object frees its descendants and the objects that
 * depend on it first. Invariants:
 *      T1  an object's parent is an object of the same client, the client itself at the top;
 *      T2  what is freed is out of all maps before `gone` is called for it, leaves first;
 *      T3  a handle picked for hNew 0 is never one that is in use.
 * Pure but for allocation. Source: docs/rm-abi.md 2.4; the numbers: open-gpu-kernel-modules
 * src/nvidia/inc/libraries/resserv, 525.147.05 to 595.45.04.
 */
#pragma once

#include "base/map.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct buffer;
struct channel;
struct file;
struct gpu;
struct group;
struct memory;

/* Kinds of a share policy, as bits by their numbers in the driver. */
enum share {
        SHARE_ALL = 1 << 1,
        SHARE_USER = 1 << 2,
        SHARE_CLIENT = 1 << 3,  /* the one that the policy names; kept for the right to debug only */
        SHARE_PROCESS = 1 << 4, /* the default */
};

struct object {
        struct client *client;
        struct object *parent; /* NULL: the client itself */
        struct object *children, *next;
        uint32_t handle, class_number;
        uint32_t depends[2]; /* handles of the same client: freed with any of them; 0: none */
        unsigned int n_dependants, depth;

        /* What it is; at most one of the last three. */
        struct gpu *gpu; /* inherited from the parent; NULL: none */
        struct memory *memory;
        struct group *group;
        struct channel *channel;
        bytes taken;           /* of the device, without being asked */
        uint64_t event;        /* cookie of the file where an event is reported; 0: none */
        struct buffer *buffer; /* of context-switch records */
        bool is_dup;
        uint8_t policy;    /* who may dup it: bits of enum share; 0: as the client's top says */
        uint8_t debug;     /* of a client's top, who may debug what is its: the same bits */
        uint32_t debugger; /* the client of SHARE_CLIENT */
};

struct client {
        struct object top;
        struct map objects; /* handle -> struct object *; without top */
        struct file *file;
        struct client *next; /* of the same file */
        pid_t pid;           /* of its maker */
        uid_t uid;
        struct sim_touch *touch; /* client/doorbell.h; NULL: nobody has asked */
        int touch_fd;            /* then it counts */
};

struct handles {
        struct map clients; /* handle -> struct client * */
        uint32_t n_made;
        void (*gone)(void *context, struct object *object); /* gives back what the object was */
        void *context;
};

enum {
        HANDLES_OK,
        HANDLES_E_HANDLE, /* the handle is in use */
        HANDLES_E_PARENT, /* no such parent, or one that is too deep to have children */
};

void handles_init(struct handles *handles, void (*gone)(void *context, struct object *object), void *context);
void handles_done(struct handles *handles);

/* The caller links it to its file. 0; -ENOMEM. */
int handles_client_new(struct handles *handles, pid_t pid, uid_t uid, struct client **ret);
struct client *handles_client(const struct handles *handles, uint32_t handle); /* NULL: none */
void handles_client_free(struct handles *handles, struct client *client);

/* handle 0: picks one. HANDLES_OK; HANDLES_E_HANDLE; HANDLES_E_PARENT; -ENOMEM. */
int handles_put(struct client *client, uint32_t parent, uint32_t handle, uint32_t class_number, struct object **ret);

/* An object or, by its own handle, the client's top. NULL: none. */
struct object *handles_get(struct client *client, uint32_t handle);

/* `object` is freed with the object `on` of its client. Does nothing if there is none, or for a third. */
void handles_depend(struct object *object, uint32_t on);

/* With its descendants and dependants. Not the top: handles_client_free. */
void handles_free(struct handles *handles, struct object *object);

/* For each object of the client but the top: i starts at 0; NULL at the end. */
struct object *handles_next(const struct client *client, size_t *i);
