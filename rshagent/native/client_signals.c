/* The signals of client.c and direct_start.c: see client_signals.h. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "client_signals.h"

sigset_t inherited_mask;

#if defined BLOCKED_ENTRY && (defined __x86_64__ || defined __aarch64__)
/* Where the kernel starts the program, before the C library: rt_sigprocmask(SIG_SETMASK, &all, &inherited_mask, 8) is its
 * first system call, and _start finds all as it was. Not the C library's own signals, 32 to 34. */
__attribute__((used)) static const unsigned long long all_signals = ~(7ULL << 31);
#ifdef __x86_64__
__asm__(".pushsection .text\n"
        ".globl blocked_start\n"
        "blocked_start:\n"
        "    mov $14, %eax\n"
        "    mov $2, %edi\n"
        "    lea all_signals(%rip), %rsi\n"
        "    lea inherited_mask(%rip), %rdx\n"
        "    mov $8, %r10d\n"
        "    syscall\n"
        "    xor %edx, %edx\n"
        "    jmp _start\n"
        ".popsection\n");
#else
__asm__(".pushsection .text\n"
        ".globl blocked_start\n"
        "blocked_start:\n"
        "    mov x8, #135\n"
        "    mov x0, #2\n"
        "    adrp x1, all_signals\n"
        "    add x1, x1, :lo12:all_signals\n"
        "    adrp x2, inherited_mask\n"
        "    add x2, x2, :lo12:inherited_mask\n"
        "    mov x3, #8\n"
        "    svc #0\n"
        "    mov x0, #0\n"
        "    b _start\n"
        ".popsection\n");
#endif
#else
/* Before all other constructors: 0 to 100 are the C library's. */
__attribute__((constructor(101))) static void block_signals(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &inherited_mask);
}
#endif

bool is_taken(int number) {
    static const char left[] = {SIGCHLD, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};
    struct sigaction now = {.sa_handler = SIG_DFL};
    sigaction(number, NULL, &now);
    return now.sa_handler != SIG_IGN && !memchr(left, number, sizeof left);
}

static void end_by(int number) {
    if (number != SIGPIPE) _exit(128 + number);
}

void give_signals_back(void) {
    struct sigaction ends = {.sa_handler = end_by};
    for (int n = 1; n <= 64; n++)
        if (is_taken(n)) sigaction(n, &ends, NULL);
    sigprocmask(SIG_SETMASK, &inherited_mask, NULL);
}
