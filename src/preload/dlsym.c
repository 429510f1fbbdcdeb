/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym, x86-64. RTLD_NEXT means "after the calling library", which libc tells from the return address. So such a call
 * jumps to libc's dlsym, as if this library were not there. Every other call goes to resolve_symbol.
 */
__asm__(".text\n"
        ".hidden resolve_next\n"
        ".hidden resolve_symbol\n"
        ".globl preload_dlsym, preload_dlsym_old\n"
        ".type preload_dlsym, @function\n"
        ".type preload_dlsym_old, @function\n"
        "preload_dlsym:\n"
        "preload_dlsym_old:\n"
        "        endbr64\n"
        "        cmp $-1, %rdi\n" /* RTLD_NEXT */
        "        jne resolve_symbol\n"
        "        push %rdi\n"
        "        push %rsi\n"
        "        sub $8, %rsp\n"
        "        call resolve_next\n"
        "        add $8, %rsp\n"
        "        pop %rsi\n"
        "        pop %rdi\n"
        "        jmp *%rax\n"
        ".size preload_dlsym, . - preload_dlsym\n"
        ".symver preload_dlsym_old, dlsym@GLIBC_2.2.5\n"
        ".symver preload_dlsym, dlsym@@GLIBC_2.34\n");
