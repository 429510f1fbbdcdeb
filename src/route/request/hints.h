/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request's headers ask for: a deadline, a priority. Text of clients, of any length and without an end.
 *
 * Threads: any. No memory.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Milliseconds in digits, as a span of at most `most`, also if no type can hold the number. False: none. */
bool hints_deadline(const void *text, size_t size, nsec most, nsec *ret);

/* Digits, perhaps after a '-'. False: none, or out of range. */
bool hints_priority(const void *text, size_t size, int32_t *ret);
