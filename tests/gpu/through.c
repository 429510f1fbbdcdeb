/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of load.c and memb.c, each looked up by its name when the program starts, as the CUDA runtime does:
 * limiters that are preloaded catch programs there, some of them there only. For bench/limiter on a device, in place of
 * -lcuda. A name that the library of the device does not have is a jump to nowhere, and found at the first call.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define CALL(name)                                                                                                     \
        void *through_##name;                                                                                          \
        __asm__(".globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name ": jmp *through_" #name      \
                "(%rip)\n");
#include "through.def"
#undef CALL

__attribute__((constructor)) static void look_up(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

        if (!library) {
                fprintf(stderr, "%s\n", dlerror());
                exit(1);
        }
#define CALL(name) through_##name = dlsym(RTLD_DEFAULT, #name);
#include "through.def"
}
