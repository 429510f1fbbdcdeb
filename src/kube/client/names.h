/*
 * What the parts of Sublet say to each other through the API server: resources that pods ask for, annotations
 * that we write. Plugin, extender, webhook and the daemon use these; docs/kubernetes-wire.md has an example of each.
 */
#pragma once

/* Resources of a container. Whole numbers: units of memory (1 GiB unless set otherwise), percent of a device's time. */
#define NAME_MEMORY "sublet.dev/gpu-mem"
#define NAME_SHARE "sublet.dev/gpu-share"
#define NAME_COUNT "sublet.dev/gpu-count" /* of a node only: how many devices its memory is on */

/* The same words of gpushare's. All GPU containers of such a pod are on one device. */
#define NAME_ALIYUN_MEMORY "aliyun.com/gpu-mem"
#define NAME_ALIYUN_COUNT "aliyun.com/gpu-count"

/*
 * On a pod, by the extender, with its binding; nobody else may write it (the webhook sees to it):
 *      {"node":"n1","containers":{"main":{"device":0,"uuid":"GPU-...","mem_bytes":8589934592,"share_permille":300}}}
 * share_permille 0: nothing was asked for. uuid is "" where the node does not say it.
 */
#define ANNOTATION_ALLOCATION "sublet.dev/allocation"

/*
 * On a node, by the device plugin: its devices, whose memories need not be equal.
 *      [{"index":0,"uuid":"GPU-...","mem_bytes":150110994432,"numa":0,"healthy":true}]
 * Without it a node's memory is divided by its NAME_COUNT.
 */
#define ANNOTATION_DEVICES "sublet.dev/devices"

/*
 * On a container, by kubelet, from the device plugin's Allocate; no pod can write them. What was allocated: the device is there only where the
 * plugin chose it (without --placed). Runtimes hand them on where they are told to (containerd: container_annotations).
 */
#define ANNOTATION_CONTAINER_MEMORY "sublet.dev/mem-bytes"
#define ANNOTATION_CONTAINER_DEVICE "sublet.dev/device" /* uuid */
#define ANNOTATION_CONTAINER_SHARE "sublet.dev/share-permille"

/* gpushare's, on a pod. */
#define ANNOTATION_ALIYUN_INDEX "ALIYUN_COM_GPU_MEM_IDX"
#define ANNOTATION_ALIYUN_POD "ALIYUN_COM_GPU_MEM_POD"
#define ANNOTATION_ALIYUN_DEVICE "ALIYUN_COM_GPU_MEM_DEV"
#define ANNOTATION_ALIYUN_ASSIGNED "ALIYUN_COM_GPU_MEM_ASSIGNED"
#define ANNOTATION_ALIYUN_TIME "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
