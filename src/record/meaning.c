/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a number of the driver belongs to, also one that is in no header: the number of a control says which class it is
 * of (its upper half) and which part of that class's interface (bits 8 to 15, of which bit 7 marks numbers of older
 * drivers). Source: ctrlxxxx.h, ctrl2080base.h, ctrl0080base.h, ctrl0000base.h, 525.147.05 to 595.45.04.
 */
#include "record/record.h"

#include "base/cleanup.h"
#include "gate/policy/decide.h"
#include "rm/numbers.h"

#include <stdio.h>

enum {
        PART_MASK = 0x3f, /* without the marks of old numbers */
        ANY = -1,
};

static const struct {
        uint32_t class_number;
        int part;
        const char *meaning;
} parts[] = {
        { 0x0000, 0x01, "the system" },
        { 0x0000, 0x02, "which devices there are" },
        { 0x0000, 0x03, "frame lock between devices" },
        { 0x0000, 0x05, "events" },
        { 0x0000, 0x0b, "virtual GPUs" },
        { 0x0000, 0x0d, "clients" },
        { 0x0000, 0x0f, "IMEX, memory of other hosts" },
        { 0x0000, 0x3d, "descriptors of Unix" },
        { 0x0080, 0x02, "the device" },
        { 0x0080, 0x11, "graphics engine" },
        { 0x0080, 0x13, "video memory" },
        { 0x0080, 0x14, "host interface" },
        { 0x0080, 0x17, "channels" },
        { 0x0080, 0x18, "page tables" },
        { 0x0080, 0x1b, "encoders" },
        { 0x0080, 0x1c, "decoders" },
        { 0x0080, 0x1f, "JPEG engine" },
        { 0x0080, 0x20, "internals of the driver" },
        { 0x0080, 0x28, "performance" },
        { 0x2080, 0x01, "the device" },
        { 0x2080, 0x02, "fuses" },
        { 0x2080, 0x03, "events" },
        { 0x2080, 0x04, "timer" },
        { 0x2080, 0x05, "temperatures" },
        { 0x2080, 0x06, "I2C" },
        { 0x2080, 0x08, "firmware of the board" },
        { 0x2080, 0x0a, "internals of the driver" },
        { 0x2080, 0x10, "clocks" },
        { 0x2080, 0x11, "channels and run lists" },
        { 0x2080, 0x12, "graphics and compute engine" },
        { 0x2080, 0x13, "video memory" },
        { 0x2080, 0x17, "interrupts" },
        { 0x2080, 0x18, "bus" },
        { 0x2080, 0x20, "performance states" },
        { 0x2080, 0x22, "errors and watchdog" },
        { 0x2080, 0x25, "page tables" },
        { 0x2080, 0x26, "power of the board" },
        { 0x2080, 0x27, "power" },
        { 0x2080, 0x2a, "copy engines" },
        { 0x2080, 0x30, "NVLink" },
        { 0x2080, 0x31, "engines' own processors" },
        { 0x2080, 0x32, "voltages" },
        { 0x2080, 0x34, "memory errors" },
        { 0x2080, 0x35, "fabric addresses" },
        { 0x2080, 0x36, "the driver's processor on the device" },
        { 0x2080, 0x38, "partitions" },
        { 0x2080, 0x3a, "DMA-BUF" },
        { 0x2080, 0x3d, "Unix" },
        { 0x2081, ANY, "methods by number; in no header" },
        { 0x208f, ANY, "diagnostics of a device" },
        { 0x0073, ANY, "display" },
        { 0x5070, ANY, "display" },
        { 0x503b, ANY, "peer mappings" },
        { 0x503c, ANY, "memory for networks" },
        { 0x83de, ANY, "debuggers" },
        { 0x90cc, ANY, "profilers" },
        { 0xb0cc, ANY, "profilers: hardware counters" },
        { 0xb2cc, ANY, "profilers: hardware counters" },
        { 0x90e7, ANY, "records of the board" },
        { 0xa06c, ANY, "channel groups" },
        { 0xc637, ANY, "MIG" },
        { 0xc638, ANY, "MIG" },
        { 0xcb33, ANY, "confidential computing" },
        { 0xc3b7, ANY, "encoders" },
};

static const char *interface_of(uint32_t class_number)
{
        switch (class_number) {
        case 0x0000:
                return "the driver as a whole";
        case 0x0080:
                return "a device";
        case 0x2080:
                return "a subdevice";
        default:
                return RM_CLASS_IS_CHANNEL(class_number) ? "a channel" : rm_class_name(class_number);
        }
}

static const char *part_of(uint32_t number)
{
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
                if (parts[i].class_number == number >> 16 &&
                    (parts[i].part == ANY || parts[i].part == (int)(number >> 8 & PART_MASK)))
                        return parts[i].meaning;
        return NULL;
}

/* Classes that end alike do alike, in each generation. Source: class/cl*.h. */
static const char *class_part(uint32_t number)
{
        switch (number & 0xff) {
        case 0x6f:
                return "a channel";
        case 0x97:
                return "3D graphics";
        case 0xc0:
                return "compute";
        case 0xb5:
                return "copies";
        case 0xb0:
                return "video decoder";
        case 0xb7:
                return "video encoder";
        case 0xd1:
                return "JPEG engine";
        case 0xfa:
                return "optical flow";
        case 0x40:
                return "inline copies to memory";
        case 0x2d:
                return "2D graphics";
        case 0xcc:
                return "profiler";
        case 0x61:
                return "doorbells";
        default:
                return NULL;
        }
}

const char *record_what(enum rm_kind kind)
{
        switch ((int)kind) {
        case RM_CONTROL:
                return "control";
        case RM_ALLOC:
        case RM_ALLOC_SHORT:
        case RM_ALLOC_MEMORY:
        case RM_ALLOC_CONTEXT_DMA:
                return "class";
        case RM_VID_HEAP:
                return "function of the heap";
        default:
                return "request";
        }
}

const char *record_name(enum rm_kind kind, uint32_t number)
{
        const char *what = record_what(kind);
        const char *name = kind == RM_CONTROL ? rm_control_name(number) :
                           *what == 'c'       ? rm_class_name(number) :
                           kind < RM_N_KINDS  ? rm_kind_name(kind) :
                                                NULL;

        return name && *name != '?' ? name : "";
}

const char *record_meaning(enum rm_kind kind, uint32_t number, char buffer[static RECORD_MEANING_MAX])
{
        const char *part = NULL, *interface = NULL;

        if (kind == RM_CONTROL) {
                part = part_of(number);
                interface = interface_of(number >> 16);
                (void)snprintf(buffer, RECORD_MEANING_MAX, "a control of %s%s%s",
                               interface ? interface : "an unknown class", part ? ": " : "", part ? part : "");
        } else if (record_what(kind)[0] == 'c') {
                part = number >= 0x1000 ? class_part(number) : NULL;
                (void)snprintf(buffer, RECORD_MEANING_MAX, "a class%s%s", part ? ": " : "", part ? part : "");
        } else {
                (void)snprintf(buffer, RECORD_MEANING_MAX, "a request of the driver's nodes");
        }
        return buffer;
}
