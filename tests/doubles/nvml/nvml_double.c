/*
 * An NVML for tests: answers what the file named by NVML_DOUBLE says, under the symbols that pynvml looks up.
 *
 * The file is lines of "key=value"; GPU n's keys begin with "gpu.n.". A key that is missing is NOT_SUPPORTED.
 *   count, driver_version, nvml_version       the system
 *   init.return, init.sleep_ms                how nvmlInit ends, and when (-1: never)
 *   gpu.n.<field>                             a field's value; lists are cpulists, "0-3,8"
 *   gpu.n.processes                           "pid:bytes,pid:bytes"; gpu.n.graphics_processes likewise
 *   gpu.n.fail.<field>                        the nvmlReturn_t that this field gives ("handle" is a field)
 *   gpu.n.sleep_ms                            before every answer of this GPU (-1: never answers)
 *   gpu.n.lost_after                          after so many answers this GPU is lost, its handle too
 *   gpu.n.crash_after                         after so many answers the process dies of SIGSEGV
 *   gpu.n.rise.<field>                        by how much this number is larger each time that it is asked
 *   gpu.n.fabric                              "state:status:clique:32 hex digits", as numbers of NVML's enums
 *   gpu.n.field.<id>                          nvmlFieldValue_t of this id; gpu.n.violation.<policy> likewise
 *   topology.a.b                              nvmlGpuTopologyLevel_t of a pair, a < b
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define MAX_GPUS 64
#define MAX_KEY 96
#define WORD_BITS 64

typedef int Return;
typedef unsigned long long U64;
#define MAX_RISING 16
typedef struct Gpu { int index; long answers; char rising[MAX_RISING][MAX_KEY]; U64 asked[MAX_RISING]; } Gpu;

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18, UNKNOWN = 999
};

typedef struct {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;
typedef struct { U64 total, free, used; } Memory;
typedef struct { unsigned version; U64 total, reserved, free, used; } MemoryV2;
typedef struct { unsigned enabled; } C2cMode;
typedef struct { unsigned pid; U64 used_bytes; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned version; unsigned char cluster[16]; int status; unsigned clique, state, health; } Fabric;
typedef struct { U64 reference_us, violation_ns; } Violation;
typedef struct {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type;
    Return ret;
    U64 value;
} FieldValue;

static char *description, *description_end;
static int users;
static Gpu gpus[MAX_GPUS];

/* -- the description -------------------------------------------------------------------------------------------- */

/* The lines become strings, one after another, up to description_end. */
static void load(const char *path)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file)
        return;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    description = size < 0 ? NULL : calloc(1, (size_t)size + 1);
    if (description)
        description_end = description + fread(description, 1, (size_t)size, file);
    fclose(file);
    for (char *at = description; at < description_end; at++)
        if (*at == '\n')
            *at = '\0';
}

static const char *lookup(const char *key)
{
    size_t length = strlen(key);
    for (const char *line = description; line < description_end; line += strlen(line) + 1)
        if (!strncmp(line, key, length) && line[length] == '=')
            return line + length + 1;
    return NULL;
}

static long number(const char *key, long otherwise)
{
    const char *text = lookup(key);
    return text ? strtol(text, NULL, 0) : otherwise;
}

static const char *gpu_lookup(const Gpu *gpu, const char *prefix, const char *field)
{
    char key[MAX_KEY];
    snprintf(key, sizeof key, "gpu.%d.%s%s", gpu->index, prefix, field);
    return lookup(key);
}

static long gpu_number(const Gpu *gpu, const char *prefix, const char *field, long otherwise)
{
    const char *text = gpu_lookup(gpu, prefix, field);
    return text ? strtol(text, NULL, 0) : otherwise;
}

static void rest(long ms)
{
    while (ms < 0)
        pause();
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (ms && nanosleep(&left, &left))
        ;
}

static int is_gpu(const Gpu *gpu)
{
    return gpu >= gpus && gpu < gpus + number("count", 0);
}

/* Every question about a GPU begins here: failures as described, then the field's text. */
static Return begin(Gpu *gpu, const char *field, const char **text)
{
    if (!users)
        return UNINITIALIZED;
    if (!is_gpu(gpu))
        return INVALID_ARGUMENT;
    rest(gpu_number(gpu, "", "sleep_ms", 0));
    long answers = gpu->answers++;
    if (answers >= gpu_number(gpu, "", "crash_after", answers + 1))
        raise(SIGSEGV);
    if (answers >= gpu_number(gpu, "", "lost_after", answers + 1))
        return GPU_IS_LOST;
    Return failure = (Return)gpu_number(gpu, "fail.", field, SUCCESS);
    if (failure)
        return failure;
    *text = gpu_lookup(gpu, "", field);
    return *text ? SUCCESS : NOT_SUPPORTED;
}

/* What a counter has risen by until now. */
static U64 risen(Gpu *gpu, const char *field)
{
    U64 step = (U64)gpu_number(gpu, "rise.", field, 0);
    for (int i = 0; step && i < MAX_RISING; i++) {
        if (!gpu->rising[i][0])
            snprintf(gpu->rising[i], MAX_KEY, "%s", field);
        if (!strcmp(gpu->rising[i], field))
            return step * gpu->asked[i]++;
    }
    return 0;
}

static Return unsigned_field(Gpu *gpu, const char *field, unsigned *value)
{
    const char *text;
    Return ret = begin(gpu, field, &text);
    if (!ret)
        *value = (unsigned)(strtoul(text, NULL, 0) + risen(gpu, field));
    return ret;
}

static Return u64_field(Gpu *gpu, const char *field, U64 *value)
{
    const char *text;
    Return ret = begin(gpu, field, &text);
    if (!ret)
        *value = strtoull(text, NULL, 0) + risen(gpu, field);
    return ret;
}

static Return copy(const char *text, char *buffer, unsigned size)
{
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

static Return text_field(Gpu *gpu, const char *field, char *buffer, unsigned size)
{
    const char *text;
    Return ret = begin(gpu, field, &text);
    return ret ? ret : copy(text, buffer, size);
}

/* A cpulist as NVML's array of 64-bit words. */
static Return bits_field(Gpu *gpu, const char *field, unsigned words, U64 *set)
{
    const char *text;
    Return ret = begin(gpu, field, &text);
    if (ret)
        return ret;
    memset(set, 0, words * sizeof *set);
    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (end == text || last >= (unsigned long)words * WORD_BITS)
            return end == text ? UNKNOWN : INSUFFICIENT_SIZE;
        for (unsigned long bit = first; bit <= last; bit++)
            set[bit / WORD_BITS] |= 1ULL << bit % WORD_BITS;
        text = *end == ',' ? end + 1 : end;
    }
    return SUCCESS;
}

/* -- the system ------------------------------------------------------------------------------------------------- */

Return nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    if (!description)
        load(getenv("NVML_DOUBLE"));
    if (!description)
        return DRIVER_NOT_LOADED;
    rest(number("init.sleep_ms", 0));
    Return ret = (Return)number("init.return", SUCCESS);
    if (ret)
        return ret;
    for (int i = 0; i < MAX_GPUS && !users; i++)
        gpus[i].index = i;
    users++;
    return SUCCESS;
}

Return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

Return nvmlShutdown(void)
{
    if (!users)
        return UNINITIALIZED;
    users--;
    return SUCCESS;
}

const char *nvmlErrorString(Return ret)
{
    switch (ret) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

static Return system_text(const char *key, char *buffer, unsigned size)
{
    const char *text = lookup(key);
    if (!users)
        return UNINITIALIZED;
    return text ? copy(text, buffer, size) : NOT_SUPPORTED;
}

Return nvmlSystemGetDriverVersion(char *buffer, unsigned size) { return system_text("driver_version", buffer, size); }
Return nvmlSystemGetNVMLVersion(char *buffer, unsigned size) { return system_text("nvml_version", buffer, size); }

Return nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!users)
        return UNINITIALIZED;
    Return ret = (Return)number("fail.count", SUCCESS);
    *count = (unsigned)number("count", 0);
    return ret;
}

/* -- handles ---------------------------------------------------------------------------------------------------- */

/* A GPU that is lost gives no handle either; asking for one is not counted as an answer. */
static Return give(Gpu *gpu, Gpu **handle)
{
    *handle = gpu;
    if (gpu->answers >= gpu_number(gpu, "", "lost_after", gpu->answers + 1))
        return GPU_IS_LOST;
    return (Return)gpu_number(gpu, "fail.", "handle", SUCCESS);
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **handle)
{
    if (!users)
        return UNINITIALIZED;
    return index < MAX_GPUS && is_gpu(gpus + index) ? give(gpus + index, handle) : INVALID_ARGUMENT;
}

static Return handle_by(const char *field, const char *wanted, Gpu **handle)
{
    if (!users)
        return UNINITIALIZED;
    for (Gpu *gpu = gpus; is_gpu(gpu); gpu++) {
        const char *text = gpu_lookup(gpu, "", field);
        if (text && !strcasecmp(text, wanted))
            return give(gpu, handle);
    }
    return NOT_FOUND;
}

Return nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **handle) { return handle_by("uuid", uuid, handle); }

Return nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Gpu **handle)
{
    unsigned domain, bus, device, function;
    char full[32];
    if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
        return INVALID_ARGUMENT;
    snprintf(full, sizeof full, "%08X:%02X:%02X.%X", domain, bus, device, function);
    return handle_by("bdf", full, handle);
}

Return nvmlDeviceGetIndex(Gpu *gpu, unsigned *index)
{
    const char *text;
    Return ret = begin(gpu, "index", &text);
    *index = is_gpu(gpu) ? (unsigned)gpu->index : 0;
    return ret == NOT_SUPPORTED ? SUCCESS : ret;
}

/* -- what a GPU is and where ------------------------------------------------------------------------------------ */

Return nvmlDeviceGetName(Gpu *gpu, char *buffer, unsigned size) { return text_field(gpu, "name", buffer, size); }
Return nvmlDeviceGetUUID(Gpu *gpu, char *buffer, unsigned size) { return text_field(gpu, "uuid", buffer, size); }
Return nvmlDeviceGetSerial(Gpu *gpu, char *buffer, unsigned size) { return text_field(gpu, "serial", buffer, size); }
Return nvmlDeviceGetMinorNumber(Gpu *gpu, unsigned *minor) { return unsigned_field(gpu, "minor", minor); }

Return nvmlDeviceGetPciInfo_v3(Gpu *gpu, PciInfo *info)
{
    const char *text;
    Return ret = begin(gpu, "bdf", &text);
    if (ret)
        return ret;
    memset(info, 0, sizeof *info);
    sscanf(text, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->legacy_bus_id, sizeof info->legacy_bus_id, "%04X:%02X:%02X.0", info->domain & 0xffff,
             info->bus & 0xff, info->device & 0xff);
    info->device_id = (unsigned)gpu_number(gpu, "", "pci_device_id", 0);
    info->subsystem_id = (unsigned)gpu_number(gpu, "", "pci_subsystem_id", 0);
    return copy(text, info->bus_id, sizeof info->bus_id);
}

Return nvmlDeviceGetNumaNodeId(Gpu *gpu, unsigned *node) { return unsigned_field(gpu, "memory_node", node); }

Return nvmlDeviceGetCpuAffinity(Gpu *gpu, unsigned words, U64 *set)
{
    return bits_field(gpu, "cpu_affinity", words, set);
}

Return nvmlDeviceGetCpuAffinityWithinScope(Gpu *gpu, unsigned words, U64 *set, unsigned scope)
{
    return bits_field(gpu, scope ? "socket_cpu_affinity" : "cpu_affinity", words, set);
}

Return nvmlDeviceGetMemoryAffinity(Gpu *gpu, unsigned words, U64 *set, unsigned scope)
{
    return bits_field(gpu, scope ? "socket_node_affinity" : "node_affinity", words, set);
}

Return nvmlDeviceGetTopologyCommonAncestor(Gpu *a, Gpu *b, unsigned *level)
{
    const char *text;
    char key[MAX_KEY];
    Return ret = begin(a, "topology", &text);
    if ((ret && ret != NOT_SUPPORTED) || !is_gpu(b))
        return is_gpu(b) ? ret : INVALID_ARGUMENT;
    int first = a->index < b->index ? a->index : b->index;
    snprintf(key, sizeof key, "topology.%d.%d", first, a->index + b->index - first);
    *level = (unsigned)number(key, 0);
    return a == b || lookup(key) ? SUCCESS : NOT_SUPPORTED;
}

/* -- links ------------------------------------------------------------------------------------------------------ */

Return nvmlDeviceGetCurrPcieLinkWidth(Gpu *gpu, unsigned *v) { return unsigned_field(gpu, "width_lanes", v); }
Return nvmlDeviceGetMaxPcieLinkWidth(Gpu *gpu, unsigned *v) { return unsigned_field(gpu, "max_width_lanes", v); }
Return nvmlDeviceGetCurrPcieLinkGeneration(Gpu *gpu, unsigned *v) { return unsigned_field(gpu, "generation", v); }
Return nvmlDeviceGetMaxPcieLinkGeneration(Gpu *gpu, unsigned *v) { return unsigned_field(gpu, "max_generation", v); }
Return nvmlDeviceGetPcieReplayCounter(Gpu *gpu, unsigned *v) { return unsigned_field(gpu, "pcie_replays", v); }

/* The first "nvlinks" links are up; those beyond them do not exist. */
Return nvmlDeviceGetNvLinkState(Gpu *gpu, unsigned link, unsigned *active)
{
    unsigned links;
    Return ret = unsigned_field(gpu, "nvlinks", &links);
    *active = 1;
    return ret ? ret : link < links ? SUCCESS : NOT_SUPPORTED;
}

Return nvmlDeviceGetNvLinkCapability(Gpu *gpu, unsigned link, unsigned capability, unsigned *result)
{
    (void)capability;
    return nvmlDeviceGetNvLinkState(gpu, link, result);
}

Return nvmlDeviceGetGpuFabricInfoV(Gpu *gpu, Fabric *info)
{
    const char *text;
    char digits[33] = "";
    Return ret = begin(gpu, "fabric", &text);
    if (ret)
        return ret;
    if (sscanf(text, "%u:%d:%u:%32s", &info->state, &info->status, &info->clique, digits) != 4)
        return UNKNOWN;
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;
        sscanf(digits + 2 * i, "%2x", &byte);
        info->cluster[i] = (unsigned char)byte;
    }
    info->health = 0;
    return SUCCESS;
}

Return nvmlDeviceGetC2cModeInfoV(Gpu *gpu, C2cMode *mode) { return unsigned_field(gpu, "c2c", &mode->enabled); }

/* -- state ------------------------------------------------------------------------------------------------------ */

Return nvmlDeviceGetPerformanceState(Gpu *gpu, unsigned *v) { return unsigned_field(gpu, "pstate", v); }
Return nvmlDeviceGetPersistenceMode(Gpu *gpu, unsigned *v) { return unsigned_field(gpu, "persistence", v); }
Return nvmlDeviceGetCurrentClocksThrottleReasons(Gpu *gpu, U64 *v) { return u64_field(gpu, "clocks_reasons", v); }
Return nvmlDeviceGetCurrentClocksEventReasons(Gpu *gpu, U64 *v) { return u64_field(gpu, "clocks_reasons", v); }

Return nvmlDeviceGetMigMode(Gpu *gpu, unsigned *current, unsigned *pending)
{
    Return ret = unsigned_field(gpu, "mig", current);
    *pending = *current;
    return ret;
}

Return nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *rates)
{
    Return ret = unsigned_field(gpu, "utilization_percent", &rates->gpu);
    if (!ret)
        rates->memory = (unsigned)gpu_number(gpu, "", "memory_utilization_percent", 0);
    return ret;
}

Return nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *memory)
{
    Return ret = u64_field(gpu, "memory_bytes", &memory->total);
    if (ret)
        return ret;
    memory->used = (U64)gpu_number(gpu, "", "memory_used_bytes", 0);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

Return nvmlDeviceGetMemoryInfo_v2(Gpu *gpu, MemoryV2 *memory)
{
    Memory first = {0, 0, 0};
    Return ret = nvmlDeviceGetMemoryInfo(gpu, &first);
    memory->total = first.total;
    memory->reserved = 0;
    memory->free = first.free;
    memory->used = first.used;
    return ret;
}

Return nvmlDeviceGetBAR1MemoryInfo(Gpu *gpu, Memory *memory)
{
    Return ret = u64_field(gpu, "bar1_bytes", &memory->total);
    if (ret)
        return ret;
    memory->used = (U64)gpu_number(gpu, "", "bar1_used_bytes", 0);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

static Return running(Gpu *gpu, const char *field, unsigned *count, Process *processes)
{
    const char *text;
    unsigned room = *count, found = 0;
    Return ret = begin(gpu, field, &text);
    if (ret)
        return ret;
    while (*text) {
        char *end;
        Process process = {(unsigned)strtoul(text, &end, 10), 0, ~0U, ~0U};
        if (*end == ':')
            process.used_bytes = strtoull(end + 1, &end, 10);
        if (end == text)
            return UNKNOWN;
        if (processes && found < room)
            processes[found] = process;
        found++;
        text = *end == ',' ? end + 1 : end;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Gpu *gpu, unsigned *count, Process *processes)
{
    return running(gpu, "processes", count, processes);
}

Return nvmlDeviceGetGraphicsRunningProcesses_v3(Gpu *gpu, unsigned *count, Process *processes)
{
    return running(gpu, "graphics_processes", count, processes);
}

/* -- counters --------------------------------------------------------------------------------------------------- */

Return nvmlDeviceGetFieldValues(Gpu *gpu, int count, FieldValue *values)
{
    for (int i = 0; i < count; i++) {
        char field[32];
        snprintf(field, sizeof field, "field.%u", values[i].field);
        values[i].ret = u64_field(gpu, field, &values[i].value);
    }
    return is_gpu(gpu) ? SUCCESS : INVALID_ARGUMENT;
}

Return nvmlDeviceGetViolationStatus(Gpu *gpu, unsigned policy, Violation *time)
{
    char field[32];
    snprintf(field, sizeof field, "violation.%u", policy);
    time->reference_us = 0;
    return u64_field(gpu, field, &time->violation_ns);
}
