/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's numbers that more than one file needs. Each name resembles the driver's own.
 * Source unless said otherwise: open-gpu-kernel-modules 525.147.05 to 595.45.04, the same in all.
 */
#pragma once

#include <stdint.h>

/* Request numbers of /dev/nvidiactl and /dev/nvidiaN: bits 0-7 of the request. */
#define RM_NR_ALLOC_MEMORY 0x27u
#define RM_NR_FREE 0x29u
#define RM_NR_CONTROL 0x2au
#define RM_NR_ALLOC 0x2bu
#define RM_NR_DUP 0x34u
#define RM_NR_SHARE 0x35u
#define RM_NR_VID_HEAP 0x4au
#define RM_NR_MAP_MEMORY 0x4eu
#define RM_NR_UNMAP_MEMORY 0x4fu
#define RM_NR_EVENT_DATA 0x52u
#define RM_NR_UPDATE_MAPPING 0x5eu
#define RM_NR_CARD_INFO 0xc8u
#define RM_NR_REGISTER_FD 0xc9u
#define RM_NR_ALLOC_EVENT 0xceu
#define RM_NR_FREE_EVENT 0xcfu
#define RM_NR_FREE_EVENT 0xcfu
#define RM_NR_CHECK_VERSION 0xd2u
#define RM_NR_XFER 0xd3u
#define RM_NR_SYS_PARAMS 0xd6u
#define RM_NR_NUMA_INFO 0xd7u
#define RM_NR_EXPORT_DMABUF 0xd9u
#define RM_NR_WAIT_OPEN 0xdau

/* What the driver looks at of a request on these nodes, put together. */
#define RM_REQUEST(nr, size) ((uint32_t)(size) << 16 | (uint32_t)(nr))

#define RM_RIGHTS_SIZE 4u            /* RS_ACCESS_MASK: one limb (rs_access.h) */
#define RM_PARAMS_MAX (1024 * 1024u) /* RMAPI_PARAM_COPY_MAX_PARAMS_SIZE (param_copy.h) */

/* Requests of /dev/nvidia-uvm: the whole low 32 bits are the number. */
#define UVM_INITIALIZE 0x30000001u
#define UVM_DEINITIALIZE 0x30000002u
#define UVM_MAP_EXTERNAL 33u
#define UVM_FREE 34u
#define UVM_REGISTER_GPU 37u
#define UVM_UNMAP_EXTERNAL 66u
#define UVM_SEMAPHORE_POOL 68u
#define UVM_CREATE_EXTERNAL 73u
#define UVM_MM_INITIALIZE 75u

/* Object classes. */
#define RM_CLASS_ROOT 0x0u
#define RM_CLASS_ROOT_NON_PRIV 0x1u
#define RM_CLASS_HOST_MEMORY 0x3eu
#define RM_CLASS_VIDEO_MEMORY 0x40u
#define RM_CLASS_CLIENT 0x41u
#define RM_CLASS_OS_DESCRIPTOR 0x71u
#define RM_CLASS_OS_EVENT 0x79u
#define RM_CLASS_DEVICE 0x80u
#define RM_CLASS_USER_DATA 0xdeu /* the page of live figures, RM_USER_SHARED_DATA */
#define RM_CLASS_SUBDEVICE 0x2080u
#define RM_CLASS_CONTEXT_SHARE 0x9067u
#define RM_CLASS_MEMORY_VIRTUAL_OLD 0x70u
#define RM_CLASS_MEMORY_VIRTUAL 0x50a0u
#define RM_CLASS_ADDRESS_SPACE 0x90f1u /* FERMI_VASPACE_A */
#define RM_CLASS_GROUP 0xa06cu         /* channel group, TSG */

/* A channel's class ends in 0x6f whatever the chip: 0xc36f, 0xc46f, 0xc56f, 0xc86f, 0xc96f, ... */
/* Objects of copy engines: 0xc0b5, 0xc8b5 and so on. */
#define RM_CLASS_IS_COPY(c) ((c) % 0x100u == 0xb5u && (c) > 0xffu)

/* What a group or a channel says of its engine: NV2080_ENGINE_TYPE_COPY0 to COPY9. Source: cl2080_notification.h,
 * 525.147.05 to 595.45.04. */
#define RM_ENGINE_IS_COPY(e) ((e) >= 0x09u && (e) <= 0x12u)

/* Objects of one engine, which cannot compute: copy, decoder (0x..b0), encoder (b7), JPEG (d1), optical flow (fa). */
#define RM_CLASS_IS_FIXED_ENGINE(c)                                                                                    \
        ((c) > 0xffu && ((c) % 0x100u == 0xb0u || (c) % 0x100u == 0xb5u || (c) % 0x100u == 0xb7u ||                    \
                         (c) % 0x100u == 0xd1u || (c) % 0x100u == 0xfau))

#define RM_CLASS_IS_CHANNEL(c) ((c) % 0x100u == 0x6fu && (c) > 0xffu)

/* Controls. */
#define RM_GET_PROBED_IDS 0x214u
#define RM_GET_ATTACHED_IDS 0x201u
#define RM_GET_ID_INFO 0x202u
#define RM_GET_ID_INFO_V2 0x205u
#define RM_FB_GET_INFO_V2 0x20801303u
#define RM_INHERITED_SHARE 0x00000d04u
#define RM_GET_PIDS 0x2080018du
#define RM_GET_PID_INFO 0x2080018eu
#define RM_SET_TIMESLICE 0xa06c0103u
#define RM_GET_TIMESLICE 0xa06c0104u
#define RM_DEBUG_READ 0x83de0315u
#define RM_DEBUG_WRITE 0x83de0316u
#define RM_DISABLE_CHANNELS 0x2080110bu

/* Results, in the status word of a block. */
#define RM_STATUS_OK 0x0u
#define RM_STATUS_INSUFFICIENT_PERMISSIONS 0x1bu
#define RM_STATUS_INSUFFICIENT_RESOURCES 0x1au
#define RM_STATUS_INVALID_ARGUMENT 0x1fu
#define RM_STATUS_INVALID_CHANNEL 0x21u
#define RM_STATUS_INVALID_CLASS 0x22u
#define RM_STATUS_INVALID_CLIENT 0x23u
#define RM_STATUS_INVALID_OBJECT_HANDLE 0x33u /* also: a dup's source client does not exist */
#define RM_STATUS_INVALID_PARAM_STRUCT 0x3au
#define RM_STATUS_NO_MEMORY 0x51u
#define RM_STATUS_NOT_SUPPORTED 0x56u
#define RM_STATUS_OBJECT_NOT_FOUND 0x57u

/* Fields of a memory allocation's attr, attr2 and flags (docs/rm-abi.md 2.2). */
#define RM_ATTR_LOCATION(attr) (((attr) >> 25) & 3u)  /* 0 video memory, 1 PCI, 3 any */
#define RM_ATTR_PAGE_SIZE(attr) (((attr) >> 23) & 3u) /* 0 default, 1 4 KiB, 2 big, 3 huge */
#define RM_ATTR2_HUGE(attr2) (((attr2) >> 20) & 3u)   /* 0/1 2 MiB, 2 512 MiB, 3 256 GiB */
#define RM_FLAG_VIRTUAL 0x00080000u

/* Indexes of RM_FB_GET_INFO_V2; data is KiB. */
#define RM_FB_RAM_SIZE 0x07u
#define RM_FB_TOTAL_RAM 0x08u
#define RM_FB_HEAP_SIZE 0x09u
#define RM_FB_MAPPABLE_HEAP 0x0au
#define RM_FB_TAX 0x10u
#define RM_FB_LARGEST_FREE 0x12u
#define RM_FB_LARGEST_BASE 0x13u
#define RM_FB_HEAP_FREE 0x16u
#define RM_FB_USABLE_RAM 0x20u
#define RM_FB_INDEX_LAST 0x3bu
