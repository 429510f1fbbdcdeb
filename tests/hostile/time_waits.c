/* SPDX-License-Identifier: Apache-2.0 */
/* Rings that say that work waits, without any: GP_PUT is written, and no doorbell is rung. Whoever believes them keeps
 * turns for a tenant that does not use them, and owes it the time. */
#include "kit_time.h"

int main(void)
{
        time_start();
        time_pretend();
        return 0;
}
