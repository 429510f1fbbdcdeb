/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever answers as a daemon: top draws it, at any size, and nothing outside. Two bytes are the size, the rest is the
 * answer about tenants and devices, given twice: the second time there is a minute to remember. */
#include "base/clock.h"
#include "cli/overview.h"
#include "ask/field.h"
#include "cli/screen.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void draw(struct overview *overview, int n_rows, int n_columns)
{
        struct screen screen = {
                .overview = overview, .version = "", .clock = "", .has_keys = true, .chosen = n_rows - 3
        };
        struct frame frame = { 0 };

        if (frame_reset(&frame, n_rows, n_columns) == 0)
                screen_draw(&screen, &frame);
        if (overview->n_rows && (screen.chosen < 0 || screen.chosen >= (int)overview->n_rows || screen.first < 0))
                abort();
        for (int i = 0; i < n_rows * n_columns; i++)
                if (!frame.cells[i].c || frame.cells[i].style >= STYLE_N)
                        abort();
        frame_done(&frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct overview overview = { 0 };
        json_t *root;

        if (size < 2)
                return 0;
        root = json_loadb((const char *)data + 2, size - 2, JSON_DECODE_ANY, NULL);
        if (!root)
                return 0;
        for (int i = 0; i < 2; i++) {
                (void)overview_update(&overview, root, root, (nsec)data[0] * i * NSEC_PER_SEC / 4);
                overview_sort(&overview, (enum overview_order)(data[1] % OVERVIEW_N_ORDERS), i);
                draw(&overview, data[0] % 64, data[1]);
        }
        overview_done(&overview);
        json_decref(root);
        return 0;
}
