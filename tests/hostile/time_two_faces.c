/* SPDX-License-Identifier: Apache-2.0 */
/* A service that launches and waits for a step of 0.4 ms, and that, once it is known for one, has kernels of 300 ms:
 * nothing waits in its rings then either. */
#include "kit_time.h"

int main(void)
{
        time_start();
        time_change();
        return 0;
}
