/* SPDX-License-Identifier: Apache-2.0 */
/* What cmocka wants before itself. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
