/* The launcher of pipeloom_gemm.h; the kernels and shapes are in pipeloom_gemm_table.h. */
#include "pipeloom_gemm.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLG_ARG_A, PLG_ARG_B, PLG_ARG_C, PLG_ARG_OUT, PLG_ARG_P, PLG_ARG_X, PLG_ARG_BLOCKS_A,
    PLG_ARG_BLOCKS_B, PLG_ARG_SCALE_A, PLG_ARG_SCALE_B, PLG_ARG_BIAS, PLG_BS_A, PLG_BS_B, PLG_BS_C,
    PLG_BS_OUT, PLG_BS_P, PLG_BS_X, PLG_BS_BLOCKS_A, PLG_BS_BLOCKS_B, PLG_BS_SCALE_A,
    PLG_BS_SCALE_B, PLG_BS_BIAS, /* 8 bytes each, the others 4 */
    PLG_M, PLG_N, PLG_K, PLG_S, PLG_R, PLG_COLUMNS, PLG_LD_A, PLG_LD_B, PLG_LD_C, PLG_LD_OUT,
    PLG_LD_P, PLG_LD_X, PLG_LD_BLOCKS_A, PLG_LD_BLOCKS_B, PLG_BATCHES, PLG_ARG_ALPHA, PLG_ARG_BETA,
    PLG_VALUES
};

typedef struct {
    const char *name, *file;
    unsigned threads, slices;
    int batched; /* whether z goes over batches */
    int then; /* the kernel that adds up the slices, -1 if there are none */
    int along; /* of a kernel that copies: whether K goes along rows */
    int64_t tile_m, tile_n, multiple_m, multiple_n, multiple_k, align_a, align_b, align_c, align_out;
    int64_t least, step; /* it goes along least + i * step of K */
    int offset[PLG_VALUES]; /* of each argument, -1 if the kernel has none */
    size_t size;
} plg_kernel_record;

typedef struct {
    int64_t m, n, k;
    int kernel;
} plg_entry;

#include "pipeloom_gemm_table.h"

#define PLG_KERNELS ((int)(sizeof plg_kernels / sizeof plg_kernels[0]))
#define PLG_ENTRIES ((int)(sizeof plg_entries / sizeof plg_entries[0]))
#define PLG_LARGEST ((int64_t)1 << 31)
#define PLG_APART 256
#define PLG_DEVICES 64
#define PLG_UNIT (PLG_BITS < 8 ? 1 : PLG_BITS / 8) /* bytes of what is copied, */
#define PLG_SHARED (8 * PLG_UNIT / PLG_BITS)       /* and the elements in it */

struct plg_library {
    char *folder;
    void *hip;
    int (*device)(int *);
    int (*load)(void **, const char *);
    int (*unload)(void *);
    int (*function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    const char *(*text)(int);
    /* Code belongs to the device that was the current one when it was loaded. */
    void *modules[PLG_DEVICES][PLG_KERNELS], *functions[PLG_DEVICES][PLG_KERNELS];
};

#ifdef __cplusplus
static thread_local char message[512];
#else
static _Thread_local char message[512];
#endif

const char *plg_message(void) { return message; }

const char *plg_kernel(int number) {
    return number < 0 || number >= PLG_KERNELS ? NULL : plg_kernels[number].name;
}

static double ratio(int64_t size, int64_t other) {
    double a = (double)(size < 1 ? 1 : size), b = (double)other;
    return a > b ? a / b : b / a;
}

int plg_choose(int64_t m, int64_t n, int64_t k) {
    int best = 0;
    double least = -1;
    for (int i = 0; i < PLG_ENTRIES; i++) {
        const plg_entry *entry = &plg_entries[i];
        double far = ratio(m, entry->m);
        far *= ratio(n, entry->n);
        far *= ratio(k, entry->k);
        if (least < 0 || far < least) {
            least = far;
            best = entry->kernel;
        }
    }
    return best;
}

static int refused(const char *kernel, const char *what, long long value, long long wanted) {
    snprintf(message, sizeof message, "%s: %s is %lld, and must be %lld", kernel, what, value, wanted);
    return PLG_NOT_ALLOWED;
}

static int failed(plg_library *library, const char *call, int code) {
    const char *why = library->text ? library->text(code) : "";
    snprintf(message, sizeof message, "%s: %s (%d)", call, why, code);
    return PLG_HIP_FAILED;
}

/* HIP as ROCm 6 (.so.6), 7 and 10 (.so.7) have it: the one that is loaded already, else the
 * loader's, else that of HIP_PATH, ROCM_PATH and /opt/rocm. */
static void *found_hip(const char *given) {
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.8",
                                        "libamdhip64.so"};
    const int count = (int)(sizeof names / sizeof names[0]);
    const char *roots[4], *own = getenv("PIPELOOM_HIP_LIBRARY");
    void *hip = NULL;
    char path[4096];
    glob_t folders;
    if (given || (own && *own)) return dlopen(given ? given : own, RTLD_NOW);
    for (int i = 0; i < count && !hip; i++) hip = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    for (int i = 0; i < count && !hip; i++) hip = dlopen(names[i], RTLD_NOW);
    roots[0] = getenv("HIP_PATH");
    roots[1] = getenv("ROCM_PATH");
    roots[2] = "/opt/rocm";
    roots[3] = "/opt/rocm/core-*";
    for (int root = 0; root < 4 && !hip; root++) {
        for (int i = 0; roots[root] && i < count && !hip; i++) {
            int length = snprintf(path, sizeof path, "%s/lib/%s", roots[root], names[i]);
            if (length < 0 || length >= (int)sizeof path || glob(path, 0, NULL, &folders)) continue;
            hip = dlopen(folders.gl_pathv[folders.gl_pathc - 1], RTLD_NOW);
            globfree(&folders);
        }
    }
    return hip;
}

int plg_open(const char *folder, const char *hip, plg_library **out) {
    *out = NULL;
    plg_library *library = (plg_library *)calloc(1, sizeof *library);
    if (!library || !(library->folder = strdup(folder))) {
        free(library);
        snprintf(message, sizeof message, "no memory");
        return PLG_NO_HIP;
    }
    library->hip = found_hip(hip);
    if (!library->hip) {
        const char *why = dlerror();
        snprintf(message, sizeof message, "no HIP runtime here: %s", why ? why : "not found");
        plg_close(library);
        return PLG_NO_HIP;
    }
    *(void **)&library->device = dlsym(library->hip, "hipGetDevice");
    *(void **)&library->load = dlsym(library->hip, "hipModuleLoad");
    *(void **)&library->unload = dlsym(library->hip, "hipModuleUnload");
    *(void **)&library->function = dlsym(library->hip, "hipModuleGetFunction");
    *(void **)&library->launch = dlsym(library->hip, "hipModuleLaunchKernel");
    *(void **)&library->text = dlsym(library->hip, "hipGetErrorString");
    if (!library->device || !library->load || !library->function || !library->launch) {
        snprintf(message, sizeof message, "the HIP runtime lacks hipModuleLoad or a like call");
        plg_close(library);
        return PLG_NO_HIP;
    }
    *out = library;
    return PLG_OK;
}

void plg_close(plg_library *library) {
    if (!library) return;
    for (int i = 0; i < PLG_DEVICES * PLG_KERNELS; i++) {
        void *module = library->modules[i / PLG_KERNELS][i % PLG_KERNELS];
        if (module && library->unload) library->unload(module);
    }
    if (library->hip) dlclose(library->hip);
    free(library->folder);
    free(library);
}

static int loaded(plg_library *library, int number, void **function) {
    const plg_kernel_record *kernel = &plg_kernels[number];
    char path[4096];
    int device = 0, code = library->device(&device);
    if (code) return failed(library, "hipGetDevice", code);
    if (device < 0 || device >= PLG_DEVICES) return refused(kernel->name, "the device", device, 0);
    *function = library->functions[device][number];
    if (*function) return PLG_OK;
    int length = snprintf(path, sizeof path, "%s/%s", library->folder, kernel->file);
    if (length < 0 || length >= (int)sizeof path) {
        snprintf(message, sizeof message, "the name of the folder is too long");
        return PLG_NOT_ALLOWED;
    }
    void **module = &library->modules[device][number];
    code = library->load(module, path);
    if (code) {
        *module = NULL;
        return failed(library, "hipModuleLoad", code);
    }
    code = library->function(function, *module, kernel->name);
    if (code) return failed(library, "hipModuleGetFunction", code);
    library->functions[device][number] = *function;
    return PLG_OK;
}

static int checked(const plg_kernel_record *kernel, const char *what, int64_t size, int64_t multiple) {
    if (size < 0 || size >= PLG_LARGEST || size % multiple)
        return refused(kernel->name, what, size, multiple);
    return PLG_OK;
}

/* A matrix as it is stored; bits of an element, the rows that a workgroup reaches, and whether it
 * takes those for zeros that do not exist. */
typedef struct {
    const char *name;
    const void *at;
    int64_t rows, columns, ld, stride, bits, reached;
    int whole;
} matrix;

static int64_t bytes_of(const matrix *x, int64_t elements) { return elements * x->bits / 8; }

static int aligned(const matrix *x, int64_t batches, int64_t align) {
    return (x->rows <= 1 || x->ld * x->bits % (8 * align) == 0) &&
           (batches <= 1 || x->stride * x->bits % (8 * align) == 0) &&
           (uintptr_t)x->at % (uintptr_t)align == 0;
}

static int within(const char *kernel, const matrix *x) {
    int64_t rows = x->rows < x->reached && !x->whole ? x->rows : x->reached;
    if (x->ld < x->columns || x->ld >= PLG_LARGEST) return refused(kernel, x->name, x->ld, x->columns);
    /* Offsets have 32 bits, the highest of them for what is past the end of a row. */
    if (rows < x->reached - 1) rows = x->reached - 1;
    if (bytes_of(x, rows * x->ld + x->columns) < PLG_LARGEST) return PLG_OK;
    snprintf(message, sizeof message,
             "%s: a workgroup would reach over 2 GiB of %s, rows past its end too", kernel, x->name);
    return PLG_NOT_ALLOWED;
}

static int null(const char *kernel, const char *name) {
    snprintf(message, sizeof message, "%s: %s is a null pointer", kernel, name);
    return PLG_NOT_ALLOWED;
}

static int allowed(const char *kernel, const matrix *x, int64_t batches, int64_t align) {
    if (aligned(x, batches, align)) return within(kernel, x);
    snprintf(message, sizeof message, "%s: the rows of %s must begin at multiples of %lld bytes",
             kernel, x->name, (long long)align);
    return PLG_NOT_ALLOWED;
}

/* A copy of a matrix in aligned rows that begin with zeros: where it lies in the workspace, and
 * the elements in it before the last k along K. */
typedef struct {
    int kernel; /* -1: the matrix is used as it lies */
    matrix from, to;
    int64_t begins, bytes, skipped;
} copied;

static int64_t rounded(int64_t size, int64_t multiple) {
    return (size + multiple - 1) / multiple * multiple;
}

static int64_t reached(const plg_kernel_record *kernel, int64_t size) {
    return kernel->least + rounded(size > kernel->least ? size - kernel->least : 0, kernel->step);
}

static int place(copied *copy, int64_t k, int64_t batches, int64_t *end) {
    const plg_kernel_record *kernel = &plg_kernels[copy->kernel];
    matrix *to = &copy->to;
    int code;
    *to = copy->from;
    int64_t reach = reached(kernel, kernel->along ? to->columns / PLG_SHARED : to->rows);
    if (kernel->along) {
        to->columns = to->ld = reach * PLG_SHARED;
        copy->skipped = to->ld - k;
        copy->from.reached = kernel->tile_m;
    } else {
        to->rows = to->reached = reach;
        to->ld = rounded(to->columns, PLG_LINE);
        copy->skipped = (reach - k) * to->ld;
    }
    to->stride = to->rows * to->ld;
    copy->begins = *end;
    copy->bytes = batches * bytes_of(to, to->stride);
    *end = rounded(*end + copy->bytes, PLG_APART);
    if ((code = allowed(kernel->name, &copy->from, batches, PLG_UNIT))) return code;
    return within(kernel->name, to);
}

/* What a call takes: the kernel, the K that it is told, copies, and bytes of workspace. */
typedef struct {
    const plg_kernel_record *kernel, *last;
    int number;
    int64_t k, bytes;
    copied operands[2]; /* A and B */
} plan;

static int planned(const plg_call *call, plan *plan) {
    const int64_t m = call->m, n = call->n, k = call->k, batches = call->batches;
    int code;
    plan->number = plg_choose(m, n, k);
    const plg_kernel_record *kernel = plan->kernel = &plg_kernels[plan->number];
    plan->last = kernel->then < 0 ? kernel : &plg_kernels[kernel->then];
    plan->k = k;
    plan->bytes = 0;
    if ((code = checked(kernel, "m, of which a multiple", m, kernel->multiple_m))) return code;
    if ((code = checked(kernel, "n, of which a multiple", n, kernel->multiple_n))) return code;
    if ((code = checked(kernel, "k, of which a multiple", k, PLG_BLOCK ? PLG_BLOCK : 1))) return code;
    if (batches < 0 || batches * kernel->slices > 65535 || (batches > 1 && !kernel->batched))
        return refused(kernel->name, "batches", batches, kernel->batched ? 65535 / kernel->slices : 1);
    if (m == 0 || n == 0 || batches == 0) return PLG_OK;
    const int across_a = PLG_A_TRANSPOSED, across_b = !PLG_B_TRANSPOSED;
    copied *a = plan->operands, *b = a + 1;
    const matrix from_a = {"A", call->a, across_a ? k : m, across_a ? m : k, call->lda,
                       call->stride_a, PLG_BITS, across_a ? reached(kernel, k) : kernel->tile_m,
                       across_a};
    const matrix from_b = {"B", call->b, across_b ? k : n, across_b ? n : k, call->ldb,
                       call->stride_b, PLG_BITS, across_b ? reached(kernel, k) : kernel->tile_n,
                       across_b};
    a->from = from_a;
    b->from = from_b;
    plan->k = rounded(k, kernel->multiple_k);
    if (kernel->then >= 0) plan->bytes = rounded(4 * kernel->slices * m * n * batches, PLG_APART);
    int ragged = plan->k != k;
    a->kernel = ragged || !aligned(&a->from, batches, kernel->align_a) ? PLG_PACK_A : -1;
    b->kernel = ragged || !aligned(&b->from, batches, kernel->align_b) ? PLG_PACK_B : -1;
    for (copied *copy = a; copy <= b; copy++) {
        if ((code = within(kernel->name, &copy->from))) return code;
        if (copy->kernel >= 0 && (code = place(copy, plan->k, batches, &plan->bytes))) return code;
    }
    return PLG_OK;
}

int64_t plg_workspace_of(const plg_call *call) {
    plan plan;
    message[0] = 0;
    return planned(call, &plan) ? -1 : plan.bytes;
}

int64_t plg_workspace(int64_t m, int64_t n, int64_t k) {
    const plg_kernel_record *kernel = &plg_kernels[plg_choose(m, n, k)];
    return kernel->then < 0 || m < 0 || n < 0
               ? 0
               : rounded(4 * (int64_t)kernel->slices * m * n, PLG_APART);
}

static unsigned groups(int64_t size, int64_t tile) { return (unsigned)((size + tile - 1) / tile); }

static int launched(plg_library *library, int number, unsigned x, unsigned y, unsigned z,
                    const int64_t *values, void *stream) {
    const plg_kernel_record *kernel = &plg_kernels[number];
    unsigned char arguments[256] = {0};
    void *function = NULL;
    int code = loaded(library, number, &function);
    if (code) return code;
    for (int value = 0; value < PLG_VALUES; value++) {
        int32_t narrow = (int32_t)values[value];
        if (kernel->offset[value] < 0) continue;
        if (value < PLG_M)
            memcpy(arguments + kernel->offset[value], &values[value], sizeof(int64_t));
        else
            memcpy(arguments + kernel->offset[value], &narrow, sizeof narrow);
    }
    size_t size = kernel->size;
    void *extra[] = {(void *)1, arguments, (void *)2, &size, (void *)3};
    code = library->launch(function, x, y, z, kernel->threads, 1, 1, 0, stream,
                           NULL, extra);
    return code ? failed(library, "hipModuleLaunchKernel", code) : PLG_OK;
}

static int lacking(const char *what) {
    snprintf(message, sizeof message, "the kernels of this library are made %s", what);
    return PLG_NOT_ALLOWED;
}

static int finished(const plg_call *call) {
    if (!PLG_ALPHA && call->alpha != 1) return lacking("without alpha");
    if (!PLG_BETA && (call->beta != 0 || call->c)) return lacking("without beta");
    if (!call->bias != !PLG_BIAS) return lacking(PLG_BIAS ? "with a bias" : "without a bias");
    if (!call->scale_a != !PLG_SCALES || !call->scale_b != !PLG_SCALES)
        return lacking(PLG_SCALES ? "with scales" : "without scales");
    if (!call->blocks_a != !PLG_BLOCK || !call->blocks_b != !PLG_BLOCK)
        return lacking(PLG_BLOCK ? "with block scales" : "without block scales");
    return PLG_OK;
}

static int64_t word(float number) {
    int32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static int copy_rows(plg_library *library, const copied *copy, const plg_call *call) {
    const plg_kernel_record *kernel = &plg_kernels[copy->kernel];
    const matrix *from = &copy->from, *to = &copy->to;
    const int64_t columns = from->columns / PLG_SHARED;
    int64_t values[PLG_VALUES] = {0};
    values[PLG_ARG_X] = (int64_t)(intptr_t)from->at;
    values[PLG_ARG_P] = (int64_t)(intptr_t)call->workspace + copy->begins;
    values[PLG_BS_X] = from->stride / PLG_SHARED;
    values[PLG_BS_P] = to->stride / PLG_SHARED;
    values[PLG_R] = from->rows;
    values[PLG_COLUMNS] = columns;
    values[PLG_LD_X] = from->ld / PLG_SHARED;
    values[PLG_LD_P] = to->ld / PLG_SHARED;
    values[PLG_BATCHES] = call->batches;
    unsigned x = kernel->along ? groups(from->rows, kernel->tile_m) : groups(columns, kernel->tile_n);
    return launched(library, copy->kernel, x, 1, (unsigned)call->batches, values, call->stream);
}

static int launched_on_c(plg_library *library, int number, unsigned z, const int64_t *values,
                         void *stream) {
    const plg_kernel_record *kernel = &plg_kernels[number];
    unsigned x = groups(values[PLG_N], kernel->tile_n), y = groups(values[PLG_M], kernel->tile_m);
    return launched(library, number, x, y, z, values, stream);
}

int plg_run(plg_library *library, const plg_call *call) {
    const int64_t m = call->m, n = call->n, batches = call->batches;
    const int own = !call->c; /* out is what beta multiplies */
    plan plan;
    int code;
    message[0] = 0;
    if ((code = finished(call)) || (code = planned(call, &plan))) return code;
    if (m == 0 || n == 0 || batches == 0) return PLG_OK;
    const plg_kernel_record *kernel = plan.kernel, *last = plan.last;
    if (!call->out) return null(kernel->name, "out");
    if (call->k && (!call->a || !call->b)) return null(kernel->name, call->a ? "B" : "A");
    const int64_t blocks = PLG_BLOCK ? call->k / (PLG_BLOCK ? PLG_BLOCK : 1) : 0;
    const matrix before = {"C", own ? call->out : call->c, m, n, own ? call->ldout : call->ldc,
                           own ? call->stride_out : call->stride_c, PLG_OUT_BITS, last->tile_m, 0};
    const matrix out = {"out", call->out, m, n, call->ldout, call->stride_out, PLG_OUT_BITS,
                        last->tile_m, 0};
    const matrix blocks_a = {"the block scales of A", call->blocks_a, m, blocks,
                             call->ld_blocks_a, call->stride_blocks_a, 8, kernel->tile_m, 0};
    const matrix blocks_b = {"the block scales of B", call->blocks_b, n, blocks,
                             call->ld_blocks_b, call->stride_blocks_b, 8, kernel->tile_n, 0};
    const matrix sums = {"the workspace", NULL, m, n, n, 0, 32, kernel->tile_m, 0};
    if ((code = allowed(last->name, &before, batches, last->align_c))) return code;
    if ((code = allowed(last->name, &out, batches, last->align_out))) return code;
    if (kernel->then >= 0 && (code = within(kernel->name, &sums))) return code;
    if (PLG_BLOCK && (code = within(kernel->name, &blocks_a))) return code;
    if (PLG_BLOCK && (code = within(kernel->name, &blocks_b))) return code;
    if (plan.bytes && (!call->workspace || call->workspace_bytes < plan.bytes ||
                       (uintptr_t)call->workspace % PLG_APART)) {
        snprintf(message, sizeof message,
                 "%s needs a workspace of %lld bytes that begins at a multiple of %d", kernel->name,
                 (long long)plan.bytes, PLG_APART);
        return PLG_NOT_ALLOWED;
    }
    for (copied *copy = plan.operands; copy < plan.operands + 2; copy++) {
        if (copy->kernel < 0) continue;
        if ((code = copy_rows(library, copy, call))) return code;
        copy->from = copy->to;
        copy->from.at = (char *)call->workspace + copy->begins + bytes_of(&copy->to, copy->skipped);
    }
    const matrix *a = &plan.operands[0].from, *b = &plan.operands[1].from;
    int64_t values[PLG_VALUES] = {0};
    values[PLG_ARG_A] = (int64_t)(intptr_t)a->at;
    values[PLG_ARG_B] = (int64_t)(intptr_t)b->at;
    values[PLG_ARG_C] = (int64_t)(intptr_t)before.at;
    values[PLG_ARG_OUT] = (int64_t)(intptr_t)out.at;
    values[PLG_ARG_BLOCKS_A] = (int64_t)(intptr_t)blocks_a.at;
    values[PLG_ARG_BLOCKS_B] = (int64_t)(intptr_t)blocks_b.at;
    values[PLG_ARG_SCALE_A] = (int64_t)(intptr_t)call->scale_a;
    values[PLG_ARG_SCALE_B] = (int64_t)(intptr_t)call->scale_b;
    values[PLG_ARG_BIAS] = (int64_t)(intptr_t)call->bias;
    values[PLG_BS_A] = a->stride;
    values[PLG_BS_B] = b->stride;
    values[PLG_BS_C] = before.stride;
    values[PLG_BS_OUT] = out.stride;
    values[PLG_BS_BLOCKS_A] = blocks_a.stride;
    values[PLG_BS_BLOCKS_B] = blocks_b.stride;
    values[PLG_M] = m;
    values[PLG_N] = n;
    values[PLG_K] = plan.k;
    values[PLG_LD_A] = a->ld;
    values[PLG_LD_B] = b->ld;
    values[PLG_LD_C] = before.ld;
    values[PLG_LD_OUT] = out.ld;
    values[PLG_LD_BLOCKS_A] = blocks_a.ld;
    values[PLG_LD_BLOCKS_B] = blocks_b.ld;
    values[PLG_BATCHES] = batches;
    values[PLG_ARG_ALPHA] = word(call->alpha);
    values[PLG_ARG_BETA] = word(call->beta);
    unsigned count = (unsigned)batches;
    if (kernel->then < 0) return launched_on_c(library, plan.number, count, values, call->stream);
    values[PLG_ARG_OUT] = values[PLG_ARG_P] = (int64_t)(intptr_t)call->workspace;
    values[PLG_LD_OUT] = values[PLG_LD_P] = n;
    values[PLG_BS_OUT] = m * n;
    values[PLG_S] = kernel->slices;
    values[PLG_BS_P] = m * n * (int64_t)kernel->slices;
    code = launched_on_c(library, plan.number, kernel->slices * count, values, call->stream);
    if (code) return code;
    values[PLG_ARG_OUT] = (int64_t)(intptr_t)out.at;
    values[PLG_LD_OUT] = out.ld;
    values[PLG_BS_OUT] = out.stride;
    return launched_on_c(library, kernel->then, count, values, call->stream);
}

int plg_gemm(plg_library *library, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
             const void *b, int64_t ldb, void *c, int64_t ldc, void *workspace,
             int64_t workspace_bytes, void *stream) {
    plg_call call;
    memset(&call, 0, sizeof call);
    call.m = m, call.n = n, call.k = k, call.batches = 1, call.alpha = 1;
    call.a = a, call.b = b, call.out = c;
    call.lda = lda, call.ldb = ldb, call.ldout = ldc;
    call.workspace = workspace, call.workspace_bytes = workspace_bytes, call.stream = stream;
    return plg_run(library, &call);
}
