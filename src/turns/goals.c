/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which goals can be kept beside each other. turns.h has the bound; steps.c (S7) keeps them.
 */
#include "turns/inside.h"

nsec turns_goal_least(uint32_t share, size_t n)
{
        nsec round = nsec_max((nsec)n * TURNS_GOAL_ROOM, share ? TURN_SHORT * PPM / share : TURNS_GOAL_MOST);

        if (n <= 1 || share >= PPM)
                return TURNS_GOAL_REST;
        return nsec_min(TURNS_GOAL_REST + 2 * part(round, PPM - share), TURNS_GOAL_MOST);
}
