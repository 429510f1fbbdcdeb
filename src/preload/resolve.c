/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/resolve.h"

#include "preload/inside.h"
#include "preload/partition.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

typedef void *(*dlsym_fn)(void *handle, const char *name);

/* Called by name in dlsym.c. */
void *resolve_symbol(void *handle, const char *name);
dlsym_fn resolve_next(void);

/* An entry point: where the driver's address is kept, and the interposed function. */
struct row {
        const char *symbol;
        size_t at;
        void *ours;
};

/* Functions as data, as for dlsym and cuGetProcAddress: a pedantic compiler objects. */
#define CALL(name, arguments) { #name, offsetof(struct driver, name), (void *)name },
#define NEED(name, arguments) { #name, offsetof(struct driver, name), NULL },
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
static const struct row rows[] = {
#include "preload/calls.def"
};
#pragma GCC diagnostic pop
#undef CALL
#undef NEED

static struct driver driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* libc's dlsym, past the interposed one, in whichever library libc keeps it. */
dlsym_fn resolve_next(void)
{
        static dlsym_fn _Atomic next;

        if (!next)
                next = (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        return next;
}

static void **pointer_slot(const struct row *row)
{
        return (void **)(void *)((char *)&driver + row->at);
}

/* libcuda is loaded already: the program calls it. */
static void driver_resolve(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

        for (size_t i = 0; library && i < sizeof(rows) / sizeof(*rows); i++)
                *pointer_slot(&rows[i]) = resolve_next()(library, rows[i].symbol);
}

const struct driver *driver_get(void)
{
        (void)pthread_once(&once, driver_resolve);
        return &driver;
}

static void *ours_for(void *address)
{
        if (!address)
                return NULL;
        (void)driver_get();
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                if (rows[i].ours && *pointer_slot(&rows[i]) == address)
                        return rows[i].ours;
        return address;
}

void *resolve_symbol(void *handle, const char *name)
{
        void *address = resolve_next()(handle, name);

        return name && !strncmp(name, "cu", 2) && partition_is_requested() ? ours_for(address) : address;
}

EXPORTED CUresult cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *ret_status)
{
        CUresult (*ask)(const char *, void **, int, uint64_t, int *) = driver_get()->cuGetProcAddress_v2;
        CUresult r = ask ? ask(name, ret, version, flags, ret_status) : CUDA_ERROR_NOT_FOUND;

        if (r == CUDA_SUCCESS && ret && partition_is_requested())
                *ret = ours_for(*ret);
        return r;
}

EXPORTED CUresult cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags)
{
        CUresult (*ask)(const char *, void **, int, uint64_t) = driver_get()->cuGetProcAddress;
        CUresult r = ask ? ask(name, ret, version, flags) : CUDA_ERROR_NOT_FOUND;

        if (r == CUDA_SUCCESS && ret && partition_is_requested())
                *ret = ours_for(*ret);
        return r;
}
