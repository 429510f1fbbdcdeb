/* The end of a tenant's books. */
#pragma once

#include "gate/gate.h"

/* Every process of the tenant has ended: waits until its books are empty, at most 5 s, and says so of those that
 * are not (BOOKS_NOT_EMPTY). */
void settle(struct gate *gate, const struct lease *lease);
