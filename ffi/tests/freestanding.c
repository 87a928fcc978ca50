/* The core without an operating system and without a C library: this program begins at _start, and brings what a compiler may ask for. */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t len);
void *memmove(void *to, const void *from, size_t len);
void *memset(void *to, int byte, size_t len);
int memcmp(const void *a, const void *b, size_t len);
int bcmp(const void *a, const void *b, size_t len);

void *memcpy(void *restrict to, const void *restrict from, size_t len) {
    for (size_t i = 0; i < len; i++) {
        ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    }
    return to;
}

void *memmove(void *to, const void *from, size_t len) {
    if ((uintptr_t)to <= (uintptr_t)from) {
        return memcpy(to, from, len);
    }
    for (size_t i = len; i-- > 0;) {
        ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    }
    return to;
}

void *memset(void *to, int byte, size_t len) {
    for (size_t i = 0; i < len; i++) {
        ((volatile uint8_t *)to)[i] = (uint8_t)byte;
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t len) {
    for (size_t i = 0; i < len; i++) {
        int differs = ((const uint8_t *)a)[i] - ((const uint8_t *)b)[i];
        if (differs != 0) {
            return differs;
        }
    }
    return 0;
}

int bcmp(const void *a, const void *b, size_t len) {
    return memcmp(a, b, len);
}

#include "fabric.h"

/* The end, by the kernel's own call: 0, or the line of fabric.h at which the story went wrong, cut to what an exit code holds. */
static void leave(int line) {
    long code = line == 0 ? 0 : line % 255 + 1;
#if defined(__x86_64__)
    __asm__ volatile("syscall" ::"a"(60L), "D"(code) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = 93;
    register long first __asm__("x0") = code;
    __asm__ volatile("svc 0" ::"r"(number), "r"(first) : "memory");
#endif
    for (;;) {
    }
}

void begin(void);
void begin(void) {
    leave(story());
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n    xor %ebp, %ebp\n    and $-16, %rsp\n    call begin\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n    mov x29, xzr\n    bl begin\n");
#endif
