/*
 * A CUDA driver for tests: copies with memcpy, and takes longer where the host memory or the CPU is far.
 *
 * Where the memory is, the kernel says (move_pages on the pages of the copy); where the CPU is, getcpu(2) says: so that
 * what is found is what was really placed. The time is spun away by CLOCK_MONOTONIC, in proportion to the bytes.
 *
 * The file named by CUDA_DOUBLE is lines of "key=value":
 *   bdf=0000:21:00.0               a GPU's address; the first line is ordinal 0, and so on
 *   name, version                  what the driver says of itself (12080)
 *   near_node                      the node that the GPU is near
 *   fixed_ns, ns_per_mib           how long a copy takes at the least, and more for each MiB
 *   far_memory, far_cpu            by how much longer from memory, or by a CPU, of another node (1.3)
 *   jitter                         copies differ by this share (0.04: by 2 % up and down); one in 20 takes 1.5 to 2
 *                                  times as long besides. Every process draws the same numbers.
 *   fail.<function>                the CUresult that this function gives
 *   fail_after.<function>          so many calls succeed before that
 *   hang_after.<function>          so many calls return before one that never does
 *   virtual                        1: a copy takes no time, but this process' CLOCK_MONOTONIC goes forward by as much.
 *                                  Needs the library in LD_PRELOAD. What a busy machine adds is then small beside it.
 *   crash_after.<function>         so many calls return before one that ends the process (SIGSEGV)
 *   say                            what cuInit prints on standard output
 *   nothing.<function>             1: it says that it succeeded and gives no address
 *   still                          1: copies take their time and copy nothing
 *   ignore_policy                  1: cuMemHostAlloc places memory on near_node whatever the thread's policy says
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINES 128
#define MAX_LINE 160
#define MAX_HOST 64
#define MPOL_BIND 2
#define PAGES 64

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
       INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700, NOT_PERMITTED = 800, NOT_SUPPORTED = 801, MISMATCH = 803,
       UNKNOWN = 999 };

typedef int Result;
typedef uint64_t Device;

static char lines[MAX_LINES][MAX_LINE];
static int line_count, initialised;
static __thread int current; /* this thread has a context */
static long page_bytes;
static struct { void *at; size_t size; } pinned[MAX_HOST];

/* -- the description -------------------------------------------------------------------------------------------- */

static void load(void)
{
    const char *path = getenv("CUDA_DOUBLE");
    FILE *file = path ? fopen(path, "r") : NULL;
    while (file && line_count < MAX_LINES && fgets(lines[line_count], MAX_LINE, file)) {
        lines[line_count][strcspn(lines[line_count], "\n")] = '\0';
        line_count++;
    }
    if (file)
        fclose(file);
    page_bytes = sysconf(_SC_PAGESIZE);
}

static const char *lookup(const char *key, int skip)
{
    size_t length = strlen(key);
    for (int i = 0; i < line_count; i++)
        if (!strncmp(lines[i], key, length) && lines[i][length] == '=' && !skip--)
            return lines[i] + length + 1;
    return NULL;
}

static double number(const char *key, double otherwise)
{
    const char *text = lookup(key, 0);
    return text ? strtod(text, NULL) : otherwise;
}

static double about(const char *what, const char *function, double otherwise)
{
    char key[MAX_LINE];
    snprintf(key, sizeof key, "%s.%s", what, function);
    return number(key, otherwise);
}

/* Every call begins here: it hangs, fails or goes on as described. */
static Result begin(const char *function, long *calls)
{
    long before = __atomic_fetch_add(calls, 1, __ATOMIC_SEQ_CST);
    if (before >= about("hang_after", function, 1e18))
        for (;;)
            pause();
    if (before >= about("crash_after", function, 1e18))
        raise(SIGSEGV);
    if (before >= about("fail_after", function, 0))
        return (Result)about("fail", function, SUCCESS);
    return SUCCESS;
}

#define BEGIN(function) \
    static long calls; \
    if (!initialised) \
        return NOT_INITIALIZED; \
    Result described = begin(function, &calls); \
    if (described) \
        return described

/* -- where things are ------------------------------------------------------------------------------------------- */

static int near_node(void) { return (int)number("near_node", 0); }

static int on_far_cpu(void)
{
    unsigned cpu, node;
    return !syscall(SYS_getcpu, &cpu, &node, NULL) && (int)node != near_node();
}

/* The share of these bytes' pages that is on other nodes; pages that are not there yet count as near. */
static double far_share(const void *at, size_t size)
{
    void *addresses[PAGES];
    int nodes[PAGES], asked = 0, far = 0;
    uintptr_t first = (uintptr_t)at & ~(uintptr_t)(page_bytes - 1);
    size_t total = ((uintptr_t)at + size - first + (size_t)page_bytes - 1) / (size_t)page_bytes;
    size_t step = total / PAGES + 1;
    for (size_t page = 0; page < total && asked < PAGES; page += step)
        addresses[asked++] = (void *)(first + page * (size_t)page_bytes);
    if (syscall(SYS_move_pages, 0, asked, addresses, NULL, nodes, 0))
        return 0;
    for (int i = 0; i < asked; i++)
        far += nodes[i] >= 0 && nodes[i] != near_node();
    return asked ? (double)far / asked : 0;
}

static int64_t skipped_ns;

/* Instead of the C library's, where this library is preloaded: time goes forward by what copies did not wait for. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    long result = syscall(SYS_clock_gettime, clock, t);
    if (!result && clock == CLOCK_MONOTONIC && skipped_ns) {
        int64_t ns = t->tv_nsec + __atomic_load_n(&skipped_ns, __ATOMIC_SEQ_CST);
        t->tv_sec += ns / 1000000000;
        t->tv_nsec = ns % 1000000000;
    }
    return (int)result;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A number from 0 to 1, by a linear congruential generator. */
static double draw(void)
{
    static uint64_t state = 88172645463325252u;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / (double)(1ull << 53);
}

static void copy(void *to, const void *from, const void *host, size_t size)
{
    int64_t began = now_ns();
    double ns = number("fixed_ns", 0) + number("ns_per_mib", 0) * (double)size / (1 << 20);
    double share = far_share(host, size), jitter = number("jitter", 0);
    ns *= 1 - share + share * number("far_memory", 1);
    ns *= on_far_cpu() ? number("far_cpu", 1) : 1;
    if (jitter) {
        ns *= 1 + jitter * (draw() - 0.5);
        ns *= draw() < 0.05 ? 1.5 + draw() / 2 : 1;
    }
    if (!number("still", 0))
        memcpy(to, from, size);
    if (number("virtual", 0))
        __atomic_fetch_add(&skipped_ns, (int64_t)ns, __ATOMIC_SEQ_CST);
    else
        while ((double)(now_ns() - began) < ns)
            ;
}

/* -- what the driver answers ------------------------------------------------------------------------------------ */

Result cuInit(unsigned flags)
{
    static long calls;
    (void)flags;
    load();
    Result described = begin("cuInit", &calls);
    initialised = !described;
    if (lookup("say", 0)) {
        puts(lookup("say", 0));
        fflush(stdout);
    }
    return described;
}

Result cuDriverGetVersion(int *version)
{
    *version = (int)number("version", 12080);
    return SUCCESS;
}

Result cuGetErrorName(Result code, const char **name)
{
    switch (code) {
    case SUCCESS: *name = "CUDA_SUCCESS"; return SUCCESS;
    case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
    case NOT_INITIALIZED: *name = "CUDA_ERROR_NOT_INITIALIZED"; return SUCCESS;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return SUCCESS;
    case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; return SUCCESS;
    case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return SUCCESS;
    case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
    case NOT_PERMITTED: *name = "CUDA_ERROR_NOT_PERMITTED"; return SUCCESS;
    case NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; return SUCCESS;
    case MISMATCH: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return SUCCESS;
    case UNKNOWN: *name = "CUDA_ERROR_UNKNOWN"; return SUCCESS;
    default: *name = NULL; return INVALID_VALUE;
    }
}

Result cuGetErrorString(Result code, const char **text)
{
    *text = code == NO_DEVICE        ? "no CUDA-capable device is detected"
            : code == OUT_OF_MEMORY  ? "out of memory"
            : code == MISMATCH       ? "system has unsupported display driver / cuda driver combination"
            : code == ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                      : NULL;
    return *text ? SUCCESS : INVALID_VALUE;
}

Result cuDeviceGetByPCIBusId(int *device, const char *bdf)
{
    BEGIN("cuDeviceGetByPCIBusId");
    const char *known;
    for (int i = 0; (known = lookup("bdf", i)); i++)
        if (!strcasecmp(known, bdf)) {
            *device = i;
            return SUCCESS;
        }
    return INVALID_DEVICE;
}

Result cuDeviceGetName(char *name, int size, int device)
{
    BEGIN("cuDeviceGetName");
    const char *text = lookup("name", device);
    snprintf(name, (size_t)size, "%s", text ? text : "GPU double");
    return SUCCESS;
}

Result cuDevicePrimaryCtxRetain(void **context, int device)
{
    BEGIN("cuDevicePrimaryCtxRetain");
    *context = (void *)(uintptr_t)(0x1000 + device);
    return SUCCESS;
}

Result cuDevicePrimaryCtxRelease_v2(int device)
{
    BEGIN("cuDevicePrimaryCtxRelease_v2");
    (void)device;
    return SUCCESS;
}

Result cuCtxSetCurrent(void *context)
{
    BEGIN("cuCtxSetCurrent");
    current = context != NULL;
    return SUCCESS;
}

Result cuStreamCreate(void **stream, unsigned flags)
{
    BEGIN("cuStreamCreate");
    static uintptr_t streams = 0x2000;
    (void)flags;
    *stream = (void *)__atomic_add_fetch(&streams, 1, __ATOMIC_SEQ_CST);
    return current ? SUCCESS : INVALID_CONTEXT;
}

Result cuStreamSynchronize(void *stream)
{
    BEGIN("cuStreamSynchronize");
    (void)stream;
    return current ? SUCCESS : INVALID_CONTEXT;
}

Result cuStreamDestroy_v2(void *stream)
{
    BEGIN("cuStreamDestroy_v2");
    (void)stream;
    return SUCCESS;
}

Result cuMemAlloc_v2(Device *address, size_t size)
{
    BEGIN("cuMemAlloc_v2");
    if (about("nothing", "cuMemAlloc_v2", 0)) {
        *address = 0;
        return SUCCESS;
    }
    void *memory = aligned_alloc(2 << 20, (size + (2 << 20) - 1) / (2 << 20) * (2 << 20));
    *address = (Device)(uintptr_t)memory;
    return !current ? INVALID_CONTEXT : memory ? SUCCESS : OUT_OF_MEMORY;
}

Result cuMemFree_v2(Device address)
{
    BEGIN("cuMemFree_v2");
    free((void *)(uintptr_t)address);
    return SUCCESS;
}

/* Shared anonymous memory, as the real one's: it obeys the policy of the thread that touches it first. */
Result cuMemHostAlloc(void **address, size_t size, unsigned flags)
{
    BEGIN("cuMemHostAlloc");
    if (about("nothing", "cuMemHostAlloc", 0)) {
        *address = NULL;
        return SUCCESS;
    }
    (void)flags;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return OUT_OF_MEMORY;
    if (number("ignore_policy", 0)) {
        unsigned long mask = 1ul << near_node();
        syscall(SYS_mbind, memory, size, MPOL_BIND, &mask, 65, 0);
    }
    memset(memory, 0, size);
    for (int i = 0; i < MAX_HOST; i++)
        if (!pinned[i].at) {
            pinned[i].at = memory;
            pinned[i].size = size;
            break;
        }
    *address = memory;
    return SUCCESS;
}

Result cuMemFreeHost(void *address)
{
    BEGIN("cuMemFreeHost");
    for (int i = 0; i < MAX_HOST; i++)
        if (pinned[i].at == address) {
            munmap(address, pinned[i].size);
            pinned[i].at = NULL;
            return SUCCESS;
        }
    return INVALID_VALUE;
}

Result cuMemHostRegister_v2(void *address, size_t size, unsigned flags)
{
    BEGIN("cuMemHostRegister_v2");
    (void)address, (void)size, (void)flags;
    return SUCCESS;
}

Result cuMemHostUnregister(void *address)
{
    BEGIN("cuMemHostUnregister");
    (void)address;
    return SUCCESS;
}

Result cuMemcpyHtoDAsync_v2(Device to, const void *from, size_t size, void *stream)
{
    BEGIN("cuMemcpyHtoDAsync_v2");
    (void)stream;
    copy((void *)(uintptr_t)to, from, from, size);
    return SUCCESS;
}

Result cuMemcpyDtoHAsync_v2(void *to, Device from, size_t size, void *stream)
{
    BEGIN("cuMemcpyDtoHAsync_v2");
    (void)stream;
    copy(to, (void *)(uintptr_t)from, to, size);
    return SUCCESS;
}
