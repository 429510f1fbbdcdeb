/* Whatever answers as a daemon: top draws it, at any size, and nothing outside. Two bytes are the size, the rest is the
 * answer about tenants and devices, given twice: the second time there is a minute to remember. */
#include "base/clock.h"
#include "cli/crowd.h"
#include "ask/field.h"
#include "cli/screen.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void draw(struct crowd *crowd, int n_rows, int n_columns)
{
        struct screen screen = { .crowd = crowd, .version = "", .clock = "", .has_keys = true, .chosen = n_rows - 3 };
        struct frame frame = { 0 };

        if (frame_reset(&frame, n_rows, n_columns) == 0)
                screen_draw(&screen, &frame);
        if (crowd->n_rows && (screen.chosen < 0 || screen.chosen >= (int)crowd->n_rows || screen.first < 0))
                abort();
        for (int i = 0; i < n_rows * n_columns; i++)
                if (!frame.cells[i].c || frame.cells[i].style >= STYLE_N)
                        abort();
        frame_done(&frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct crowd crowd = { 0 };
        json_t *root;

        if (size < 2)
                return 0;
        root = json_loadb((const char *)data + 2, size - 2, JSON_DECODE_ANY, NULL);
        if (!root)
                return 0;
        for (int i = 0; i < 2; i++) {
                (void)crowd_put(&crowd, root, root, (nsec)data[0] * i * NSEC_PER_SEC / 4);
                crowd_sort(&crowd, (enum crowd_order)(data[1] % CROWD_N_ORDERS), i);
                draw(&crowd, data[0] % 64, data[1]);
        }
        crowd_done(&crowd);
        json_decref(root);
        return 0;
}
