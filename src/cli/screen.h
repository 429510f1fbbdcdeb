/* SPDX-License-Identifier: Apache-2.0 */
/* Draws `sublet top`: an overview and the operator's choices become a frame. Pure. */
#pragma once

#include "cli/overview.h"
#include "cli/frame.h"

struct screen {
        const struct overview *overview;
        const char *version; /* "580.159.04 (driver)" */
        const char *clock;   /* "10:30:05" */
        const char *failure; /* why the figures are old; NULL: they are not */
        enum overview_order order;
        const char *prompt;         /* a question, instead of the keys; NULL: none */
        bool is_reversed, has_keys; /* keys are named at the bottom */
        bool is_help;               /* instead of the tenants */
        bool has_processes;         /* below their tenants: with keys those of the chosen one, else all */
        int chosen, first;          /* rows of the overview: the chosen one, the topmost shown */
};

/* Rows that the whole picture takes. */
int screen_height(const struct screen *screen);

/* Draws; moves `first` so that the chosen row is visible. */
void screen_draw(struct screen *screen, struct frame *frame);
