/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what a device tells of its health; see findings.h. */
#include "doctor/findings.h"

#include "base/cleanup.h"
#include "gpu/health.h"

#include <string.h>

/* Figures that are an ill sign when they are above 0, the worst first. */
static const struct sign {
        enum gpu_figure figure;
        const char *text, *next;
} signs[] = {
        { GPU_FIGURE_row_remap_failed, "a row of its memory could not be remapped", "have the device replaced" },
        { GPU_FIGURE_ecc_uncorrected_errors_total, "memory errors that ECC could not correct",
          "end its tenants and reset it: nvidia-smi -r; if they come again, have it replaced" },
        { GPU_FIGURE_row_remap_pending, "a row of its memory waits to be remapped",
          "end its tenants and reset it: nvidia-smi -r" },
        { GPU_FIGURE_thermal_slowdown, "it is too hot, and its clocks are lowered", "look at the machine's cooling" },
};

static void add(char *text, size_t size, const struct gpu_figures *figures, enum gpu_figure figure, const char *what,
                const char *unit)
{
        size_t n = strlen(text);

        if (gpu_figure_is_known(figures, figure))
                (void)snprintf(text + n, size - n, "%s%s%.0f%s", n ? ", " : "", what, figures->of[figure], unit);
}

void findings_judge_health(struct findings *findings, unsigned int index, const struct gpu_figures *figures)
{
        char text[200] = "";

        if (!figures || !figures->known) {
                findings_put(findings, "health", FINDING_UNKNOWN, "device %u: it tells nothing of its health", index);
                return;
        }
        add(text, sizeof(text), figures, GPU_FIGURE_temperature_celsius, "", " C");
        add(text, sizeof(text), figures, GPU_FIGURE_power_watts, "", " W");
        add(text, sizeof(text), figures, GPU_FIGURE_power_limit_watts, "limit ", " W");
        add(text, sizeof(text), figures, GPU_FIGURE_ecc_corrected_errors_total, "ECC corrected ", "");
        add(text, sizeof(text), figures, GPU_FIGURE_ecc_uncorrected_errors_total, "uncorrected ", "");
        for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
                if (gpu_figure_is_known(figures, signs[i].figure) && figures->of[signs[i].figure] > 0) {
                        findings_gap(findings, "health", FINDING_LIMITED, signs[i].next, "device %u: %s (%s)", index,
                                     signs[i].text, text);
                        return;
                }
        findings_put(findings, "health", FINDING_OK, "device %u: %s", index, text[0] ? text : "no ill sign");
}
