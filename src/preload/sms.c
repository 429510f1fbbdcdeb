/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/sms.h"

unsigned int sms_wanted(struct sms sms, unsigned int all)
{
        unsigned int wanted = sms.count ? sms.count : (all * sms.permille + 500) / 1000;

        if (!wanted)
                wanted = 1;
        return wanted <= all ? wanted : 0;
}

unsigned int sms_nearest(unsigned int wanted, unsigned int (*size)(void *context, unsigned int n), void *context)
{
        unsigned int above = size(context, wanted);

        for (unsigned int n = wanted - 1; n > 0 && above != wanted; n--) {
                unsigned int below = size(context, n);

                if (above && wanted - n > above - wanted)
                        break;
                if (below && below <= wanted)
                        return !above || wanted - below <= above - wanted ? below : above;
        }
        return above;
}
