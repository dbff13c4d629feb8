/* The yardstick of bench_memory: a pointer chase as a compiler makes it, timed by itself. */
#include <stdint.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Follow *at through `loads` pointers; leave in *at where that led; return the time in ns. */
uint64_t chase_ns(uint64_t *at, uint64_t loads) {
    void **place = (void **)*at;
    uint64_t began = now_ns();
    for (uint64_t i = 0; i < loads; i++)
        place = (void **)*place;
    __asm__ volatile("" : : "r"(place) : "memory");
    uint64_t ended = now_ns();
    *at = (uint64_t)place;
    return ended - began;
}
