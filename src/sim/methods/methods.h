/* The handlers of methods.def. Each reads and writes params (perhaps empty) and answers a status. */
#pragma once

#include "sim/server/machine.h"

struct method_call {
        struct machine *machine;
        struct request *request;
        struct object *object; /* whose method it is; perhaps the client's top */
        struct gpu *gpu;       /* of the object; NULL: none */
        struct part *params;
};

static inline uint32_t params_get(const struct method_call *call, size_t at)
{
        return rm_get32(call->params->data, call->params->size, at);
}

static inline void params_put(struct method_call *call, size_t at, uint32_t value)
{
        rm_put32(call->params->data, call->params->size, at, value);
}

uint32_t method_zeros(struct method_call *call);
uint32_t method_nothing(struct method_call *call);

/* facts.c */
uint32_t method_build_version(struct method_call *call);
uint32_t method_attached_ids(struct method_call *call);
uint32_t method_id_info(struct method_call *call);
uint32_t method_id_info_v2(struct method_call *call);
uint32_t method_probed_ids(struct method_call *call);
uint32_t method_attach_ids(struct method_call *call);
uint32_t method_pci_info(struct method_call *call);
uint32_t method_active_ids(struct method_call *call);
uint32_t method_n_subdevices(struct method_call *call);
uint32_t method_class_list(struct method_call *call);
uint32_t method_device_info(struct method_call *call);
uint32_t method_name(struct method_call *call);
uint32_t method_short_name(struct method_call *call);
uint32_t method_gpu_id(struct method_call *call);
uint32_t method_gid(struct method_call *call);
uint32_t method_engines(struct method_call *call);
uint32_t method_context_size(struct method_call *call);
uint32_t method_memory_info_v1(struct method_call *call);
uint32_t method_memory_info(struct method_call *call);
uint32_t method_architecture(struct method_call *call);
uint32_t method_pci_ids(struct method_call *call);
uint32_t method_bus_info(struct method_call *call);

/* schedule.c; exports of memory: objects/exports.c; records: engine/records.c */
uint32_t method_address_space(struct method_call *call);
uint32_t method_inherited_share(struct method_call *call);
uint32_t method_share(struct method_call *call);
uint32_t method_export_object(struct method_call *call);
uint32_t method_import_object(struct method_call *call);
uint32_t method_export_info(struct method_call *call);
uint32_t method_export_objects(struct method_call *call);
uint32_t method_import_objects(struct method_call *call);
uint32_t method_surface_info(struct method_call *call);
uint32_t method_channel_list(struct method_call *call);
uint32_t method_channel_property(struct method_call *call);
uint32_t method_pids(struct method_call *call);
uint32_t method_pid_info(struct method_call *call);
uint32_t method_disable_channels(struct method_call *call);
uint32_t method_bind_records_v1(struct method_call *call);
uint32_t method_bind_records(struct method_call *call);
uint32_t method_schedule(struct method_call *call);
uint32_t method_set_timeslice(struct method_call *call);
uint32_t method_get_timeslice(struct method_call *call);
uint32_t method_group_info(struct method_call *call);
uint32_t method_channel_id(struct method_call *call);
uint32_t method_engine_of(struct method_call *call);
uint32_t method_records(struct method_call *call);
uint32_t method_preempt(struct method_call *call);
uint32_t method_time(struct method_call *call);
uint32_t method_times(struct method_call *call);
