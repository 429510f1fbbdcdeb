/* SPDX-License-Identifier: Apache-2.0 */
/* Any configuration file of NVIDIA's plugin: refused in one line, or read into what kubelet can be offered. */
#include "kube/nvidia/nvidia.h"

#include "base/err.h"
#include "conf/file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct nvidia_config config;
        struct conf_lines lines = { 0 };
        struct err err = { 0 };
        json_t *root = NULL;

        if (conf_parse("file", (const char *)data, size, &root, &lines, NULL) == 0) {
                if (nvidia_config_read("file", root, &lines, &config, &err) < 0) {
                        if (!err.text[0] || strchr(err.text, '\n'))
                                abort();
                } else if (!config.replicas || config.replicas > NVIDIA_REPLICAS_MAX || !strchr(config.name, '/') ||
                           (config.is_mps && !config.is_single))
                        abort();
        }
        json_decref(root);
        conf_lines_done(&lines);
        return 0;
}
