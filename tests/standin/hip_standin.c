/* A stand-in for HIP that is as strict as its documentation: what that forbids is an error here.
 *
 * Launches run in pipeloom's emulator, in another process (worker.py, found by
 * PIPELOOM_STANDIN_SOCKET). Work is queued and done when something waits for it, and not before: who
 * forgets to synchronise reads what was there. Device memory is mapped without access, so a host that
 * reads it dies; freed addresses are never given out again.
 *
 *   PIPELOOM_STANDIN_DEVICES   gfx950,gfx942,gfx950   the chips (HIP_VISIBLE_DEVICES chooses of them)
 *   PIPELOOM_STANDIN_MEMORY    bytes of a device (1 GiB)
 *   PIPELOOM_STANDIN_FAIL      hipMalloc=2,hipModuleLaunchKernel=719@3   calls that fail (the third)
 *   PIPELOOM_STANDIN_IDLE      launches are checked and dropped: what remains is the caller's cost
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum {
    OK = 0, VALUE = 1, MEMORY = 2, NO_DEVICE = 100, BAD_DEVICE = 101, IMAGE = 200, NO_FILE = 301,
    HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL = 700, RESOURCES = 701, FAILURE = 719,
    CAPTURE = 900, INVALIDATED = 901, IMPLICIT = 906
};
enum { MOST_DEVICES = 8, PAGE = 4096 };
#define SLOT ((uint64_t)1 << 32)
#define FIRST_SLOT 4096
#define LAST_SLOT 18000 /* below where programs and their heaps lie */

typedef struct memory {
    uint64_t base, size, mapped;
    unsigned char *inside; /* where this process may touch it */
    int device;
    char path[128];
    struct memory *next;
} memory;

typedef struct argument { uint32_t offset, size; } argument;
typedef struct function {
    uint32_t magic, live;
    struct module *module;
    char name[512];
    uint32_t bytes, threads, lds, scratch, registers, count;
    argument *arguments;
    struct function *next;
} function;
typedef struct module {
    uint32_t magic, live;
    int device;
    uint64_t id;
    function *functions;
} module;

enum kind { LAUNCH, COPY, SET, RECORD, WAIT };
typedef struct event {
    uint32_t magic, live;
    int device, recorded, done;
    uint64_t generation, sequence;
    struct stream *stream;
    double time;
} event;
typedef struct operation {
    enum kind kind;
    uint64_t sequence;
    function *function;
    uint32_t grid[3], block[3], shared;
    unsigned char *bytes;
    size_t size;
    void *to;
    const void *from;
    int way, value;
    event *event;
    uint64_t generation;
    struct operation *next;
} operation;
typedef struct graph { uint32_t magic, live; operation *first, *last; } graph;
typedef struct stream {
    uint32_t magic, live;
    int device, apart; /* apart: does not wait for the default stream */
    operation *first, *last;
    graph *capture;
    int mode, broken;
    struct stream *next;
} stream;
typedef struct {
    char arch[64], name[64];
    int units, clock, lds, dead;
    uint64_t used;
    double now;
    stream plain, *streams;
} device;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static device devices[MOST_DEVICES];
static int count = -1, wire = -1;
static memory *memories;
static uint64_t slot = FIRST_SLOT, made, sequence, quota;
static _Thread_local int current, last_error;
static char told[1 << 16];

#define STREAM 0x5354524du
#define MODULE 0x4d4f4455u
#define FUNCTION 0x46554e43u
#define EVENT 0x45564e54u
#define GRAPH 0x47524150u

/* --- the worker ------------------------------------------------------------------------------ */

static int put(const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t sent = send(wire, at, size, MSG_NOSIGNAL);
        if (sent <= 0) return 0;
        at += sent;
        size -= (size_t)sent;
    }
    return 1;
}
static int take(void *data, size_t size) {
    char *at = data;
    while (size) {
        ssize_t got = recv(wire, at, size, 0);
        if (got <= 0) return 0;
        at += got;
        size -= (size_t)got;
    }
    return 1;
}
static int connected(void) {
    if (wire >= 0) return 1;
    const char *path = getenv("PIPELOOM_STANDIN_SOCKET");
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    if (!path || strlen(path) >= sizeof place.sun_path) return 0;
    strcpy(place.sun_path, path);
    wire = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(wire, (struct sockaddr *)&place, sizeof place)) {
        fprintf(stderr, "stand-in: no emulator at %s: %s\n", path, strerror(errno));
        close(wire);
        wire = -1;
    }
    return wire >= 0;
}
/* The worker's answer; *reply, of *size bytes, is the caller's to free. */
static int ask(uint32_t what, const void *head, size_t heads, const void *body, size_t bodies,
               unsigned char **reply, uint32_t *size) {
    uint32_t begin[2] = {what, (uint32_t)(heads + bodies)};
    int32_t answer[2] = {0, 0};
    *reply = NULL;
    if (!connected() || !put(begin, sizeof begin) || !put(head, heads) || !put(body, bodies) ||
        !take(answer, sizeof answer)) {
        fprintf(stderr, "stand-in: the emulator is gone\n");
        return FAILURE;
    }
    *size = (uint32_t)answer[1];
    *reply = malloc(*size + 1);
    if (!*reply || !take(*reply, *size)) return FAILURE;
    (*reply)[*size] = 0;
    return answer[0];
}

/* --- devices --------------------------------------------------------------------------------- */

static void forget(operation *one) {
    while (one) {
        operation *next = one->next;
        free(one->bytes);
        free(one);
        one = next;
    }
}
static void begin(void) {
    if (count >= 0) return;
    char all[256], *save, *shown = getenv("HIP_VISIBLE_DEVICES");
    const char *given = getenv("PIPELOOM_STANDIN_DEVICES"), *size = getenv("PIPELOOM_STANDIN_MEMORY");
    char names[MOST_DEVICES][64];
    int known = 0;
    quota = size ? strtoull(size, NULL, 10) : (uint64_t)1 << 30;
    snprintf(all, sizeof all, "%s", given ? given : "gfx950");
    for (char *word = strtok_r(all, ",", &save); word && known < MOST_DEVICES;
         word = strtok_r(NULL, ",", &save))
        snprintf(names[known++], sizeof names[0], "%.40s", word);
    count = 0;
    memset(devices, 0, sizeof devices);
    int order[MOST_DEVICES], chosen = 0;
    if (shown) {
        char text[64];
        snprintf(text, sizeof text, "%s", shown);
        for (char *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
            int index = atoi(word);
            if (index < 0 || index >= known || chosen == MOST_DEVICES) break;
            order[chosen++] = index;
        }
    } else
        while (chosen < known) { order[chosen] = chosen; chosen++; }
    for (; count < chosen; count++) {
        device *one = &devices[count];
        int wide = !strncmp(names[order[count]], "gfx950", 6);
        snprintf(one->arch, sizeof one->arch, "%.40s:sramecc+:xnack-", names[order[count]]);
        snprintf(one->name, sizeof one->name, "Stand-in %.40s", names[order[count]]);
        one->units = wide ? 256 : 304;
        one->clock = wide ? 2400000 : 2100000;
        one->lds = wide ? 163840 : 65536;
        one->plain = (stream){.magic = STREAM, .live = 1, .device = count};
    }
}
static int fails(const char *name) {
    static struct { char name[64]; int calls; } seen[64];
    const char *text = getenv("PIPELOOM_STANDIN_FAIL");
    int index = 0;
    while (index < 63 && seen[index].name[0] && strcmp(seen[index].name, name)) index++;
    snprintf(seen[index].name, sizeof seen[0].name, "%s", name);
    if (!text || !*text) { seen[index].calls = 0; return 0; }
    seen[index].calls++;
    size_t length = strlen(name);
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int code = 0, nth = 0;
        if (strncmp(at, name, length) || at[length] != '=') continue;
        int read = sscanf(at + length + 1, "%d@%d", &code, &nth);
        if (read == 1 || (read == 2 && nth == seen[index].calls)) return code;
    }
    return 0;
}
static int done(int code) {
    if (code) last_error = code;
    pthread_mutex_unlock(&lock);
    return code;
}
#define ENTER                                                        \
    pthread_mutex_lock(&lock);                                       \
    begin();                                                         \
    do {                                                             \
        int code_ = fails(__func__);                                 \
        if (code_) return done(code_);                               \
    } while (0)
#define ALIVE                                                        \
    do {                                                             \
        if (!count) return done(NO_DEVICE);                          \
        if (devices[current].dead) return done(devices[current].dead); \
    } while (0)

static int is_stream(stream *one) {
    for (int at = 0; at < count; at++) {
        if (one == &devices[at].plain) return 1;
        for (stream *s = devices[at].streams; s; s = s->next)
            if (s == one) return s->live;
    }
    return 0;
}
static int the_stream(void *handle, stream **found) {
    *found = handle ? handle : &devices[current].plain;
    if (!is_stream(*found)) return HANDLE;
    return (*found)->device == current ? OK : HANDLE;
}
/* A stream whose capture forbids what is unsafe in one; relaxed ones do not. */
static stream *capturing(void) {
    for (int at = 0; at < count; at++)
        for (stream *s = devices[at].streams; s; s = s->next)
            if (s->live && s->capture && s->mode != 2) return s;
    return NULL;
}
static int unsafe(void) {
    stream *one = capturing();
    if (one) one->broken = 1;
    return one ? CAPTURE : OK;
}

/* --- memory ---------------------------------------------------------------------------------- */

static memory *holding(uint64_t address, uint64_t size) {
    for (memory *m = memories; m; m = m->next)
        if (address >= m->base && address - m->base < m->size && size <= m->size - (address - m->base))
            return m;
    return NULL;
}
static int on_device(const void *pointer) {
    uint64_t at = (uint64_t)(uintptr_t)pointer;
    return at >= FIRST_SLOT * SLOT && at < (LAST_SLOT + 2) * SLOT;
}
static unsigned char *inside(const void *pointer, size_t size, int on) {
    uint64_t at = (uint64_t)(uintptr_t)pointer;
    memory *m = holding(at, size);
    return m && (on < 0 || m->device == on) ? m->inside + (at - m->base) : NULL;
}
EXPORT int hipMalloc(void **out, size_t size) {
    ENTER; ALIVE;
    int code = unsafe();
    if (code) return done(code);
    if (!out) return done(VALUE);
    *out = NULL;
    if (!size) return done(OK);
    device *on = &devices[current];
    if (size > quota || on->used + size > quota || slot >= LAST_SLOT) return done(MEMORY);
    memory *m = calloc(1, sizeof *m);
    uint64_t pages = (size + PAGE - 1) / PAGE;
    m->size = size;
    m->mapped = pages * PAGE;
    m->device = current;
    /* Across a multiple of 4 GiB, where there are two pages: arithmetic in 32 bits goes astray. */
    m->base = (slot + 1) * SLOT - (pages > 1 ? PAGE * (1 + made % (pages - 1)) : PAGE * 16);
    slot += 2 + size / SLOT;
    snprintf(m->path, sizeof m->path, "%s/pipeloom-%d-%llu",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid(), (unsigned long long)made++);
    int file = open(m->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)m->mapped)) { free(m); return done(MEMORY); }
    void *shown = mmap((void *)(uintptr_t)m->base, m->mapped, PROT_NONE,
                       MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
    m->inside = mmap(NULL, m->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shown != (void *)(uintptr_t)m->base || m->inside == MAP_FAILED) {
        unlink(m->path); free(m);
        return done(MEMORY);
    }
    memset(m->inside, 0xFF, m->mapped); /* what nobody wrote is NaN */
    uint64_t head[2] = {m->base, m->size};
    unsigned char *reply;
    uint32_t length;
    code = ask(1, head, sizeof head, m->path, strlen(m->path), &reply, &length);
    free(reply);
    unlink(m->path);
    m->next = memories;
    memories = m;
    on->used += size;
    *out = (void *)(uintptr_t)m->base;
    return done(code);
}
static void release(memory **at) {
    memory *m = *at;
    unsigned char *reply;
    uint32_t length;
    ask(2, &m->base, sizeof m->base, NULL, 0, &reply, &length);
    free(reply);
    munmap((void *)(uintptr_t)m->base, m->mapped);
    munmap(m->inside, m->mapped);
    devices[m->device].used -= m->size;
    *at = m->next;
    free(m);
}

/* --- work in order --------------------------------------------------------------------------- */

static void drain(stream *on, uint64_t until);

static int copied(void *to, const void *from, size_t size, int way) {
    unsigned char *there = way != 2 ? inside(to, size, -1) : NULL;
    unsigned char *here = way != 1 ? inside(from, size, -1) : NULL;
    if (way < 1 || way > 3 || (way != 2 && !there) || (way != 1 && !here)) return VALUE;
    if ((way == 1 && on_device(from)) || (way == 2 && on_device(to))) return VALUE;
    memmove(there ? there : to, here ? here : from, size);
    return OK;
}
static void perform(stream *on, operation *one) {
    device *place = &devices[on->device];
    unsigned char *reply = NULL, *to;
    uint32_t length = 0;
    int code = OK;
    if (place->dead) return;
    switch (one->kind) {
    case LAUNCH: {
        struct {
            uint64_t module;
            uint32_t grid[3], block[3], shared, bytes;
            char name[512];
        } head;
        memset(&head, 0, sizeof head);
        head.module = one->function->module->id;
        memcpy(head.grid, one->grid, sizeof head.grid);
        memcpy(head.block, one->block, sizeof head.block);
        head.shared = one->shared;
        head.bytes = (uint32_t)one->size;
        memcpy(head.name, one->function->name, sizeof head.name);
        code = ask(4, &head, sizeof head, one->bytes, one->size, &reply, &length);
        if (!code && length >= 8) {
            uint64_t executed;
            memcpy(&executed, reply, 8);
            place->now += 1e-3 + 1e-6 * (double)executed;
        }
        free(reply);
        break;
    }
    case COPY:
        code = copied(one->to, one->from, one->size, one->way) ? ILLEGAL : OK;
        break;
    case SET:
        to = inside(one->to, one->size, -1);
        if (to) memset(to, one->value, one->size);
        code = to ? OK : ILLEGAL;
        break;
    case RECORD:
        if (one->event->generation == one->generation) {
            one->event->done = 1;
            one->event->time = place->now;
        }
        break;
    case WAIT:
        if (one->event->generation == one->generation && !one->event->done && one->event->stream)
            drain(one->event->stream, one->event->sequence);
        break;
    }
    if (code) place->dead = code == FAILURE ? FAILURE : ILLEGAL;
}
static void drain(stream *on, uint64_t until) {
    device *place = &devices[on->device];
    while (on->first && on->first->sequence <= until) {
        operation *one = on->first;
        if (on == &place->plain) {
            for (stream *s = place->streams; s; s = s->next)
                if (s->live && !s->apart) drain(s, one->sequence - 1);
        } else if (!on->apart)
            drain(&place->plain, one->sequence - 1);
        on->first = one->next;
        if (!on->first) on->last = NULL;
        one->next = NULL;
        perform(on, one);
        forget(one);
    }
}
static void drain_all(int on) {
    drain(&devices[on].plain, UINT64_MAX);
    for (stream *s = devices[on].streams; s; s = s->next)
        if (s->live) drain(s, UINT64_MAX);
}
/* To the stream's queue, or to the graph that it captures. */
static int enqueue(stream *on, operation one) {
    device *place = &devices[on->device];
    if (on == &place->plain)
        for (stream *s = place->streams; s; s = s->next)
            if (s->live && s->capture && !s->apart) { s->broken = 1; return IMPLICIT; }
    if (on->capture && on->broken) return INVALIDATED;
    operation *kept = malloc(sizeof *kept);
    *kept = one;
    kept->next = NULL;
    kept->sequence = ++sequence;
    if (one.kind == RECORD && !on->capture) {
        one.event->generation++;
        one.event->sequence = kept->sequence;
        one.event->stream = on;
        one.event->recorded = 1;
        one.event->done = 0;
    }
    if (one.event) kept->generation = one.event->generation;
    operation **first = on->capture ? &on->capture->first : &on->first;
    operation **last = on->capture ? &on->capture->last : &on->last;
    if (*last) (*last)->next = kept; else *first = kept;
    *last = kept;
    return OK;
}
EXPORT int hipFree(void *pointer) {
    ENTER; ALIVE;
    int code = unsafe();
    if (code) return done(code);
    if (!pointer) return done(OK);
    for (memory **at = &memories; *at; at = &(*at)->next)
        if ((*at)->base == (uint64_t)(uintptr_t)pointer) {
            drain_all((*at)->device);
            release(at);
            return done(devices[current].dead);
        }
    return done(VALUE);
}
EXPORT int hipMemGetAddressRange(void **base, size_t *size, void *pointer) {
    ENTER; ALIVE;
    memory *m = holding((uint64_t)(uintptr_t)pointer, 1);
    if (!m) return done(VALUE);
    if (base) *base = (void *)(uintptr_t)m->base;
    if (size) *size = m->size;
    return done(OK);
}
EXPORT int hipMemcpy(void *to, const void *from, size_t size, int way) {
    ENTER; ALIVE;
    int code = unsafe();
    if (code) return done(code);
    if (!size) return done(OK);
    drain(&devices[current].plain, UINT64_MAX);
    for (stream *s = devices[current].streams; s; s = s->next)
        if (s->live && !s->apart) drain(s, UINT64_MAX);
    ALIVE;
    return done(copied(to, from, size, way));
}
EXPORT int hipMemcpyAsync(void *to, const void *from, size_t size, int way, void *handle) {
    stream *on;
    ENTER; ALIVE;
    int code = the_stream(handle, &on);
    if (code) return done(code);
    if (way < 1 || way > 3 || (way != 2 && !inside(to, size, -1)) || (way != 1 && !inside(from, size, -1)))
        return done(VALUE);
    return done(enqueue(on, (operation){.kind = COPY, .to = to, .from = from, .size = size, .way = way}));
}
EXPORT int hipMemset(void *to, int value, size_t size) {
    ENTER; ALIVE;
    int code = unsafe();
    if (code) return done(code);
    if (!size) return done(OK);
    if (!inside(to, size, current)) return done(VALUE);
    return done(enqueue(&devices[current].plain,
                        (operation){.kind = SET, .to = to, .value = value, .size = size}));
}
EXPORT int hipMemsetAsync(void *to, int value, size_t size, void *handle) {
    stream *on;
    ENTER; ALIVE;
    int code = the_stream(handle, &on);
    if (code) return done(code);
    if (!inside(to, size, -1)) return done(VALUE);
    return done(enqueue(on, (operation){.kind = SET, .to = to, .value = value, .size = size}));
}

/* --- devices, as asked ----------------------------------------------------------------------- */

EXPORT int hipInit(unsigned flags) { ENTER; return done(flags ? VALUE : count ? OK : NO_DEVICE); }
EXPORT int hipRuntimeGetVersion(int *version) {
    ENTER;
    if (!version) return done(VALUE);
    *version = 70125424;
    return done(OK);
}
EXPORT int hipDriverGetVersion(int *version) { return hipRuntimeGetVersion(version); }
EXPORT int hipGetDeviceCount(int *out) {
    ENTER;
    if (!out) return done(VALUE);
    *out = count;
    return done(count ? OK : NO_DEVICE);
}
EXPORT int hipGetDevice(int *out) {
    ENTER;
    if (!out) return done(VALUE);
    if (!count) return done(NO_DEVICE);
    *out = current;
    return done(OK);
}
EXPORT int hipSetDevice(int index) {
    ENTER;
    if (index < 0 || index >= count) return done(BAD_DEVICE);
    current = index;
    return done(OK);
}
EXPORT int hipDeviceGetAttribute(int *out, int which, int index) {
    ENTER;
    if (!out) return done(VALUE);
    if (index < 0 || index >= count) return done(BAD_DEVICE);
    device *one = &devices[index];
    switch (which) {
    case 5: *out = one->clock; break;
    case 19: *out = 4 << 20; break;
    case 63: *out = one->units; break;
    case 74: case 10002: *out = one->lds; break;
    case 10017: *out = 100000; break;
    case 10018: *out = 8; break;
    default: return done(VALUE);
    }
    return done(OK);
}
static void word(unsigned char *at, int value) { memcpy(at, &value, sizeof value); }
EXPORT int hipGetDevicePropertiesR0600(void *out, int index) {
    ENTER;
    if (!out) return done(VALUE);
    if (index < 0 || index >= count) return done(BAD_DEVICE);
    unsigned char *to = out;
    device *one = &devices[index];
    uint64_t lds = (uint64_t)one->lds;
    memset(to, 0, 1472);
    strcpy((char *)to, one->name);
    memcpy(to + 288, &quota, 8);
    memcpy(to + 296, &lds, 8);
    word(to + 308, 64);
    word(to + 320, 1024);
    word(to + 348, one->clock);
    word(to + 388, one->units);
    word(to + 616, 4 << 20);
    strcpy((char *)to + 1160, one->arch);
    return done(OK);
}
/* The struct of ROCm 5, which has the architecture elsewhere; 792 bytes. */
EXPORT int hipGetDeviceProperties(void *out, int index) {
    ENTER;
    if (!out) return done(VALUE);
    if (index < 0 || index >= count) return done(BAD_DEVICE);
    unsigned char *to = out;
    memset(to, 0, 792);
    strcpy((char *)to, devices[index].name);
    memcpy(to + 256, &quota, 8);
    strcpy((char *)to + 396, devices[index].arch);
    return done(OK);
}
EXPORT int hipDeviceSynchronize(void) {
    ENTER; ALIVE;
    int code = unsafe();
    if (code) return done(code);
    drain_all(current);
    return done(devices[current].dead);
}
EXPORT int hipGetLastError(void) {
    pthread_mutex_lock(&lock);
    begin();
    int code = count && devices[current].dead ? devices[current].dead : last_error;
    last_error = OK;
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT int hipPeekAtLastError(void) {
    pthread_mutex_lock(&lock);
    begin();
    int code = count && devices[current].dead ? devices[current].dead : last_error;
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT const char *hipGetErrorString(int code) {
    switch (code) {
    case OK: return "no error";
    case VALUE: return "invalid argument";
    case MEMORY: return "out of memory";
    case NO_DEVICE: return "no ROCm-capable device is detected";
    case BAD_DEVICE: return "invalid device ordinal";
    case IMAGE: return "device kernel image is invalid";
    case 209: return "no kernel image is available for execution on the device";
    case NO_FILE: return "file not found";
    case HANDLE: return "invalid resource handle";
    case NOT_FOUND: return "named symbol not found";
    case NOT_READY: return "device not ready";
    case ILLEGAL: return "an illegal memory access was encountered";
    case RESOURCES: return "too many resources requested for launch";
    case FAILURE: return "unspecified launch failure";
    case CAPTURE: return "operation not permitted when stream is capturing";
    case INVALIDATED: return "operation failed due to a previous error during capture";
    case IMPLICIT: return "operation would make the legacy stream depend on a capturing blocking stream";
    default: return "unknown error";
    }
}

/* --- code ------------------------------------------------------------------------------------ */

static size_t elf_size(const unsigned char *image) {
    uint64_t at;
    uint16_t size, number;
    if (memcmp(image, "\177ELF\2\1", 6)) return 0;
    memcpy(&at, image + 40, 8);
    memcpy(&size, image + 58, 2);
    memcpy(&number, image + 60, 2);
    size_t end = at + (size_t)size * number;
    for (unsigned i = 0; i < number; i++) { /* sections may lie behind their table */
        const unsigned char *section = image + at + (size_t)i * size;
        uint64_t offset, length;
        uint32_t kind;
        memcpy(&kind, section + 4, 4);
        memcpy(&offset, section + 24, 8);
        memcpy(&length, section + 32, 8);
        if (kind != 8 && offset + length > end) end = offset + length;
    }
    return end;
}
static uint32_t next_word(unsigned char **at) {
    uint32_t found;
    memcpy(&found, *at, 4);
    *at += 4;
    return found;
}
static int load(void **out, const void *image) {
    static uint64_t numbers;
    struct { uint64_t id; char arch[64]; } head;
    int code = unsafe();
    if (code) return code;
    if (!out || !image) return VALUE;
    size_t size = elf_size(image);
    if (!size) return IMAGE;
    memset(&head, 0, sizeof head);
    head.id = ++numbers;
    snprintf(head.arch, sizeof head.arch, "%.*s", (int)strcspn(devices[current].arch, ":"),
             devices[current].arch);
    unsigned char *reply;
    uint32_t length;
    code = ask(3, &head, sizeof head, image, size, &reply, &length);
    if (code) { free(reply); return code; }
    module *made_now = calloc(1, sizeof *made_now);
    *made_now = (module){.magic = MODULE, .live = 1, .device = current, .id = head.id};
    for (unsigned char *at = reply; at < reply + length;) {
        function *one = calloc(1, sizeof *one);
        one->magic = FUNCTION;
        one->live = 1;
        one->module = made_now;
        snprintf(one->name, sizeof one->name, "%s", (char *)at);
        at += strlen((char *)at) + 1;
        one->bytes = next_word(&at);
        one->threads = next_word(&at);
        one->lds = next_word(&at);
        one->scratch = next_word(&at);
        one->registers = next_word(&at);
        one->count = next_word(&at);
        one->arguments = calloc(one->count + 1, sizeof *one->arguments);
        for (uint32_t i = 0; i < one->count; i++) {
            one->arguments[i].offset = next_word(&at);
            one->arguments[i].size = next_word(&at);
        }
        one->next = made_now->functions;
        made_now->functions = one;
    }
    free(reply);
    *out = made_now;
    return OK;
}
EXPORT int hipModuleLoadData(void **out, const void *image) { ENTER; ALIVE; return done(load(out, image)); }
EXPORT int hipModuleLoad(void **out, const char *path) {
    ENTER; ALIVE;
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) return done(NO_FILE);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    unsigned char *image = calloc(1, (size_t)size + 64);
    size_t got = fread(image, 1, (size_t)size, file);
    fclose(file);
    int code = got == (size_t)size && elf_size(image) <= (size_t)size ? load(out, image) : IMAGE;
    free(image);
    return done(code);
}
EXPORT int hipModuleUnload(void *handle) {
    ENTER; ALIVE;
    module *one = handle;
    int code = unsafe();
    if (code) return done(code);
    if (!one || one->magic != MODULE || !one->live) return done(HANDLE);
    drain_all(one->device);
    one->live = 0; /* kept, so that who uses it later is found out */
    for (function *f = one->functions; f; f = f->next) f->live = 0;
    return done(OK);
}
EXPORT int hipModuleGetFunction(void **out, void *handle, const char *name) {
    ENTER; ALIVE;
    module *one = handle;
    if (!out || !name) return done(VALUE);
    *out = NULL;
    if (!one || one->magic != MODULE || !one->live) return done(HANDLE);
    for (function *f = one->functions; f; f = f->next)
        if (!strcmp(f->name, name)) { *out = f; return done(OK); }
    return done(NOT_FOUND);
}
EXPORT int hipFuncGetAttribute(int *out, int which, void *handle) {
    ENTER; ALIVE;
    function *one = handle;
    if (!out) return done(VALUE);
    if (!one || one->magic != FUNCTION || !one->live) return done(HANDLE);
    switch (which) {
    case 0: *out = (int)one->threads; break;
    case 1: *out = (int)one->lds; break;
    case 3: *out = (int)one->scratch; break;
    case 4: *out = (int)one->registers; break;
    default: return done(VALUE);
    }
    return done(OK);
}
EXPORT int hipModuleLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, void *queue,
                                 void **parameters, void **extra) {
    stream *on;
    ENTER; ALIVE;
    function *one = handle;
    if (!one || one->magic != FUNCTION || !one->live) return done(HANDLE);
    if (one->module->device != current) return done(HANDLE);
    int code = the_stream(queue, &on);
    if (code) return done(code);
    uint64_t threads = (uint64_t)bx * by * bz;
    if (!gx || !gy || !gz || !threads || gy > 65535 || gz > 65535) return done(VALUE);
    if ((uint64_t)gx * bx >> 32 || (uint64_t)gy * by >> 32 || (uint64_t)gz * bz >> 32) return done(VALUE);
    if (threads > 1024) return done(VALUE);
    if (threads > one->threads) return done(RESOURCES);
    if ((uint64_t)one->lds + shared > (uint64_t)devices[current].lds) return done(RESOURCES);
    if (parameters && extra) return done(VALUE);
    unsigned char *bytes = calloc(1, one->bytes + 8);
    size_t size = one->bytes;
    if (extra) {
        const void *given = NULL;
        size_t length = 0;
        int i = 0;
        for (; extra[i] != (void *)3; i += 2) {
            if (extra[i] == (void *)1) given = extra[i + 1];
            else if (extra[i] == (void *)2) length = *(size_t *)extra[i + 1];
            else { free(bytes); return done(VALUE); }
            if (i > 2) { free(bytes); return done(VALUE); }
        }
        if ((one->bytes && !given) || length < one->bytes) { free(bytes); return done(VALUE); }
        if (given) memcpy(bytes, given, size);
    } else if (parameters) {
        for (uint32_t i = 0; i < one->count; i++)
            memcpy(bytes + one->arguments[i].offset, parameters[i], one->arguments[i].size);
    } else if (one->bytes) { free(bytes); return done(VALUE); }
    if (getenv("PIPELOOM_STANDIN_IDLE")) { free(bytes); return done(OK); }
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s %u %u %u\n", one->name, gx, gy, gz);
    return done(enqueue(on, (operation){.kind = LAUNCH, .function = one, .grid = {gx, gy, gz},
                                        .block = {bx, by, bz}, .shared = shared, .bytes = bytes,
                                        .size = size}));
}

EXPORT int hipExtModuleLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                    unsigned by, unsigned bz, size_t shared, void *queue, void **parameters,
                                    void **extra, void *start, void *stop, unsigned flags) {
    if (!bx || !by || !bz || gx % bx || gy % by || gz % bz || start || stop || flags) return VALUE;
    return hipModuleLaunchKernel(handle, gx / bx, gy / by, gz / bz, bx, by, bz, (unsigned)shared, queue,
                                 parameters, extra);
}

/* --- kernels of the program itself: bundles that it registers before main ---------------------- */

typedef struct { unsigned x, y, z; } dim3;
typedef struct { unsigned magic, version; const unsigned char *bundle; void *spare; } fat_binary;
typedef struct registered {
    const void *host;
    const fat_binary *from;
    char name[512];
    void *loaded[MOST_DEVICES];
    struct registered *next;
} registered;
static registered *kernels;

EXPORT void **__hipRegisterFatBinary(const void *wrapper) {
    const void **handle = calloc(1, sizeof *handle);
    *handle = wrapper;
    return (void **)handle;
}
EXPORT void __hipRegisterFunction(void **handle, const void *host, char *device, const char *name,
                                  unsigned threads, void *tid, void *bid, void *block, void *grid, int *size) {
    (void)device; (void)threads; (void)tid; (void)bid; (void)block; (void)grid; (void)size;
    registered *one = calloc(1, sizeof *one);
    *one = (registered){.host = host, .from = *handle, .next = kernels};
    snprintf(one->name, sizeof one->name, "%s", name);
    kernels = one;
}
EXPORT void __hipUnregisterFatBinary(void **handle) { free(handle); }
static int bundled(registered *one) {
    char wanted[128];
    uint64_t number, entry[3];
    const unsigned char *at = one->from->bundle + 32;
    snprintf(wanted, sizeof wanted, "hipv4-amdgcn-amd-amdhsa--%.*s",
             (int)strcspn(devices[current].arch, ":"), devices[current].arch);
    memcpy(&number, one->from->bundle + 24, 8);
    for (uint64_t i = 0; i < number; i++, at += 24 + entry[2]) {
        memcpy(entry, at, 24);
        if (entry[2] != strlen(wanted) || memcmp(at + 24, wanted, entry[2])) continue;
        void *module, *image = malloc(entry[1] + 64);
        memcpy(image, one->from->bundle + entry[0], entry[1]);
        int code = load(&module, image);
        free(image);
        return code ? code : hipModuleGetFunction(&one->loaded[current], module, one->name);
    }
    return IMAGE;
}
EXPORT int hipLaunchKernel(const void *host, dim3 grid, dim3 block, void **parameters, size_t shared, void *queue) {
    ENTER; ALIVE;
    registered *one = kernels;
    while (one && one->host != host) one = one->next;
    int code = !one ? HANDLE : one->loaded[current] ? OK : bundled(one);
    if (code) return done(code);
    return done(hipModuleLaunchKernel(one->loaded[current], grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                      (unsigned)shared, queue, parameters, NULL));
}

/* --- streams, events, graphs ----------------------------------------------------------------- */

EXPORT int hipStreamCreateWithFlags(void **out, unsigned flags) {
    ENTER; ALIVE;
    if (!out || flags > 1) return done(VALUE);
    stream *one = calloc(1, sizeof *one);
    *one = (stream){.magic = STREAM, .live = 1, .device = current, .apart = (int)flags,
                    .next = devices[current].streams};
    devices[current].streams = one;
    *out = one;
    return done(OK);
}
EXPORT int hipStreamCreate(void **out) { return hipStreamCreateWithFlags(out, 0); }
EXPORT int hipStreamDestroy(void *handle) {
    stream *on;
    ENTER; ALIVE;
    int code = the_stream(handle, &on);
    if (code || !handle) return done(code ? code : HANDLE);
    drain(on, UINT64_MAX);
    on->live = 0;
    return done(OK);
}
EXPORT int hipStreamSynchronize(void *handle) {
    stream *on;
    ENTER; ALIVE;
    int code = the_stream(handle, &on);
    if (code) return done(code);
    if (on->capture) { on->broken = 1; return done(CAPTURE); }
    if (!handle && (code = unsafe())) return done(code);
    drain(on, UINT64_MAX);
    return done(devices[current].dead);
}
EXPORT int hipStreamQuery(void *handle) {
    stream *on;
    ENTER; ALIVE;
    int code = the_stream(handle, &on);
    if (code) return done(code);
    if (on->capture) { on->broken = 1; return done(CAPTURE); }
    if (on->first) { drain(on, on->first->sequence); return done(NOT_READY); }
    return done(devices[current].dead);
}
EXPORT int hipStreamIsCapturing(void *handle, int *out) {
    stream *on;
    ENTER; ALIVE;
    int code = the_stream(handle, &on);
    if (code || !out) return done(code ? code : VALUE);
    *out = !on->capture ? 0 : on->broken ? 2 : 1;
    return done(OK);
}
EXPORT int hipEventCreate(void **out) {
    ENTER; ALIVE;
    if (!out) return done(VALUE);
    event *one = calloc(1, sizeof *one);
    *one = (event){.magic = EVENT, .live = 1, .device = current};
    *out = one;
    return done(OK);
}
EXPORT int hipEventCreateWithFlags(void **out, unsigned flags) {
    (void)flags;
    return hipEventCreate(out);
}
static int is_event(event *one) { return one && one->magic == EVENT && one->live; }
EXPORT int hipEventDestroy(void *handle) {
    event *one = handle;
    ENTER; ALIVE;
    if (!is_event(one)) return done(HANDLE);
    one->live = 0;
    return done(OK);
}
EXPORT int hipEventRecord(void *handle, void *queue) {
    event *one = handle;
    stream *on;
    ENTER; ALIVE;
    if (!is_event(one) || one->device != current) return done(HANDLE);
    int code = the_stream(queue, &on);
    if (code) return done(code);
    return done(enqueue(on, (operation){.kind = RECORD, .event = one}));
}
EXPORT int hipStreamWaitEvent(void *queue, void *handle, unsigned flags) {
    event *one = handle;
    stream *on;
    ENTER; ALIVE;
    if (!is_event(one) || flags) return done(flags ? VALUE : HANDLE);
    int code = the_stream(queue, &on);
    if (code) return done(code);
    return done(enqueue(on, (operation){.kind = WAIT, .event = one}));
}
EXPORT int hipEventSynchronize(void *handle) {
    event *one = handle;
    ENTER; ALIVE;
    if (!is_event(one)) return done(HANDLE);
    int code = unsafe();
    if (code) return done(code);
    if (one->recorded && !one->done) drain(one->stream, one->sequence);
    return done(devices[current].dead);
}
EXPORT int hipEventQuery(void *handle) {
    event *one = handle;
    ENTER; ALIVE;
    if (!is_event(one)) return done(HANDLE);
    return done(one->recorded && !one->done ? NOT_READY : OK);
}
EXPORT int hipEventElapsedTime(float *out, void *from, void *to) {
    event *a = from, *b = to;
    ENTER; ALIVE;
    if (!out) return done(VALUE);
    if (!is_event(a) || !is_event(b) || !a->recorded || !b->recorded || a->device != b->device)
        return done(HANDLE);
    if (!a->done || !b->done) return done(NOT_READY);
    *out = (float)(b->time - a->time);
    return done(OK);
}
EXPORT int hipStreamBeginCapture(void *handle, int mode) {
    stream *on;
    ENTER; ALIVE;
    int code = the_stream(handle, &on);
    if (code) return done(code);
    if (!handle) return done(CAPTURE);
    if (on->capture || mode < 0 || mode > 2) return done(VALUE);
    on->capture = calloc(1, sizeof *on->capture);
    *on->capture = (graph){.magic = GRAPH, .live = 1};
    on->mode = mode;
    on->broken = 0;
    return done(OK);
}
EXPORT int hipStreamEndCapture(void *handle, void **out) {
    stream *on;
    ENTER; ALIVE;
    int code = the_stream(handle, &on);
    if (code) return done(code);
    if (!out || !on->capture) return done(VALUE);
    graph *made_now = on->capture;
    on->capture = NULL;
    *out = on->broken ? NULL : made_now;
    return done(on->broken ? INVALIDATED : OK);
}
static operation *copy_of(const operation *one) {
    operation *kept = malloc(sizeof *kept);
    *kept = *one;
    kept->next = NULL;
    if (one->bytes) {
        kept->bytes = malloc(one->size + 8);
        memcpy(kept->bytes, one->bytes, one->size);
    }
    return kept;
}
EXPORT int hipGraphInstantiate(void **out, void *handle, void **node, char *text, size_t size) {
    (void)node; (void)text; (void)size;
    graph *from = handle;
    ENTER; ALIVE;
    if (!out) return done(VALUE);
    if (!from || from->magic != GRAPH || !from->live) return done(HANDLE);
    graph *made_now = calloc(1, sizeof *made_now);
    *made_now = (graph){.magic = GRAPH, .live = 1};
    for (operation *one = from->first; one; one = one->next) {
        operation *kept = copy_of(one);
        if (made_now->last) made_now->last->next = kept; else made_now->first = kept;
        made_now->last = kept;
    }
    *out = made_now;
    return done(OK);
}
EXPORT int hipGraphLaunch(void *handle, void *queue) {
    graph *from = handle;
    stream *on;
    ENTER; ALIVE;
    if (!from || from->magic != GRAPH || !from->live) return done(HANDLE);
    int code = the_stream(queue, &on);
    for (operation *one = from->first; one && !code; one = one->next) {
        operation *kept = copy_of(one);
        if (kept->function && !kept->function->live) code = HANDLE;
        if (!code) code = enqueue(on, *kept);
        free(kept);
    }
    return done(code);
}
static int drop_graph(void *handle) {
    graph *one = handle;
    if (!one || one->magic != GRAPH || !one->live) return HANDLE;
    forget(one->first);
    *one = (graph){.magic = GRAPH};
    return OK;
}
EXPORT int hipGraphDestroy(void *handle) { ENTER; return done(drop_graph(handle)); }
EXPORT int hipGraphExecDestroy(void *handle) { ENTER; return done(drop_graph(handle)); }

/* Everything as it was at first, for the next test; the environment is read again. */
EXPORT int hipDeviceReset(void) {
    pthread_mutex_lock(&lock);
    while (memories) release(&memories);
    for (int at = 0; at < count; at++)
        for (stream *s = devices[at].streams; s; s = s->next) { forget(s->first); s->live = 0; }
    slot = FIRST_SLOT;
    told[0] = 0;
    count = -1;
    current = 0;
    last_error = OK;
    begin();
    pthread_mutex_unlock(&lock);
    return OK;
}
/* The launches since the last reset, or since they were asked for: name and grid of each. */
EXPORT const char *standin_launches(int forget_them) {
    static char kept[sizeof told];
    memcpy(kept, told, sizeof told);
    if (forget_them) told[0] = 0;
    return kept;
}
/* Bytes that are in use on a device: what was never freed. */
EXPORT uint64_t standin_used(int index) { return index < count ? devices[index].used : 0; }
