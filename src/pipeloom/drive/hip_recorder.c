/* Records launches of HIP kernels; `pipeloom record` compiles it and has it preloaded.
 *
 * It stands between a program and HIP: what loads code and allocates memory is remembered, and a
 * launch that is wanted is written down before it goes on to HIP as it was. Programs that look HIP's
 * functions up (Triton, ctypes) get these from dlsym. What a launch is written as, raw_launches.py
 * says; where arguments lie, argument_places.py, in a process of its own.
 *
 *   PIPELOOM_RECORD_FOLDER     where records go
 *   PIPELOOM_RECORD_PYTHON     the Python that knows pipeloom
 *   PIPELOOM_RECORD_KERNEL     a part of the names of the kernels that are wanted
 *   PIPELOOM_RECORD_EACH       launches of one kernel (1)
 *   PIPELOOM_RECORD_SKIP       launches of one kernel that are passed over (0)
 *   PIPELOOM_RECORD_CONTENTS   what buffers hold before the launch, up to so many bytes of a launch
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, TO_HOST = 2, MOST_ARGUMENTS = 4096, MOST_TABLE = 1 << 16, MOST_KERNELS = 1 << 12 };
typedef struct { uint32_t x, y, z; } dim3;

extern char **environ;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static unsigned written;

/* --- the functions that are stood in for, and the real ones ----------------------------------- */

typedef struct { const char *name; void *mine, *real; } hook;
static hook hooks[24];
static void *(*find)(void *, const char *);

static void begin(void) {
    static const char *versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (int i = 0; !find && i < 3; i++) find = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}
static void *hooked(const char *name, void *found) {
    for (hook *one = hooks; one->name; one++)
        if (found && !strcmp(one->name, name)) {
            if (found != one->mine) one->real = found;
            return one->mine;
        }
    return found;
}
static void *real(const char *name) {
    for (hook *one = hooks; one->name; one++)
        if (!strcmp(one->name, name) && one->real) return one->real;
    if (!find) begin();
    void *found = find ? find(RTLD_NEXT, name) : NULL;
    for (hook *one = hooks; !found && find && one->name; one++) { /* HIP was opened, not linked */
        Dl_info place;
        void *library = NULL;
        if (one->real && dladdr(one->real, &place)) library = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (library) found = find(library, name);
    }
    for (hook *one = hooks; found && one->name; one++)
        if (!strcmp(one->name, name) && found != one->mine) one->real = found;
    return found;
}

/* The call of the real one keeps the caller's place, which RTLD_NEXT goes by: it is a jump. */
EXPORT void *dlsym(void *handle, const char *name) {
    if (!find) begin();
    if (handle == RTLD_NEXT || strncmp(name, "hip", 3)) return find(handle, name);
    return hooked(name, find(handle, name));
}
EXPORT int hipGetProcAddress(const char *name, void **out, int version, uint64_t flags, void *status) {
    int (*go)(const char *, void **, int, uint64_t, void *) = real("hipGetProcAddress");
    int code = go ? go(name, out, version, flags, status) : 1;
    if (!code && out) *out = hooked(name, *out);
    return code;
}

/* --- memory ------------------------------------------------------------------------------------ */

typedef struct block { uint64_t base, size; int on_host, written; struct block *next; } block;
static block *blocks;

static void keep(void *pointer, size_t size, int on_host) {
    if (!pointer || !size) return;
    pthread_mutex_lock(&lock);
    block *one = calloc(1, sizeof *one);
    *one = (block){(uint64_t)(uintptr_t)pointer, size, on_host, 0, blocks};
    blocks = one;
    pthread_mutex_unlock(&lock);
}
static void drop(void *pointer) {
    pthread_mutex_lock(&lock);
    for (block **at = &blocks; *at; at = &(*at)->next)
        if ((*at)->base == (uint64_t)(uintptr_t)pointer) {
            block *gone = *at;
            *at = gone->next;
            free(gone);
            break;
        }
    pthread_mutex_unlock(&lock);
}
/* The allocation that an address lies in: one that was seen, or one that HIP knows of. */
static block *block_at(uint64_t address) {
    for (block *one = blocks; one; one = one->next)
        if (address >= one->base && address - one->base < one->size) return one;
    if (address < (uint64_t)1 << 32 || address >> 48) return NULL;
    int (*ask)(void **, size_t *, void *) = real("hipMemGetAddressRange");
    int (*peek)(void) = real("hipPeekAtLastError"), (*forget)(void) = real("hipGetLastError");
    void *base = NULL;
    size_t size = 0;
    if (!ask || !peek || !forget || peek() != OK) return NULL;
    if (ask(&base, &size, (void *)(uintptr_t)address) != OK) { forget(); return NULL; }
    keep(base, size, 0);
    return base && address - (uint64_t)(uintptr_t)base < size ? blocks : NULL;
}
#define ALLOCATES(name, parameters, arguments, on_host)                                            \
    EXPORT int name parameters {                                                                   \
        int (*go) parameters = (int (*) parameters)real(#name);                                    \
        int code = go ? go arguments : 1;                                                          \
        if (!code && out) keep(*out, size, on_host);                                               \
        return code;                                                                               \
    }
#define FREES(name, parameters, arguments)                                                         \
    EXPORT int name parameters {                                                                   \
        int (*go) parameters = (int (*) parameters)real(#name);                                    \
        int code = go ? go arguments : 1;                                                          \
        if (!code) drop(pointer);                                                                  \
        return code;                                                                               \
    }
ALLOCATES(hipMalloc, (void **out, size_t size), (out, size), 0)
ALLOCATES(hipExtMallocWithFlags, (void **out, size_t size, unsigned flags), (out, size, flags), 0)
ALLOCATES(hipMallocManaged, (void **out, size_t size, unsigned flags), (out, size, flags), 0)
ALLOCATES(hipMallocAsync, (void **out, size_t size, void *on), (out, size, on), 0)
ALLOCATES(hipMallocFromPoolAsync, (void **out, size_t size, void *pool, void *on), (out, size, pool, on), 0)
ALLOCATES(hipHostMalloc, (void **out, size_t size, unsigned flags), (out, size, flags), 1)
FREES(hipFree, (void *pointer), (pointer))
FREES(hipFreeAsync, (void *pointer, void *on), (pointer, on))
FREES(hipHostFree, (void *pointer), (pointer))

/* --- code -------------------------------------------------------------------------------------- */

typedef struct code {
    const void *key; /* a module, what __hipRegisterFatBinary returned, or a kernel */
    unsigned char *image;
    size_t size;
    const char *name; /* of a kernel */
    const struct code *from;
    int number; /* of its file, once written */
    struct code *next;
} code;
static code *codes;

static code *known(const void *key) {
    for (code *one = codes; one; one = one->next)
        if (one->key == key) return one;
    return NULL;
}
static code *remember(const void *key) {
    code *one = known(key);
    if (!one) {
        one = calloc(1, sizeof *one);
        one->next = codes;
        codes = one;
    }
    one->key = key;
    one->number = 0;
    return one;
}
/* How long a code object, or a bundle of them, says that it is; 0 where it does not. */
static size_t length(const unsigned char *at) {
    uint64_t end = 0, count, word[3];
    if (!memcmp(at, "\177ELF", 4)) {
        uint16_t size, entries;
        memcpy(word, at + 40, 8);
        memcpy(&size, at + 58, 2);
        memcpy(&entries, at + 60, 2);
        const unsigned char *section = at + word[0];
        end = word[0] + (uint64_t)size * entries;
        for (unsigned i = 0; i < entries; i++, section += size) { /* they may lie behind their table */
            uint32_t kind;
            memcpy(&kind, section + 4, 4);
            memcpy(word, section + 24, 16);
            if (kind != 8 && word[0] + word[1] > end) end = word[0] + word[1];
        }
        return end;
    }
    if (!memcmp(at, "__CLANG_OFFLOAD_BUNDLE__", 24)) {
        const unsigned char *entry = at + 32;
        memcpy(&count, at + 24, 8);
        for (uint64_t i = 0; i < count && i < 4096; i++, entry += 24 + word[2]) {
            memcpy(word, entry, 24);
            if (word[0] + word[1] > end) end = word[0] + word[1];
        }
        return end;
    }
    if (!memcmp(at, "CCOB", 4)) { /* compressed: version 2 has its length in 4 bytes, 3 in 8 */
        uint16_t version;
        uint32_t small;
        memcpy(&version, at + 4, 2);
        memcpy(&small, at + 8, 4);
        memcpy(word, at + 8, 8);
        return version == 2 ? small : version == 3 ? word[0] : 0;
    }
    return 0;
}
static void loaded(const void *key, const void *image) {
    if (!key || !image) return;
    pthread_mutex_lock(&lock);
    code *one = remember(key);
    one->size = length(image);
    one->image = malloc(one->size + 1);
    if (one->image) memcpy(one->image, image, one->size);
    else one->size = 0;
    pthread_mutex_unlock(&lock);
}
EXPORT int hipModuleLoadData(void **out, const void *image) {
    int (*go)(void **, const void *) = real("hipModuleLoadData");
    int found = go ? go(out, image) : 1;
    if (!found && out) loaded(*out, image);
    return found;
}
EXPORT int hipModuleLoadDataEx(void **out, const void *image, unsigned count, void *options, void **values) {
    int (*go)(void **, const void *, unsigned, void *, void **) = real("hipModuleLoadDataEx");
    int found = go ? go(out, image, count, options, values) : 1;
    if (!found && out) loaded(*out, image);
    return found;
}
EXPORT int hipModuleLoad(void **out, const char *path) {
    int (*go)(void **, const char *) = real("hipModuleLoad");
    int found = go ? go(out, path) : 1;
    FILE *file = !found && out ? fopen(path, "rb") : NULL;
    if (file) {
        fseek(file, 0, SEEK_END);
        long size = ftell(file);
        rewind(file);
        unsigned char *image = calloc(1, (size_t)size + 64);
        if (image && fread(image, 1, (size_t)size, file) == (size_t)size && length(image) <= (size_t)size)
            loaded(*out, image);
        free(image);
        fclose(file);
    }
    return found;
}
static void is_kernel(const void *key, const void *from, const char *name) {
    pthread_mutex_lock(&lock);
    const code *source = known(from);
    if (key && name && source) {
        code *one = remember(key);
        one->from = source;
        one->name = strdup(name);
    }
    pthread_mutex_unlock(&lock);
}
EXPORT int hipModuleGetFunction(void **out, void *module, const char *name) {
    int (*go)(void **, void *, const char *) = real("hipModuleGetFunction");
    int found = go ? go(out, module, name) : 1;
    if (!found && out) is_kernel(*out, module, name);
    return found;
}
EXPORT void **__hipRegisterFatBinary(const void *wrapper) {
    void **(*go)(const void *) = (void **(*)(const void *))real("__hipRegisterFatBinary");
    void **handle = go ? go(wrapper) : NULL;
    if (handle) loaded(handle, ((void *const *)wrapper)[1]); /* magic, version, the bundle */
    return handle;
}
EXPORT void __hipRegisterFunction(void **handle, const void *host, char *device, const char *name,
                                  unsigned threads, void *tid, void *bid, void *block_of, void *grid,
                                  int *size) {
    void (*go)(void **, const void *, char *, const char *, unsigned, void *, void *, void *, void *, int *) =
        real("__hipRegisterFunction");
    if (go) go(handle, host, device, name, threads, tid, bid, block_of, grid, size);
    is_kernel(host, handle, name);
}

/* --- launches ---------------------------------------------------------------------------------- */

static int wanted(const char *name) {
    static struct { char *name; long seen; } kernels[MOST_KERNELS];
    const char *part = getenv("PIPELOOM_RECORD_KERNEL"), *each = getenv("PIPELOOM_RECORD_EACH"),
               *skip = getenv("PIPELOOM_RECORD_SKIP");
    long passed = skip ? atol(skip) : 0;
    if (!getenv("PIPELOOM_RECORD_FOLDER") || (part && !strstr(name, part))) return 0;
    int at = 0;
    while (at < MOST_KERNELS - 1 && kernels[at].name && strcmp(kernels[at].name, name)) at++;
    if (!kernels[at].name) kernels[at].name = strdup(name);
    return ++kernels[at].seen > passed && kernels[at].seen <= passed + (each ? atol(each) : 1);
}
static FILE *opened(char *path, const char *what, unsigned number, const char *end, const char *how) {
    snprintf(path, 4096, "%s/%s-%u.%s", getenv("PIPELOOM_RECORD_FOLDER"), what, number, end);
    return fopen(path, how);
}
static int put_code(code *from) {
    static int count;
    char path[4096];
    if (from->number || !from->size) return from->number;
    FILE *file = opened(path, "code", (unsigned)++count, "bin", "wb");
    if (!file) return 0;
    fwrite(from->image, 1, from->size, file);
    fclose(file);
    return from->number = count;
}
/* Offsets and sizes of the arguments, from the metadata, by the Python that reads it. */
static int places(int number, const char *name, uint32_t (*found)[2]) {
    static char out[4096], code_path[4096];
    const char *python = getenv("PIPELOOM_RECORD_PYTHON");
    pid_t child;
    int status = 1, count = 0, left = 0;
    FILE *file = opened(out, "places", 0, "txt", "w");
    if (file) fclose(file);
    file = opened(code_path, "code", (unsigned)number, "bin", "rb");
    if (file) fclose(file);
    if (!python || !file) return -1;
    while (environ[left]) left++;
    char **plain = calloc((size_t)left + 1, sizeof *plain);
    for (int i = left = 0; environ[i]; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11)) plain[left++] = environ[i];
    char *command[] = {(char *)python, "-m", "pipeloom.drive.argument_places", code_path, (char *)name, out, NULL};
    if (posix_spawn(&child, python, NULL, NULL, command, plain) == 0) waitpid(child, &status, 0);
    free(plain);
    file = status == 0 ? fopen(out, "r") : NULL;
    while (file && count < MOST_ARGUMENTS && fscanf(file, "%u %u", &found[count][0], &found[count][1]) == 2) count++;
    if (file) fclose(file);
    unlink(out);
    return file ? count : -1;
}
static void put_arch(FILE *file) {
    unsigned char data[8192] = {0};
    int (*ask)(void *, int) = real("hipGetDevicePropertiesR0600"), (*which)(int *) = real("hipGetDevice");
    int device = 0;
    if (!ask) ask = real("hipGetDeviceProperties");
    if (!ask || (which && which(&device)) || ask(data, device)) return;
    const char *found = memmem(data, sizeof data - 64, "gfx", 3);
    if (found) fprintf(file, "arch %.60s\n", found);
}
/* The allocations that words of some bytes lie in. */
static void follow(const unsigned char *bytes, size_t size, unsigned step) {
    for (size_t at = 0; at + 8 <= size; at += step) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        block *one = word ? block_at(word) : NULL;
        if (one && !one->written) one->written = 1;
    }
}
static unsigned char *contents_of(block *one) {
    unsigned char *held = malloc(one->size);
    int (*copy)(void *, const void *, size_t, int) = real("hipMemcpy");
    void *from = (void *)(uintptr_t)one->base;
    if (held && one->on_host) memcpy(held, from, one->size);
    else if (held && (!copy || copy(held, from, one->size, TO_HOST))) { free(held); held = NULL; }
    return held;
}
static void put_memory(FILE *file, const unsigned char *arguments, size_t size, void *queue) {
    const char *asked = getenv("PIPELOOM_RECORD_CONTENTS");
    uint64_t left = asked ? strtoull(asked, NULL, 10) : 0;
    int (*finish)(void) = real("hipDeviceSynchronize"), (*capturing)(void *, int *) = real("hipStreamIsCapturing");
    int captured = 0, again = 1;
    if (asked && capturing && queue) capturing(queue, &captured);
    if (asked && !captured && finish) finish();
    for (block *one = blocks; one; one = one->next) one->written = 0;
    follow(arguments, size, 4);
    while (again) {
        again = 0;
        for (block *one = blocks; one; one = one->next) {
            if (one->written != 1) continue;
            one->written = 2;
            again = 1;
            unsigned char *held = asked && !captured && one->size <= left ? contents_of(one) : NULL;
            fprintf(file, "memory %llu %llu", (unsigned long long)one->base, (unsigned long long)one->size);
            if (held) {
                static unsigned count;
                char path[4096];
                FILE *bytes = opened(path, "memory", ++count, "bin", "wb");
                left -= one->size;
                if (bytes) {
                    fwrite(held, 1, one->size, bytes);
                    fclose(bytes);
                    fprintf(file, " memory-%u.bin", count);
                }
                if (one->size <= MOST_TABLE) follow(held, one->size, 8);
                free(held);
            }
            fprintf(file, "\n");
        }
    }
}
static void record(const void *kernel, const uint32_t *grid, const uint32_t *shape, uint64_t lds,
                   void *queue, void **parameters, void **extra) {
    char path[4096];
    pthread_mutex_lock(&lock);
    code *one = known(kernel);
    if (!one || !one->name || !one->from || !wanted(one->name)) { pthread_mutex_unlock(&lock); return; }
    static unsigned char bytes[1 << 16];
    static uint32_t found[MOST_ARGUMENTS][2];
    size_t size = 0;
    int number = put_code((code *)one->from), fault = 0;
    memset(bytes, 0, sizeof bytes);
    if (extra) {
        const void *given = NULL;
        for (int i = 0; i < 8 && extra[i] != (void *)3; i += 2) {
            if (extra[i] == (void *)1) given = extra[i + 1];
            if (extra[i] == (void *)2) size = *(size_t *)extra[i + 1];
        }
        if (size > sizeof bytes) size = sizeof bytes;
        if (given) memcpy(bytes, given, size);
    } else if (parameters) {
        int count = number ? places(number, one->name, found) : -1;
        fault = count < 0;
        for (int i = 0; i < count; i++) {
            size_t end = (size_t)found[i][0] + found[i][1];
            if (end > sizeof bytes) { fault = 1; break; }
            memcpy(bytes + found[i][0], parameters[i], found[i][1]);
            if (end > size) size = end;
        }
    }
    FILE *file = opened(path, "launch", ++written, "txt", "w");
    if (file) {
        fprintf(file, "kernel %s\ncode %d\ngrid %u %u %u\nblock %u %u %u\nlds %llu\nfault %d\n", one->name,
                number, grid[0], grid[1], grid[2], shape[0], shape[1], shape[2], (unsigned long long)lds, fault);
        put_arch(file);
        fprintf(file, "arguments ");
        for (size_t i = 0; i < size; i++) fprintf(file, "%02x", bytes[i]);
        fprintf(file, "\n");
        put_memory(file, bytes, size, queue);
        fprintf(file, "end\n");
        fclose(file);
    }
    pthread_mutex_unlock(&lock);
}
#define SIX uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz
#define BOTH (uint32_t[]){gx, gy, gz}, (uint32_t[]){bx, by, bz}

EXPORT int hipModuleLaunchKernel(void *kernel, SIX, unsigned lds, void *queue, void **parameters, void **extra) {
    int (*go)(void *, SIX, unsigned, void *, void **, void **) = real("hipModuleLaunchKernel");
    record(kernel, BOTH, lds, queue, parameters, extra);
    return go ? go(kernel, gx, gy, gz, bx, by, bz, lds, queue, parameters, extra) : 1;
}
EXPORT int hipModuleLaunchCooperativeKernel(void *kernel, SIX, unsigned lds, void *queue, void **parameters) {
    int (*go)(void *, SIX, unsigned, void *, void **) = real("hipModuleLaunchCooperativeKernel");
    record(kernel, BOTH, lds, queue, parameters, NULL);
    return go ? go(kernel, gx, gy, gz, bx, by, bz, lds, queue, parameters) : 1;
}
/* This one counts its grid in work-items. */
EXPORT int hipExtModuleLaunchKernel(void *kernel, SIX, size_t lds, void *queue, void **parameters, void **extra,
                                    void *start, void *stop, unsigned flags) {
    int (*go)(void *, SIX, size_t, void *, void **, void **, void *, void *, unsigned) =
        real("hipExtModuleLaunchKernel");
    uint32_t groups[] = {bx ? (gx + bx - 1) / bx : 0, by ? (gy + by - 1) / by : 0, bz ? (gz + bz - 1) / bz : 0};
    record(kernel, groups, (uint32_t[]){bx, by, bz}, lds, queue, parameters, extra);
    return go ? go(kernel, gx, gy, gz, bx, by, bz, lds, queue, parameters, extra, start, stop, flags) : 1;
}
EXPORT int hipLaunchKernel(const void *kernel, dim3 grid, dim3 shape, void **parameters, size_t lds, void *queue) {
    int (*go)(const void *, dim3, dim3, void **, size_t, void *) = real("hipLaunchKernel");
    record(kernel, &grid.x, &shape.x, lds, queue, parameters, NULL);
    return go ? go(kernel, grid, shape, parameters, lds, queue) : 1;
}
EXPORT int hipExtLaunchKernel(const void *kernel, dim3 grid, dim3 shape, void **parameters, size_t lds, void *queue,
                              void *start, void *stop, int flags) {
    int (*go)(const void *, dim3, dim3, void **, size_t, void *, void *, void *, int) = real("hipExtLaunchKernel");
    record(kernel, &grid.x, &shape.x, lds, queue, parameters, NULL);
    return go ? go(kernel, grid, shape, parameters, lds, queue, start, stop, flags) : 1;
}

#define HOOK(name) {#name, (void *)name, NULL}
static hook hooks[24] = {
    HOOK(hipGetProcAddress), HOOK(hipMalloc), HOOK(hipExtMallocWithFlags), HOOK(hipMallocManaged),
    HOOK(hipMallocAsync), HOOK(hipMallocFromPoolAsync), HOOK(hipHostMalloc), HOOK(hipFree), HOOK(hipFreeAsync),
    HOOK(hipHostFree), HOOK(hipModuleLoadData), HOOK(hipModuleLoadDataEx), HOOK(hipModuleLoad),
    HOOK(hipModuleGetFunction), HOOK(hipModuleLaunchKernel), HOOK(hipModuleLaunchCooperativeKernel),
    HOOK(hipExtModuleLaunchKernel), HOOK(hipLaunchKernel), HOOK(hipExtLaunchKernel), {NULL, NULL, NULL}
};
