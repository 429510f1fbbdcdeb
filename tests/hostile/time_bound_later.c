/* SPDX-License-Identifier: Apache-2.0 */
/* Its compute group says copy engine, and is bound to the graphics engine before it is scheduled. */
#include "kit_time.h"

int main(void)
{
        time_tricks.says = 9;
        time_tricks.binds = true;
        time_start();
        time_compute();
        return 0;
}
