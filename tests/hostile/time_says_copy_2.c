/* SPDX-License-Identifier: Apache-2.0 */
/* Its compute group says that it belongs to copy engine 2, which has a run list of its own. It computes all the same: a
 * channel goes where its first object belongs. */
#include "kit_time.h"

int main(void)
{
        time_tricks.says = 11;
        time_start();
        time_compute();
        return 0;
}
