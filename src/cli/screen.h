/* `sublet top`'s picture: from an overview and what the operator chose to a frame. Pure. */
#pragma once

#include "cli/overview.h"
#include "cli/frame.h"

struct screen {
        const struct overview *overview;
        const char *version; /* "580.159.04 (driver)" */
        const char *clock;   /* "10:30:05" */
        const char *failure; /* why what is shown is old; NULL */
        enum overview_order order;
        bool is_reversed, has_keys; /* keys are named at the bottom */
        int chosen, first;          /* rows of the overview: the chosen one, the topmost shown */
};

/* Rows that all of it takes. */
int screen_height(const struct screen *screen);

/* Draws; moves `first` so that the chosen row is in sight. */
void screen_draw(struct screen *screen, struct frame *frame);
