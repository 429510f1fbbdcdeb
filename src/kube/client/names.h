/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in the API server through which the parts of Sublet communicate: resources that pods ask for, and annotations.
 * Plugin, extender, webhook and daemon use them; docs/kubernetes-wire.md has an example of each.
 */
#pragma once

/* Resources of a container. Whole numbers: units of memory (1 GiB unless set otherwise), percent of a device's time. */
#define NAME_MEMORY "sublet.dev/gpu-mem"
#define NAME_SHARE "sublet.dev/gpu-share"
#define NAME_COUNT "sublet.dev/gpu-count" /* of a node: its number of devices; of a pod: ANNOTATION_COUNTS */

/* gpushare's names for the same. All GPU containers of such a pod are on one device. */
#define NAME_ALIYUN_MEMORY "aliyun.com/gpu-mem"
#define NAME_ALIYUN_COUNT "aliyun.com/gpu-count"

/* HAMi's: how many devices; of each: MiB of memory, or percent of its memory; percent of its time; 0 (high) or 1. The
 * first alone is NVIDIA's, a whole device, and none of our business. */
#define NAME_NVIDIA "nvidia.com/gpu"
#define NAME_HAMI_MEMORY "nvidia.com/gpumem"
#define NAME_HAMI_PERCENT "nvidia.com/gpumem-percentage"
#define NAME_HAMI_CORES "nvidia.com/gpucores"
#define NAME_HAMI_PRIORITY "nvidia.com/priority"

/*
 * On a pod: on how many devices each container is, where that is more than one. The webhook writes it and multiplies
 * NAME_MEMORY and NAME_SHARE of the container, which kubelet counts, for a container that asks for NAME_COUNT. What is
 * there is divided again: two devices with half of it each. Nobody changes it afterwards.
 *      {"main":2}
 */
#define ANNOTATION_COUNTS "sublet.dev/gpu-counts"

/*
 * On a pod: whose words it was written in. "aliyun": all its GPU containers are on one device, and the extender writes
 * gpushare's annotations, which the containers read as variables. The webhook writes it. Nobody changes it afterwards.
 */
#define ANNOTATION_VOCABULARY "sublet.dev/vocabulary"
#define VOCABULARY_ALIYUN "aliyun"

/*
 * On a pod: the job that it belongs to, a name of its namespace, and how many of the job's pods ask for GPU memory.
 * None of them is bound before all of them have a place (kube/extender/jobs/jobs.h). The third is written by the
 * extender, so that the scheduler tries a waiting pod again; its value (seconds since the epoch) means nothing.
 */
#define ANNOTATION_JOB "sublet.dev/job"
#define ANNOTATION_JOB_PODS "sublet.dev/job-pods"
#define ANNOTATION_JOB_ASKED "sublet.dev/job-asked"

/*
 * On a pod: "true": its containers are on their devices in turns with others of that kind (docs/suspend.md, More than
 * the device). It is counted so, and nobody changes it afterwards.
 */
#define ANNOTATION_SWAP "sublet.dev/swap"

/*
 * On a pod: the trust group of its containers, a name of its namespace: with those of other pods of that group on their
 * device they are clients of one MPS server (docs/containers.md, Groups). It counts when a container starts.
 */
#define ANNOTATION_GROUP "sublet.dev/group"

/*
 * On a running pod: what its containers' tenants are to have from now on, of what was allocated to them, in the words
 * of `sublet set`. The device plugin of its node sees to it (kube/plugin/resize/resize.h).
 *      "8G" (of each device), "40" (percent), "50" (percent; "none"), "batch", "10ms" ("none"), "30s" ("none"),
 *      "8G" ("none")
 */
#define ANNOTATION_SET_MEMORY "sublet.dev/mem"
#define ANNOTATION_SET_SHARE "sublet.dev/share"
#define ANNOTATION_SET_CAP "sublet.dev/cap"
#define ANNOTATION_SET_CLASS "sublet.dev/class"
#define ANNOTATION_SET_GOAL "sublet.dev/latency"
#define ANNOTATION_SET_HOST_SWAP "sublet.dev/host-swap"
#define ANNOTATION_SET_SLEEP "sublet.dev/sleep-after" /* sleep_after.h; the webhook refuses another value */

/*
 * On a pod, written by the extender with the binding. The webhook keeps others from writing it.
 *      {"node":"n1","containers":{"main":{"device":0,"uuid":"GPU-...","mem_bytes":8589934592,"share_permille":300}}}
 * share_permille 0: no share was asked for. uuid "": the node does not name it. Of a container on several devices,
 * amounts are those of each, device and uuid the first's, and all of them are in
 *      "devices":[{"device":0,"uuid":"GPU-..."},{"device":1,"uuid":"GPU-..."}]
 */
#define ANNOTATION_ALLOCATION "sublet.dev/allocation"

/*
 * On a node, written by the device plugin: its devices, which may differ in memory.
 *      [{"index":0,"uuid":"GPU-...","mem_bytes":150110994432,"numa":0,"nvlink":[1],"healthy":true}]
 * numa is left out where it is not known. nvlink: indices of the devices that NVLink joins it with.
 * Without it, each of NAME_COUNT devices has an equal part of the node's memory.
 */
#define ANNOTATION_DEVICES "sublet.dev/devices"

/*
 * On a container, from the device plugin's answer to Allocate; no pod can write them. The device is there only if the
 * plugin chose it (without --placed). Runtimes pass them on if configured to (containerd: container_annotations).
 */
#define ANNOTATION_CONTAINER_MEMORY "sublet.dev/mem-bytes"
#define ANNOTATION_CONTAINER_DEVICE "sublet.dev/device" /* uuid */
#define ANNOTATION_CONTAINER_SHARE "sublet.dev/share-permille"

/* A container's own choice of its class: latency, normal, batch. */
#define VARIABLE_CLASS "SUBLET_CLASS"

/* gpushare's, on a pod; index, pod and device are also variables of its GPU containers, beside this one. */
#define VARIABLE_ALIYUN_CONTAINER "ALIYUN_COM_GPU_MEM_CONTAINER"
#define ANNOTATION_ALIYUN_INDEX "ALIYUN_COM_GPU_MEM_IDX"
#define ANNOTATION_ALIYUN_POD "ALIYUN_COM_GPU_MEM_POD"
#define ANNOTATION_ALIYUN_DEVICE "ALIYUN_COM_GPU_MEM_DEV"
#define ANNOTATION_ALIYUN_ASSIGNED "ALIYUN_COM_GPU_MEM_ASSIGNED"
#define ANNOTATION_ALIYUN_TIME "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
