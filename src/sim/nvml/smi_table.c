/* SPDX-License-Identifier: Apache-2.0 */
/* What nvidia-smi prints without options, and with -L. See smi.c. */
#include "sim/nvml/smi.h"

#include <stdio.h>
#include <time.h>

enum {
        PROCESSES_MAX = 256,
        NAME_SIZE = 128,
};

static const char line[] =
        "+-----------------------------------------------------------------------------------------+";

static unsigned long long mib(unsigned long long bytes)
{
        return (bytes + (512 << 10)) >> 20;
}

static void print_head(void)
{
        char when[64] = "", release[NAME_SIZE] = "";
        time_t now = time(NULL);
        struct tm at;
        int cuda = 0;

        if (localtime_r(&now, &at))
                (void)strftime(when, sizeof(when), "%a %b %e %H:%M:%S %Y", &at);
        smi_check("driver", nvmlSystemGetDriverVersion(release, sizeof(release)));
        smi_check("cuda", nvmlSystemGetCudaDriverVersion(&cuda));
        printf("%s\n%s\n", when, line);
        printf("| NVIDIA-SMI %-17s Driver Version: %-15s CUDA Version: %2d.%-9d |\n", release, release, cuda / 1000,
               cuda % 1000 / 10);
        puts("|-----------------------------------------+------------------------+----------------------+");
        puts("| GPU  Name                               | Bus-Id                 |         Memory-Usage |");
        puts("|                                         |                        | GPU-Util      MIG M. |");
        puts("|=========================================+========================+======================|");
}

static void print_device(unsigned int i, nvmlDevice_t device)
{
        nvmlMemory_v2_t memory = { .version = nvmlMemory_v2 };
        nvmlUtilization_t used = { 0 };
        char name[NAME_SIZE] = "", text[NAME_SIZE], util[16];
        unsigned int mig = 0, pending;
        nvmlPciInfo_t pci = { 0 };
        bool has_mig = nvmlDeviceGetMigMode(device, &mig, &pending) == NVML_SUCCESS;

        smi_check("name", nvmlDeviceGetName(device, name, sizeof(name)));
        smi_check("pci", nvmlDeviceGetPciInfo(device, &pci));
        smi_check("memory", nvmlDeviceGetMemoryInfo_v2(device, &memory));
        if (nvmlDeviceGetUtilizationRates(device, &used) == NVML_SUCCESS)
                (void)snprintf(util, sizeof(util), "%u%%", used.gpu);
        else
                (void)snprintf(util, sizeof(util), "N/A");
        (void)snprintf(text, sizeof(text), "%lluMiB / %lluMiB", mib(memory.used), mib(memory.total));
        printf("| %3u  %-34.34s | %-22.22s | %20s |\n", i, name, pci.busId, text);
        printf("| %-39s | %-22s | %8s %11s |\n", "", "", util, !has_mig ? "N/A" : mig ? "Enabled" : "Disabled");
        puts("+-----------------------------------------+------------------------+----------------------+");
}

static unsigned int print_processes(unsigned int i, nvmlDevice_t device)
{
        static nvmlProcessInfo_t processes[PROCESSES_MAX];
        unsigned int n = PROCESSES_MAX;

        smi_check("processes", nvmlDeviceGetComputeRunningProcesses(device, &n, processes));
        for (unsigned int k = 0; k < n; k++) {
                char name[NAME_SIZE] = "-";

                (void)nvmlSystemGetProcessName(processes[k].pid, name, sizeof(name));
                printf("| %4u  %10u      C   %-46.46s %10lluMiB |\n", i, processes[k].pid, name,
                       mib(processes[k].usedGpuMemory));
        }
        return n;
}

void smi_table(void)
{
        unsigned int count, n = 0;
        nvmlDevice_t device;

        smi_check("count", nvmlDeviceGetCount(&count));
        print_head();
        for (unsigned int i = 0; i < count; i++) {
                smi_check("device", nvmlDeviceGetHandleByIndex(i, &device));
                print_device(i, device);
        }
        printf("\n%s\n", line);
        puts("| Processes:                                                                              |");
        puts("|  GPU         PID   Type   Process name                                       GPU Memory |");
        puts("|=========================================================================================|");
        for (unsigned int i = 0; i < count; i++) {
                smi_check("device", nvmlDeviceGetHandleByIndex(i, &device));
                n += print_processes(i, device);
        }
        if (!n)
                puts("|  No running processes found                                                             |");
        puts(line);
}

void smi_list(void)
{
        unsigned int count;

        smi_check("count", nvmlDeviceGetCount(&count));
        for (unsigned int i = 0; i < count; i++) {
                char name[NAME_SIZE] = "", uuid[NAME_SIZE] = "";
                nvmlDevice_t device;

                smi_check("device", nvmlDeviceGetHandleByIndex(i, &device));
                smi_check("name", nvmlDeviceGetName(device, name, sizeof(name)));
                smi_check("uuid", nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
                printf("GPU %u: %s (UUID: %s)\n", i, name, uuid);
        }
}
