/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers to names, for messages. */
#include "rm/call.h"

#include "rm/numbers.h"

const char *rm_kind_name(enum rm_kind kind)
{
        switch (kind) {
#define REQUEST(kind_, node, nr, size, status, fd, client, meaning)                                                    \
        case RM_##kind_:                                                                                               \
                return #kind_;
#include "rm/requests.def"
#undef REQUEST
        case RM_N_KINDS:
                break;
        }
        return "?";
}

const char *rm_class_name(uint32_t class_number)
{
        switch (class_number) {
#define CLASS(number, size, name)                                                                                      \
        case number:                                                                                                   \
                return name;
#include "rm/classes.def"
#undef CLASS
        default:
                return NULL;
        }
}

const char *rm_control_name(uint32_t cmd)
{
        switch (cmd) {
#define CONTROL(number, name)                                                                                          \
        case number:                                                                                                   \
                return name;
#include "rm/controls.def"
#undef CONTROL
        default:
                return NULL;
        }
}
