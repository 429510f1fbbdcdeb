/* SPDX-License-Identifier: Apache-2.0 */
/* Its compute group says that it belongs to copy engine 0, which has the run list of the graphics engine. */
#include "kit_time.h"

int main(void)
{
        time_tricks.says = 9;
        time_start();
        time_compute();
        return 0;
}
