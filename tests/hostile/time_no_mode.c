/* SPDX-License-Identifier: Apache-2.0 */
/* Never says how its context is to be preempted, as libcuda does: it has the mode that the driver gives to those, and
 * kernels of 100 ms whose blocks are as long. If that mode waits for them, others get their turns late. */
#include "kit_time.h"

int main(void)
{
        time_tricks.hides_mode = true;
        time_tricks.times = 130;
        time_start();
        time_compute();
        return 0;
}
