/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia-smi of the simulated machine, answered by the simulated NVML. `sublet sim` puts it first in PATH.
 *
 *      nvidia-smi                                                   devices and processes
 *      nvidia-smi -L                                                devices, a line each
 *      nvidia-smi --query-gpu=name,memory.total,memory.used --format=csv[,noheader][,nounits]
 *      nvidia-smi --query-compute-apps=pid,used_memory      --format=csv[,noheader][,nounits]
 *
 * Fields of a device: index name uuid pci.bus_id memory.total memory.reserved memory.used
 * memory.free driver_version mig.mode.current; of a process: pid process_name used_memory.
 */
#include "sim/nvml/smi.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        FIELDS_MAX = 16,
        PROCESSES_MAX = 256,
        FIELD_SIZE = 128,
};

struct format {
        bool has_header, has_units;
};

static void die(const char *what, nvmlReturn_t r)
{
        fprintf(stderr, "%s: %s\n", what, nvmlErrorString(r));
        exit(r == NVML_ERROR_DRIVER_NOT_LOADED ? 9 : 1);
}

void smi_check(const char *what, nvmlReturn_t r)
{
        if (r != NVML_SUCCESS)
                die(what, r);
}

/* "a,b" in place; how many. */
static size_t split(char *text, char *ret[static FIELDS_MAX])
{
        size_t n = 0;

        for (char *word = strtok(text, ","); word && n < FIELDS_MAX; word = strtok(NULL, ","))
                ret[n++] = word;
        return n;
}

static void put_bytes(char *to, unsigned long long bytes, bool has_units)
{
        (void)snprintf(to, FIELD_SIZE, "%llu%s", (bytes + (512 << 10)) >> 20, has_units ? " MiB" : "");
}

/* What a field is called above its column: "memory.total [MiB]". */
static void put_header(char *const *fields, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                bool is_bytes = strncmp(fields[i], "memory.", 7) == 0 || strstr(fields[i], "_memory");
                const char *name = strcmp(fields[i], "used_memory") == 0 ? "used_gpu_memory" : fields[i];

                printf("%s%s%s", i ? ", " : "", name, is_bytes ? " [MiB]" : "");
        }
        putchar('\n');
}

static bool device_field(nvmlDevice_t device, const char *field, const struct format *format, char *to)
{
        nvmlMemory_v2_t memory = { .version = nvmlMemory_v2 };
        unsigned int number, pending;
        nvmlPciInfo_t pci;

        if (strcmp(field, "name") == 0) {
                smi_check(field, nvmlDeviceGetName(device, to, FIELD_SIZE));
        } else if (strcmp(field, "uuid") == 0) {
                smi_check(field, nvmlDeviceGetUUID(device, to, FIELD_SIZE));
        } else if (strcmp(field, "index") == 0) {
                smi_check(field, nvmlDeviceGetIndex(device, &number));
                (void)snprintf(to, FIELD_SIZE, "%u", number);
        } else if (strcmp(field, "pci.bus_id") == 0) {
                smi_check(field, nvmlDeviceGetPciInfo(device, &pci));
                (void)snprintf(to, FIELD_SIZE, "%s", pci.busId);
        } else if (strcmp(field, "driver_version") == 0) {
                smi_check(field, nvmlSystemGetDriverVersion(to, FIELD_SIZE));
        } else if (strcmp(field, "mig.mode.current") == 0) {
                bool has = nvmlDeviceGetMigMode(device, &number, &pending) == NVML_SUCCESS;

                (void)snprintf(to, FIELD_SIZE, "%s", !has ? "[N/A]" : number ? "Enabled" : "Disabled");
        } else if (strncmp(field, "memory.", 7) == 0) {
                const char *which = field + 7;

                smi_check(field, nvmlDeviceGetMemoryInfo_v2(device, &memory));
                put_bytes(to,
                          strcmp(which, "total") == 0    ? memory.total :
                          strcmp(which, "reserved") == 0 ? memory.reserved :
                          strcmp(which, "used") == 0     ? memory.used :
                                                           memory.free,
                          format->has_units);
        } else {
                return false;
        }
        return true;
}

static int query_devices(char *query, const struct format *format)
{
        char *fields[FIELDS_MAX], text[FIELD_SIZE];
        size_t n = split(query, fields);
        unsigned int count;

        smi_check("count", nvmlDeviceGetCount(&count));
        if (format->has_header)
                put_header(fields, n);
        for (unsigned int i = 0; i < count; i++) {
                nvmlDevice_t device;

                smi_check("device", nvmlDeviceGetHandleByIndex(i, &device));
                for (size_t k = 0; k < n; k++) {
                        if (!device_field(device, fields[k], format, text)) {
                                fprintf(stderr, "Field \"%s\" is not a valid field to query.\n", fields[k]);
                                return 2;
                        }
                        printf("%s%s", k ? ", " : "", text);
                }
                putchar('\n');
        }
        return 0;
}

static void print_process(const nvmlProcessInfo_t *process, char *const *fields, size_t n, const struct format *format)
{
        for (size_t i = 0; i < n; i++) {
                char text[FIELD_SIZE] = "[N/A]";

                if (strcmp(fields[i], "pid") == 0)
                        (void)snprintf(text, sizeof(text), "%u", process->pid);
                else if (strcmp(fields[i], "process_name") == 0)
                        (void)nvmlSystemGetProcessName(process->pid, text, sizeof(text));
                else if (strstr(fields[i], "memory"))
                        put_bytes(text, process->usedGpuMemory, format->has_units);
                printf("%s%s", i ? ", " : "", text);
        }
        putchar('\n');
}

static int query_processes(char *query, const struct format *format)
{
        static nvmlProcessInfo_t processes[PROCESSES_MAX];
        char *fields[FIELDS_MAX];
        size_t n = split(query, fields);
        unsigned int count;

        smi_check("count", nvmlDeviceGetCount(&count));
        if (format->has_header)
                put_header(fields, n);
        for (unsigned int i = 0; i < count; i++) {
                unsigned int n_processes = PROCESSES_MAX;
                nvmlDevice_t device;

                smi_check("device", nvmlDeviceGetHandleByIndex(i, &device));
                smi_check("processes", nvmlDeviceGetComputeRunningProcesses(device, &n_processes, processes));
                for (unsigned int k = 0; k < n_processes; k++)
                        print_process(&processes[k], fields, n, format);
        }
        return 0;
}

static int help(FILE *to)
{
        (void)fputs("usage: nvidia-smi [-L | --query-gpu=FIELD,... | --query-compute-apps=FIELD,...]\n"
                    "                  [--format=csv[,noheader][,nounits]]\n"
                    "The simulated machine's. Without options: its devices and their processes.\n",
                    to);
        return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
        static const char gpu[] = "--query-gpu=", apps[] = "--query-compute-apps=", csv[] = "--format=";
        struct format format = { true, true };
        char *devices = NULL, *processes = NULL;
        bool is_list = argc == 2 && (!strcmp(argv[1], "-L") || !strcmp(argv[1], "--list-gpus"));
        int status = 0;

        if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help")))
                return help(stdout);
        if (argc == 1 || is_list) {
                smi_check("nvmlInit", nvmlInit());
                is_list ? smi_list() : smi_table();
                (void)nvmlShutdown();
                return 0;
        }
        for (int i = 1; i < argc; i++) {
                if (strncmp(argv[i], gpu, sizeof(gpu) - 1) == 0) {
                        devices = argv[i] + sizeof(gpu) - 1;
                } else if (strncmp(argv[i], apps, sizeof(apps) - 1) == 0) {
                        processes = argv[i] + sizeof(apps) - 1;
                } else if (strncmp(argv[i], csv, sizeof(csv) - 1) == 0) {
                        format.has_header = !strstr(argv[i], "noheader");
                        format.has_units = !strstr(argv[i], "nounits");
                } else {
                        devices = processes = NULL;
                        break;
                }
        }
        if (!devices == !processes)
                return help(stderr);
        smi_check("nvmlInit", nvmlInit());
        status = devices ? query_devices(devices, &format) : query_processes(processes, &format);
        (void)nvmlShutdown();
        return status;
}
