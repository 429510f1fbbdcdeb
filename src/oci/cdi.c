/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/cdi.h"

#include <stdio.h>

static void list_append(json_t *list, json_t *value)
{
        (void)json_array_append_new(list, value);
}

static json_t *node(const char *format, unsigned int minor)
{
        char path[64];

        (void)snprintf(path, sizeof(path), format, minor);
        return json_pack("{s:s}", "path", path);
}

/* The nodes of devices `first` to `end` - 1. A simulated machine's nodes are in its directory, which is mounted. */
static json_t *edits_of(const struct machine *machine, size_t first, size_t end)
{
        json_t *nodes = json_array();

        for (size_t i = first; i < end && !machine->sim[0]; i++)
                list_append(nodes, node("/dev/nvidia%u", machine->devices[i].minor));
        return json_pack("{s:[s], s:o}", "env", "NVIDIA_VISIBLE_DEVICES=void", "deviceNodes", nodes);
}

static json_t *device(const char *name, json_t *edits)
{
        return json_pack("{s:s, s:o}", "name", name, "containerEdits", edits);
}

static json_t *devices_of(const struct machine *machine)
{
        json_t *list = json_array();
        char index[24];

        for (size_t i = 0; i < machine->n_devices; i++) {
                (void)snprintf(index, sizeof(index), "%zu", i);
                list_append(list, device(index, edits_of(machine, i, i + 1)));
                if (machine->devices[i].uuid[0])
                        list_append(list, device(machine->devices[i].uuid, edits_of(machine, i, i + 1)));
        }
        list_append(list, device("all", edits_of(machine, 0, machine->n_devices)));
        return list;
}

static json_t *variable(const char *name, const char *value)
{
        return json_sprintf("%s=%s", name, value);
}

/* What every device needs. A tenant has no use for nvidia-uvm-tools and nvidia-caps, where every call is refused. */
static json_t *common(const struct machine *machine)
{
        json_t *mounts = json_array(), *edits = json_pack("{s:o}", "mounts", mounts);

        for (size_t i = 0; i < machine->n_mounts; i++)
                list_append(mounts, json_pack("{s:s, s:s, s:[s, s, s, s]}", "hostPath", machine->mounts[i].host,
                                              "containerPath", machine->mounts[i].container, "options", "ro", "nosuid",
                                              "nodev", "rbind"));
        if (machine->sim[0])
                (void)json_object_set_new(edits, "env",
                                          json_pack("[o, o, o]", variable("SUBLET_SIM", machine->sim),
                                                    variable("LD_PRELOAD", machine->preload),
                                                    variable("LD_LIBRARY_PATH", machine->libraries)));
        else
                (void)json_object_set_new(edits, "deviceNodes",
                                          json_pack("[o, o]", node("/dev/nvidiactl", 0), node("/dev/nvidia-uvm", 0)));
        return edits;
}

json_t *cdi_write(const struct machine *machine, const struct spec_paths *paths)
{
        json_t *edits = common(machine);

        if (paths)
                (void)json_object_set_new(edits, "hooks", json_pack("[o]", spec_hook(paths, "createRuntime")));
        return json_pack("{s:s, s:s, s:o, s:o}", "cdiVersion", "0.5.0", "kind", CDI_KIND, "devices",
                         devices_of(machine), "containerEdits", edits);
}
