/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/policy/decide.h"

#include "base/cleanup.h"
#include "gate/policy/own.h"
#include "lease/capabilities.h"
#include "lease/lease.h"
#include "lease/ledger.h"
#include "rm/numbers.h"

#include <errno.h>

enum what {
        REQUEST,
        CLASS,
        CONTROL,
        FUNCTION, /* of VID_HEAP */
        OLD,      /* class of ALLOC_MEMORY */
        DMA,      /* class of ALLOC_CONTEXT_DMA */
};

struct rule {
        enum what what;
        uint32_t number;
        enum gate_action action;
        uint32_t status;
        const char *because;
        unsigned int capability;
};

/* The names that rules.def uses for numbers of requests. */
#define REQUEST_OF(kind) RM_##kind

static const struct rule rules[] = {
#define RULE(what, number, action, status, because) { what, number, GATE_##action, status, because, CAPABILITY_NONE },
#define RULE_OF(capability, what, number, action, status, because)                                                     \
        { what, number, GATE_##action, status, because, CAPABILITY_##capability },
#include "gate/policy/rules.def"
#undef RULE
#undef RULE_OF
};

enum {
        GRANULE = 64 * 1024,
        FLAG_FIXED_ADDRESS = 0x10,
};

/* The compiler makes a search of these; a number that stands twice does not compile. */
static const struct rule *rule_find(enum what what, uint32_t number)
{
        enum { FIRST = __COUNTER__ + 1 };

#define KEY(what, number) ((uint64_t)(what) << 32 | (uint32_t)(number))
        switch (KEY(what, number)) {
#define RULE(what, number, action, status, because)                                                                    \
        case KEY(what, number):                                                                                        \
                return &rules[__COUNTER__ - FIRST];
#define RULE_OF(capability, what, number, action, status, because) RULE(what, number, action, status, because)
#include "gate/policy/rules.def"
#undef RULE
#undef RULE_OF
#undef KEY
        default:
                return NULL;
        }
}

static void deny(struct gate_verdict *verdict, uint32_t status, const char *because)
{
        *verdict = (struct gate_verdict){ .action = GATE_DENY, .status = status, .because = because };
}

/* G3, in the driver's words: what it says of a number that it does not know. */
static void deny_unknown(const struct rm_call *call, enum what what, struct gate_verdict *verdict)
{
        if (what == CLASS || what == OLD || what == DMA)
                deny(verdict, RM_STATUS_INVALID_CLASS, "no rule for this class");
        else if (what == CONTROL)
                deny(verdict, RM_STATUS_NOT_SUPPORTED, "no rule for this control");
        else if (what == FUNCTION)
                deny(verdict, RM_STATUS_NOT_SUPPORTED, "no rule for this function of the heap");
        else
                deny(verdict, 0, "no rule for this request");
        verdict->is_unknown = true;
        if (call->status_at == UINT32_MAX || what == REQUEST)
                verdict->error = -EINVAL;
}

static enum what table_of(enum rm_kind kind)
{
        switch ((int)kind) {
        case RM_ALLOC:
        case RM_ALLOC_SHORT:
                return CLASS;
        case RM_CONTROL:
                return CONTROL;
        case RM_VID_HEAP:
                return FUNCTION;
        case RM_ALLOC_CONTEXT_DMA:
                return DMA;
        default:
                return OLD;
        }
}

/* Channels have many class numbers; treat every one alike, as the driver does. */
static uint32_t rule_class(uint32_t number)
{
        return RM_CLASS_IS_CHANNEL(number) ? 0x6f : number;
}

static bytes round_up(bytes size, bytes granule)
{
        return size > INT64_MAX - granule ? UINT64_MAX : (size + granule - 1) / granule * granule;
}

/* Offsets in NV_MEMORY_ALLOCATION_PARAMS, 525 to 595. */
enum {
        MEMORY_FLAGS_AT = 8,
        MEMORY_ATTR_AT = 24,
        MEMORY_ATTR2_AT = 28,
        MEMORY_SIZE_AT = 64,
        MEMORY_PARAMS_MIN = 120,
};

/* Left to the driver, the page size follows the size: 2 MiB from 2 MiB on. */
static bytes granule_of(uint32_t attr, uint32_t attr2, bytes size)
{
        if (RM_ATTR_PAGE_SIZE(attr) == 0)
                return size >= 2 * MIB ? 2 * MIB : GRANULE;
        if (RM_ATTR_PAGE_SIZE(attr) != 3)
                return GRANULE;
        switch (RM_ATTR2_HUGE(attr2)) {
        case 2:
                return 512 * MIB;
        case 3:
                return 256 * GIB;
        default:
                return 2 * MIB;
        }
}

bytes gate_memory_size(const void *params, size_t params_size)
{
        uint32_t attr = rm_get32(params, params_size, MEMORY_ATTR_AT);
        uint32_t attr2 = rm_get32(params, params_size, MEMORY_ATTR2_AT);
        bytes size = rm_get64(params, params_size, MEMORY_SIZE_AT);

        return round_up(size ? size : 1, granule_of(attr, attr2, size));
}

/* Class 0x40 is video memory only where it says so; the driver refuses the rest (docs/rm-abi.md 2.1). */
static void decide_memory(const void *params, size_t size, struct gate_verdict *verdict)
{
        uint32_t flags = rm_get32(params, size, MEMORY_FLAGS_AT);
        uint32_t attr = rm_get32(params, size, MEMORY_ATTR_AT);

        if (size < MEMORY_PARAMS_MIN)
                deny(verdict, RM_STATUS_INVALID_PARAM_STRUCT, "parameters are too short");
        else if (flags & FLAG_FIXED_ADDRESS)
                deny(verdict, RM_STATUS_INVALID_ARGUMENT, "at a fixed address it takes more than it says");
        else if (flags & RM_FLAG_VIRTUAL || RM_ATTR_LOCATION(attr) != 0)
                deny(verdict, RM_STATUS_INVALID_ARGUMENT, "class 0x40 is video memory");
        else
                verdict->size = gate_memory_size(params, size);
}

static void decide_host(const struct rm_call *call, const void *block, const void *params, size_t size,
                        struct gate_verdict *verdict)
{
        enum { OLD_LIMIT_AT = 32 };
        uint64_t limit = rm_get64(block, call->block_size, OLD_LIMIT_AT);

        if (call->kind == RM_ALLOC_MEMORY)
                verdict->size = limit == UINT64_MAX ? UINT64_MAX : round_up(limit + 1, 4096);
        else if (size < MEMORY_PARAMS_MIN)
                deny(verdict, RM_STATUS_INVALID_PARAM_STRUCT, "parameters are too short");
        else
                verdict->size = round_up(rm_get64(params, size, MEMORY_SIZE_AT), 4096);
}

static void decide_fabric(const void *params, size_t size, struct gate_verdict *verdict)
{
        if (size < GATE_FABRIC_PARAMS_MIN)
                deny(verdict, RM_STATUS_NOT_SUPPORTED, "fabric memory of a release before 535.54.03");
        else
                verdict->size = rm_get64(params, size, GATE_FABRIC_SIZE_AT);
}

/* NVOS32 function 2, ALLOC_SIZE: becomes class 0x40 if its location is video memory (docs/rm-abi.md 2.1). */
static void decide_heap(const struct rm_call *call, const void *block, struct gate_verdict *verdict)
{
        enum { FLAGS_AT = 52, ATTR_AT = 56, SIZE_AT = 88, ATTR2_AT = 144 };
        uint32_t flags = rm_get32(block, call->block_size, FLAGS_AT);
        uint32_t attr = rm_get32(block, call->block_size, ATTR_AT);
        uint32_t attr2 = rm_get32(block, call->block_size, ATTR2_AT);
        bytes size = rm_get64(block, call->block_size, SIZE_AT);

        if (flags & RM_FLAG_VIRTUAL) {
                verdict->action = GATE_OBJECT; /* addresses, fixed or not */
                verdict->size = own_reservation(flags, attr, size, &verdict->most);
        } else if (flags & FLAG_FIXED_ADDRESS) {
                deny(verdict, RM_STATUS_INVALID_ARGUMENT, "at a fixed address it takes more than it says");
        } else if (RM_ATTR_LOCATION(attr) == 0) {
                verdict->action = GATE_CHARGE;
                verdict->size = round_up(size ? size : 1, granule_of(attr, attr2, size));
        } else {
                verdict->action = GATE_HOST;
                verdict->size = round_up(size, 4096);
        }
}

/* It has no size: all of the space. */
static void decide_old_reservation(struct gate_verdict *verdict)
{
        verdict->size = own_tables_anywhere(1, OWN_PAGES_HUGE);
        verdict->most = UINT64_MAX;
}

/* A new address space, or another handle of the device object's own. The other numbers are spaces that all clients of
 * the device share: of the bus, and of the fabric, whose addresses are few (gate/memory.c); RM keeps only the first of
 * them to itself. Source: vaspaceapiConstruct (vaspace_api.c), NV_VASPACE_ALLOCATION_INDEX in nvos.h, 525 to 595. */
static bool is_shared_space(const struct rm_call *call, const void *params, size_t size)
{
        enum { INDEX_AT = 0, NEW = 0, OF_DEVICE = 3 };
        uint32_t index = rm_get32(params, size, INDEX_AT);

        return call->class_or_cmd == RM_CLASS_ADDRESS_SPACE && index != NEW && index != OF_DEVICE;
}

/*
 * A context gives way when its engine is idle (0), between blocks of threads (1) or anywhere (2): of the first two, one
 * with a kernel that does not end keeps the device. CUDA asks for 2, graphics for 1 (tests/trace), neither for a mode
 * of graphics. Parameters: docs/rm-abi.md 4, 525 to 595.
 */
static void decide_mode(const void *params, size_t size, struct gate_verdict *verdict)
{
        enum { FLAGS_AT = 0, COMPUTE_AT = 12, SIZE = 32, SETS_COMPUTE = 1, BETWEEN_BLOCKS = 1, ANYWHERE = 2 };
        uint32_t flags = rm_get32(params, size, FLAGS_AT), mode = rm_get32(params, size, COMPUTE_AT);

        if (size < SIZE) {
                deny(verdict, RM_STATUS_INVALID_PARAM_STRUCT, "parameters are too short");
        } else if (flags != SETS_COMPUTE) {
                deny(verdict, RM_STATUS_NOT_SUPPORTED, "a mode of preemption that no program was seen to ask for");
        } else if (mode != ANYWHERE && mode != BETWEEN_BLOCKS) {
                deny(verdict, RM_STATUS_NOT_SUPPORTED, "others would wait until its kernels end");
        } else {
                verdict->action = GATE_PERFORM;
                verdict->capability = mode == BETWEEN_BLOCKS ? CAPABILITY_GRAPHICS : CAPABILITY_NONE;
        }
}

/* What the driver takes for it by itself. */
static void decide_own(const struct rm_call *call, const void *params, size_t size, struct gate_verdict *verdict)
{
        enum { SPACE_AT = 108, OLD_SPACE_AT = 16 };

        if (is_shared_space(call, params, size)) {
                deny(verdict, RM_STATUS_INVALID_ARGUMENT, "an address space that all share");
        } else if (call->class_or_cmd == RM_CLASS_MEMORY_VIRTUAL) {
                verdict->size =
                        own_reservation(rm_get32(params, size, MEMORY_FLAGS_AT), rm_get32(params, size, MEMORY_ATTR_AT),
                                        rm_get64(params, size, MEMORY_SIZE_AT), &verdict->most);
                verdict->space = rm_get32(params, size, SPACE_AT);
        } else if (call->class_or_cmd == RM_CLASS_MEMORY_VIRTUAL_OLD) {
                decide_old_reservation(verdict);
                verdict->space = rm_get32(params, size, OLD_SPACE_AT);
        } else {
                verdict->size = own_of_class(NULL, call->class_or_cmd, params, size);
        }
}

/* Parameters in the driver's own serialised form would mean something else than we read. Source:
 * NVOS54_FLAGS_FINN_SERIALIZED, NVOS64_FLAGS_FINN_SERIALIZED in nvos.h. */
static bool is_serialised(const struct rm_layout *layout, const struct rm_call *call, const void *block)
{
        if (call->kind == RM_CONTROL)
                return rm_get32(block, call->block_size, 12) & 4u;
        if (call->kind == RM_ALLOC)
                return rm_get32(block, call->block_size, layout->alloc_status_at - 4) & 1u;
        return false;
}

/* The row of a call; *ret_what: in which table it was looked up last. */
static const struct rule *rule_of(enum rm_kind kind, uint32_t number, enum what *ret_what)
{
        const struct rule *rule = rule_find(REQUEST, kind);

        *ret_what = REQUEST;
        if (!rule || rule->action != GATE_LOOKUP)
                return rule;
        *ret_what = table_of(kind);
        return rule_find(*ret_what, *ret_what == CLASS ? rule_class(number) : number);
}

static struct gate_verdict verdict_of(const struct rule *rule)
{
        return (struct gate_verdict){
                .action = rule->action, .status = rule->status, .because = rule->because, .capability = rule->capability
        };
}

bool gate_takes_memory(const struct gate_verdict *verdict)
{
        switch (verdict->action) {
        case GATE_CHARGE:
        case GATE_FABRIC:
        case GATE_IMPORT:
        case GATE_MOVE:
        case GATE_GROW:
        case GATE_HOLD: /* page tables, of these four */
        case GATE_NOTHING:
        case GATE_PLAIN:
        case GATE_POOL:
                return true;
        case GATE_OBJECT:
                return verdict->size;
        default:
                return false;
        }
}

bool gate_rule(enum rm_kind kind, uint32_t number, struct gate_verdict *ret)
{
        enum what what;
        const struct rule *rule = rule_of(kind, number, &what);

        if (rule)
                *ret = verdict_of(rule);
        return rule;
}

void gate_decide(const struct rm_layout *layout, const struct rm_call *call, const void *block, const void *params,
                 size_t params_size, struct gate_verdict *ret)
{
        enum what what;
        const struct rule *rule = rule_of(call->kind, call->class_or_cmd, &what);

        if (is_serialised(layout, call, block)) {
                deny(ret, RM_STATUS_NOT_SUPPORTED, "serialised parameters");
                return;
        }
        if (!rule) {
                deny_unknown(call, what, ret);
                return;
        }
        *ret = verdict_of(rule);
        if (ret->action == GATE_QUIET) {
                ret->action = GATE_DENY;
                ret->is_quiet = true;
        }
        if (ret->action == GATE_DENY && call->status_at == UINT32_MAX)
                ret->error = -EPERM;
        if (what == FUNCTION && ret->action == GATE_CHARGE)
                decide_heap(call, block, ret);
        else if (ret->action == GATE_CHARGE)
                decide_memory(params, params_size, ret);
        else if (ret->action == GATE_OBJECT)
                decide_own(call, params, params_size, ret);
        else if (ret->action == GATE_HOLLOW)
                decide_old_reservation(ret);
        else if (ret->action == GATE_FABRIC)
                decide_fabric(params, params_size, ret);
        else if (ret->action == GATE_HOST)
                decide_host(call, block, params, params_size, ret);
        else if (ret->action == GATE_MODE)
                decide_mode(params, params_size, ret);
}

static const struct field {
        enum what what;
        uint32_t number, offset;
        bool is_fd;
} fields[] = {
#define CLIENT_FIELD(what, number, offset, meaning) { what, number, offset, false },
#define FD_FIELD(what, number, offset, meaning) { what, number, offset, true },
#include "gate/policy/foreign.def"
#undef CLIENT_FIELD
#undef FD_FIELD
};

/* How many there are, of which the first n_room are put. */
static size_t fields_of(const struct rm_call *call, bool is_fd, uint32_t *offsets, size_t n_room)
{
        enum what what = table_of(call->kind);
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (fields[i].what == what && fields[i].number == call->class_or_cmd && fields[i].is_fd == is_fd &&
                    n++ < n_room)
                        offsets[n - 1] = fields[i].offset;
        return n;
}

size_t gate_client_fields(const struct rm_call *call, const uint32_t **ret_offsets)
{
        static __thread uint32_t offsets[GATE_CLIENT_FIELDS_MAX];

        *ret_offsets = offsets;
        return fields_of(call, false, offsets, ARRAY_SIZE(offsets));
}

uint32_t gate_params_fd(const struct rm_call *call)
{
        uint32_t offset = UINT32_MAX;

        (void)fields_of(call, true, &offset, 1);
        return offset;
}

/*
 * MIG: without a subscription a client has nothing of a device in MIG mode. Parameters of both classes: the
 * capability's descriptor@0 (u64), id@8. Source: open-gpu-kernel-modules, sdk/nvidia/inc/class/clc637.h and clc638.h;
 * read, not run: no device in MIG mode was there. The driver checks the capability besides (perform.c gives it our
 * duplicate).
 */
enum {
        GPU_INSTANCE = 0xc637,
        COMPUTE_INSTANCE = 0xc638,
        PARAMS_SIZE = 16,
};

uint32_t gate_check_instance(const struct lease *lease, uint32_t class_number, const void *params, size_t params_size,
                             const struct ledger_object *parent)
{
        bool is_compute = class_number == COMPUTE_INSTANCE;
        uint32_t id = rm_get32(params, params_size, 8);
        const struct lease_device *device;

        if (!is_compute && class_number != GPU_INSTANCE)
                return RM_STATUS_OK;
        if (params_size < PARAMS_SIZE)
                return RM_STATUS_INVALID_PARAM_STRUCT;
        if (parent->class_number != (is_compute ? GPU_INSTANCE : RM_CLASS_SUBDEVICE))
                return RM_STATUS_INVALID_ARGUMENT;
        if (parent->device < 0 || (unsigned int)parent->device >= lease->n_devices)
                return RM_STATUS_INSUFFICIENT_PERMISSIONS;
        device = &lease->devices[parent->device];
        if (!device->is_granted || !device->mig.is_one || id != (is_compute ? device->mig.compute : device->mig.gpu))
                return RM_STATUS_INSUFFICIENT_PERMISSIONS;
        return RM_STATUS_OK;
}
