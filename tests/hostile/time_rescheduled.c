/* SPDX-License-Identifier: Apache-2.0 */
/* A thread schedules all groups and channels again and again: what was switched off might come on. */
#include "kit_time.h"

int main(void)
{
        time_tricks.says = 9;
        time_tricks.repeats = true;
        time_start();
        time_compute();
        return 0;
}
