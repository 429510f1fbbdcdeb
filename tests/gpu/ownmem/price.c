/* SPDX-License-Identifier: Apache-2.0 */
/* The figure, and the calls of libcuda, each with what it took. */
#define _GNU_SOURCE
#include "ownmem.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
        NR_CONTROL = 0x2a,
        NR_ALLOC = 0x2b,
        UVM_INITIALIZE = 0x30000001,
        UVM_REGISTER_CHANNEL = 27,
        ROWS = 512,
};

/* ---- the figure -------------------------------------------------------------------------------------- */

static __thread int is_ours; /* a call of NVML's */

long long used(void)
{
        static int (*info)(void *, void *);
        static void *device;
        unsigned long long memory[3] = { 0 };

        is_ours++;
        if (!info) {
                void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
                int (*init)(void) = nvml ? (int (*)(void))dlsym(nvml, "nvmlInit_v2") : NULL;
                int (*get)(unsigned int, void *) =
                        nvml ? (int (*)(unsigned int, void *))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2") : NULL;

                info = nvml ? (int (*)(void *, void *))dlsym(nvml, "nvmlDeviceGetMemoryInfo") : NULL;
                if (!init || !get || !info || init() || get(0, &device))
                        kit_cannot("no NVML");
        }
        (void)info(device, memory);
        is_ours--;
        return (long long)memory[2];
}

/* ---- the calls of libcuda ------------------------------------------------------------------------------- */

struct row {
        char what[40];
        unsigned int n;
        long long sum, most, asked;
};

static struct row rows[ROWS];
static size_t n_rows;
static bool is_pricing, is_saving;
struct saved saved[SAVED_MAX];
size_t n_saved;
unsigned char registered[56];
int price_ctl = -1, price_uvm = -1;

static void note(const char *what, long long delta, long long asked)
{
        struct row *row = rows;

        while (row < rows + n_rows && strcmp(row->what, what) != 0)
                row++;
        if (row == rows + ROWS)
                return;
        if (row == rows + n_rows) {
                n_rows++;
                (void)snprintf(row->what, sizeof(row->what), "%s", what);
        }
        row->n++;
        row->sum += delta;
        row->asked += asked;
        if (delta - asked > row->most)
                row->most = delta - asked;
}

bool is_channel(uint32_t class_number)
{
        return class_number % 0x100 == 0x6f && class_number > 0xff;
}

static void save(const unsigned char *block)
{
        struct saved *to = &saved[n_saved];
        const void *params;
        uint64_t at;

        memcpy(&at, block + 16, 8);
        params = (const void *)(uintptr_t)at;
        *to = (struct saved){
                kit_get32(block, 0), kit_get32(block, 4), kit_get32(block, 8), kit_get32(block, 12), 0, { 0 }
        };
        /* 384: more than a channel's parameters; the rest of the caller's stack does no harm */
        to->size = to->class_number == CLASS_GROUP ? 32 :
                   to->class_number == CLASS_SHARE ? 12 :
                   is_channel(to->class_number)    ? 384 :
                                                     8;
        if (params)
                memcpy(to->params, params, to->size);
        else
                to->size = 0;
        n_saved++;
}

static void save_call(int fd, unsigned long request, const unsigned char *block)
{
        uint32_t class_number;

        if (request == UVM_REGISTER_CHANNEL && kit_get32(registered, 24) == 0)
                memcpy(registered, block, sizeof(registered));
        if (request < 0x100)
                price_uvm = fd;
        if ((request & 0xff) != NR_ALLOC || request < 0x10000 || n_saved == SAVED_MAX)
                return;
        class_number = kit_get32(block, 12);
        if (class_number == CLASS_GROUP || class_number == CLASS_SHARE || is_channel(class_number) ||
            (class_number & 0xff) == 0xc0 || (class_number & 0xff) == 0xb5) {
                price_ctl = fd;
                save(block);
        }
}

static void name_of(unsigned long request, const unsigned char *block, char what[static 40])
{
        if (request < 0x100 || request == UVM_INITIALIZE)
                (void)snprintf(what, 40, "uvm %lu", request & 0xff);
        else if ((request & 0xff) == NR_ALLOC)
                (void)snprintf(what, 40, "alloc 0x%04x", kit_get32(block, 12));
        else if ((request & 0xff) == NR_CONTROL)
                (void)snprintf(what, 40, "control 0x%08x", kit_get32(block, 8));
        else
                (void)snprintf(what, 40, "request 0x%02lx", request & 0xff);
}

/* What class 0x40 asked for, as the driver rounded it. */
static long long asked_by(unsigned long request, const unsigned char *block)
{
        uint64_t params, size = 0;

        if ((request & 0xff) != NR_ALLOC || request < 0x10000 || kit_get32(block, 12) != CLASS_MEMORY)
                return 0;
        memcpy(&params, block + 16, 8);
        if (params)
                memcpy(&size, (const char *)(uintptr_t)params + 64, 8);
        return (long long)size;
}

int ioctl(int fd, unsigned long request, ...)
{
        static int (*next)(int, unsigned long, ...);
        long long before;
        char what[40];
        va_list list;
        void *at;
        int r;

        va_start(list, request);
        at = va_arg(list, void *);
        va_end(list);
        request &= 0xffffffffu;
        if (!next)
                next = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
        if (is_ours || !at || (request >> 8 != 0 && request != UVM_INITIALIZE && (request >> 8 & 0xff) != 'F'))
                return next(fd, request, at);
        if (is_saving)
                save_call(fd, request, at);
        if (!is_pricing)
                return next(fd, request, at);
        name_of(request, at, what);
        before = used();
        r = next(fd, request, at);
        note(what, used() - before, asked_by(request, at));
        return r;
}

static void rows_print(const char *part)
{
        for (size_t i = 0; i < n_rows; i++)
                if (rows[i].sum || !strncmp(rows[i].what, "alloc", 5))
                        printf("%s what=\"%s\" n=%u taken_kib=%lld asked_kib=%lld own_kib=%lld most_own_kib=%lld\n",
                               part, rows[i].what, rows[i].n, rows[i].sum / KIB, rows[i].asked / KIB,
                               (rows[i].sum - rows[i].asked) / KIB, rows[i].most / KIB);
        n_rows = 0;
}

void price_calls(void (*make)(void), const char *part)
{
        long long before = used();

        is_pricing = true;
        make();
        is_pricing = false;
        printf("%s taken_kib=%lld\n", part, (used() - before) / KIB);
        rows_print(part);
}

void price_save(void (*make)(void))
{
        is_saving = true;
        make();
        is_saving = false;
        (void)used();
}

/* ---- steps, each with its price --------------------------------------------------------------------------- */

void say(const char *what, unsigned int n, long long before, long long asked, struct kit_outcome outcome)
{
        long long own = used() - before - asked;

        printf("own what=\"%s\" n=%u own_kib=%lld each_kib=%.1f status=0x%llx errno=%d\n", what, n, own / KIB,
               (double)own / 1024 / (n ? n : 1), (unsigned long long)outcome.status, outcome.error);
}

struct kit_outcome driver_call(int fd, unsigned long request, void *block, size_t status_at)
{
        struct kit_outcome outcome = { .status = -1 };

        kit_put32(block, status_at, 0xffffffffu);
        outcome.rc = ioctl(fd, request, block);
        if (outcome.rc == 0)
                outcome.status = kit_get32(block, status_at);
        return outcome;
}

void say_left(const char *what, long long before)
{
        printf("own what=\"left after %s\" n=1 own_kib=%lld\n", what, (used() - before) / KIB);
}

struct kit_outcome memory_alloc(const struct kit_rm *rm, uint32_t handle, uint64_t size, uint32_t page)
{
        unsigned char params[128] = { 0 };

        kit_put32(params, 0, rm->client);
        kit_put32(params, 8, 0x1c101);
        kit_put32(params, 24, 0x10000000 | page << 23);
        kit_put32(params, 28, page == 3 ? 0x100005 : 5);
        kit_put32(params, 32, 6);
        kit_put64(params, 64, size);
        kit_put64(params, 88, size - 1);
        return kit_rm_alloc(rm, KIT_DEVICE, handle, CLASS_MEMORY, params, sizeof(params));
}
