/* SPDX-License-Identifier: Apache-2.0 */
/* Its groups are scheduled before they have a channel, and again with each that comes. */
#include "kit_time.h"

int main(void)
{
        time_tricks.says = 9;
        time_tricks.schedules_old = true;
        time_start();
        time_compute();
        return 0;
}
