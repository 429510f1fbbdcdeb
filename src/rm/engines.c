/* SPDX-License-Identifier: Apache-2.0 */
#include "rm/engines.h"

#include "rm/numbers.h"

enum rm_engine rm_engine_of_class(uint32_t class_number)
{
        if (!RM_CLASS_IS_FIXED_ENGINE(class_number))
                return RM_ENGINE_NONE;
        switch (class_number % 0x100u) {
        case 0xb5:
                return RM_ENGINE_COPY;
        case 0xb0:
                return RM_ENGINE_DECODER;
        case 0xb7:
                return RM_ENGINE_ENCODER;
        case 0xd1:
                return RM_ENGINE_JPEG;
        default:
                return RM_ENGINE_OPTICAL_FLOW;
        }
}

const char *rm_engine_name(enum rm_engine engine)
{
        static const char *const names[RM_N_ENGINES] = {
                [RM_ENGINE_NONE] = "none",
#define ENGINE(engine, name) [RM_ENGINE_##engine] = name,
#include "sublet/engines.def"
#undef ENGINE
        };

        return engine < RM_N_ENGINES ? names[engine] : "?";
}
