/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One driver call, decoded from a private copy of its block.
 *
 * The tenant's block is copied once (rm_request_find gives its size), rm_decode reads the copy, and from then on only
 * the copy counts. The parameters of an allocation or a control are a second copy, of rm_params_size bytes. Nothing
 * here follows a pointer.
 */
#pragma once

#include "rm/layout.h"

enum rm_node {
        RM_NODE_OTHER,     /* not the driver's */
        RM_NODE_CTL,       /* /dev/nvidiactl */
        RM_NODE_DEVICE,    /* /dev/nvidiaN */
        RM_NODE_UVM,       /* /dev/nvidia-uvm */
        RM_NODE_UVM_TOOLS, /* /dev/nvidia-uvm-tools */
        RM_NODE_FORBIDDEN, /* the driver's, but not for tenants: nvidia-modeset, capabilities, ... */
};

/* The kind of a request, independent of its number. */
enum rm_kind {
#define REQUEST(kind, node, nr, size, status, fd, client, meaning) RM_##kind,
#include "rm/requests.def"
#undef REQUEST
        RM_N_KINDS,
};

struct rm_call {
        enum rm_kind kind;
        uint32_t request;    /* as sent, low 32 bits */
        uint32_t block_size; /* bytes of the block */

        uint32_t client;        /* hRoot or hClient; of a dup the destination's */
        uint32_t parent;        /* of an allocation or a dup */
        uint32_t object;        /* the object it acts on, or hNew (0: the driver picks) */
        uint32_t class_or_cmd;  /* class of an allocation, number of a control, function of
                                   VID_HEAP, policy of a share, number in XFER: blocks.def */
        uint32_t flags;         /* of allocations, dups, mappings; of a control: I4 in call.c */
        uint32_t source_client; /* of a dup, and of UVM_MAP_EXTERNAL: whose memory */
        uint32_t source_object;

        uint64_t params;      /* the tenant's address of the parameters, 0: none */
        uint32_t params_size; /* as the tenant claims; see rm_params_size */

        uint64_t base, length; /* UVM and mappings: the range; ALLOC_MEMORY: address, bytes */

        /* Offsets in the block, UINT32_MAX: the block has none. */
        uint32_t status_at;      /* u32 result */
        uint32_t object_at;      /* u32 hNew, written back by the driver */
        uint32_t params_at;      /* u64 pointer to the parameters */
        uint32_t params_size_at; /* u32 */
        uint32_t rights_at;      /* u64 pointer to a rights mask of RM_RIGHTS_SIZE bytes */
        uint32_t fd_at;          /* s32 descriptor number that the driver looks up in `current` */
};

/*
 * Size in bytes of the block of `request` on this node: what to copy. On a control or device node
 * only bits 0-7 and 16-29 of the request count, as in the driver; on a UVM node all 32.
 * RM_OK; RM_E_NUMBER; RM_E_SIZE.
 */
int rm_request_find(const struct rm_layout *layout, enum rm_node node, uint32_t request, enum rm_kind *ret_kind,
                    uint32_t *ret_size);

/*
 * Decodes a block of exactly the size that rm_request_find gave. RM_OK; RM_E_SIZE; for XFER also
 * RM_E_NUMBER: the inner request is none, or another XFER. The inner request has number
 * call.class_or_cmd and size call.params_size, and its block is at call.params. On failure *ret is untouched.
 */
int rm_decode(const struct rm_layout *layout, enum rm_kind kind, uint32_t request, const void *block, size_t size,
              struct rm_call *ret);

const char *rm_kind_name(enum rm_kind kind); /* "ALLOC", "UVM_MAP_EXTERNAL" */

/*
 * Bytes of parameters that the driver copies for this call: for a control the claimed size (which the
 * driver compares with its own table), for an allocation the size that its class has in this release
 * (classes.def). 0: none, or an unknown class.
 */
uint32_t rm_params_size(const struct rm_layout *layout, const struct rm_call *call);

/* A pointer inside a control's parameters that the driver follows (pointers.def). */
struct rm_pointer {
        uint32_t cmd, since; /* since: the first branch with it */
        uint32_t at;         /* offset of the u64 pointer; 0 there: the driver skips it */
        uint32_t count_at;   /* offset of the u32 count of elements */
        uint32_t power;      /* there are as many elements as the count, or (2) as its square */
        uint32_t element;    /* bytes of one element; 0: not described, do not perform the control */
        bool in, out;        /* the driver reads it, writes it */
};

/* The pointers inside a control's parameters. Returns their number; *ret is static. */
size_t rm_pointers(const struct rm_layout *layout, uint32_t cmd, const struct rm_pointer **ret);

/* Bytes behind a pointer, by the count in the copy of the parameters; 0: the pointer is 0; UINT64_MAX: not described.
 * The driver refuses more than RM_PARAMS_MAX, and so should the caller. */
uint64_t rm_pointer_bytes(const struct rm_pointer *pointer, const void *params, size_t size);

/* "RM_CLASS_VIDEO_MEMORY"-like short names for messages; NULL: no row. */
const char *rm_class_name(uint32_t class_number);
const char *rm_control_name(uint32_t cmd);
