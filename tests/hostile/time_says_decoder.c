/* SPDX-License-Identifier: Apache-2.0 */
/* Its compute group says that it belongs to a JPEG decoder. */
#include "kit_time.h"

int main(void)
{
        time_tricks.says = 43;
        time_start();
        time_compute();
        return 0;
}
