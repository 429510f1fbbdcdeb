/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixed-function engines of a device: what is not the graphics and compute engine. A channel is of the one whose
 * object is made in it.
 *
 * Threads: any.
 */
#pragma once

#include <stdint.h>

enum rm_engine {
        RM_ENGINE_NONE, /* graphics and compute, or not known yet */
#define ENGINE(engine, name) RM_ENGINE_##engine,
#include "sublet/engines.def"
#undef ENGINE
        RM_N_ENGINES,
};

/* By an object's class; source: the class headers of 525.147.05 to 595.45.04, whose last byte is the engine's. */
enum rm_engine rm_engine_of_class(uint32_t class_number);

const char *rm_engine_name(enum rm_engine engine); /* "copy", "decoder", "encoder", "jpeg", "optical-flow"; "none" */
