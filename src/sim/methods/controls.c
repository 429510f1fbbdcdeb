/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods of objects: which there are, and what the driver checks before it calls one.
 *
 * In the driver's order: the object exists; its class has the method (else 0x56); the size of the
 * parameters is the method's (else 0x3a); the device is not lost. Parameters go back only with status 0.
 */
#include "sim/methods/methods.h"

#include "rm/numbers.h"

#include <string.h>

#define ANY UINT32_MAX

uint32_t method_zeros(struct method_call *call)
{
        memset(call->params->data, 0, call->params->size);
        return RM_STATUS_OK;
}

uint32_t method_nothing(struct method_call *call)
{
        (void)call;
        return RM_STATUS_OK;
}

struct method {
        uint32_t size;
        uint32_t (*answer)(struct method_call *call); /* NULL: there is no such method */
};

static struct method method_find(const struct rm_layout *layout, uint32_t number)
{
        switch (number) {
#define METHOD(number_, size, handler)                                                                                 \
        case number_:                                                                                                  \
                return (struct method){ size, method_##handler };
#include "sim/methods/methods.def"
#undef METHOD
        default:
                return (struct method){ ANY, rm_control_name(number) ? method_nothing : NULL };
        }
}

/* The upper half of a number is the class that defines the method; classes of one family share it. */
static bool has_method(const struct object *object, uint32_t number)
{
        uint32_t class_number = number >> 16;

        switch (class_number) {
        case 0:
                return object == &object->client->top;
        case 0x41:
                return object->memory != NULL;
        case RM_CLASS_DEVICE:
        case RM_CLASS_SUBDEVICE:
        case RM_CLASS_GROUP:
                return object->class_number == class_number;
        default:
                return !RM_CLASS_IS_CHANNEL(class_number) || object->channel;
        }
}

static void return_segments(struct machine *machine, struct request *request)
{
        const struct rm_pointer *pointers;
        size_t n = rm_pointers(&machine->layout, request->call.class_or_cmd, &pointers);

        request->segments[0].is_returned = true;
        for (size_t i = 0; i < n && i + 1 < request->header.n_segments; i++)
                request->segments[i + 1].is_returned = pointers[i].out;
}

uint32_t control_call(struct machine *machine, struct request *request)
{
        struct object *object = handles_get(request->client, request->call.object);
        struct method_call call = { machine, request, object, NULL, &request->segments[0] };
        struct method method;
        uint32_t status;

        if (!object)
                return RM_STATUS_OBJECT_NOT_FOUND;
        method = method_find(&machine->layout, request->call.class_or_cmd);
        if (!method.answer || !has_method(object, request->call.class_or_cmd))
                return RM_STATUS_NOT_SUPPORTED;
        if (method.size != ANY && request->call.params_size != method.size)
                return RM_STATUS_INVALID_PARAM_STRUCT;
        if (method.size != ANY && request->segments[0].size != method.size)
                return RM_STATUS_INVALID_ARGUMENT; /* no parameters where there must be some */
        call.gpu = object->gpu;
        if (call.gpu && call.gpu->is_lost)
                return SIM_STATUS_GPU_IS_LOST;
        status = method.answer(&call);
        if (status == RM_STATUS_OK)
                return_segments(machine, request);
        return status;
}
