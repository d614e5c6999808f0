/* The launcher of pipeloom_gemm.h; the kernels and shapes are in pipeloom_gemm_table.h. */
#include "pipeloom_gemm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLG_ARG_A, PLG_ARG_B, PLG_ARG_C, PLG_ARG_OUT, PLG_ARG_P, PLG_ARG_SCALE_A, PLG_ARG_SCALE_B,
    PLG_ARG_BIAS, PLG_BS_A, PLG_BS_B, PLG_BS_C, PLG_BS_OUT, PLG_BS_P, PLG_BS_SCALE_A,
    PLG_BS_SCALE_B, PLG_BS_BIAS, /* 8 bytes each, the others 4 */
    PLG_M, PLG_N, PLG_K, PLG_S, PLG_LD_A, PLG_LD_B, PLG_LD_C, PLG_LD_OUT, PLG_LD_P, PLG_BATCHES,
    PLG_ARG_ALPHA, PLG_ARG_BETA,
    PLG_VALUES
};

typedef struct {
    const char *name, *file;
    unsigned threads, slices;
    int batched; /* whether z goes over batches */
    int then; /* the kernel that adds up the slices, -1 if there are none */
    int64_t tile_m, tile_n, multiple_m, multiple_n, multiple_k, align_a, align_b, align_c, align_out;
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

struct plg_library {
    char *folder;
    void *hip;
    int (*load)(void **, const char *);
    int (*unload)(void *);
    int (*function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    const char *(*text)(int);
    void *modules[PLG_KERNELS], *functions[PLG_KERNELS];
};

static _Thread_local char message[512];

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

int64_t plg_workspace(int64_t m, int64_t n, int64_t k) {
    const plg_kernel_record *kernel = &plg_kernels[plg_choose(m, n, k)];
    return kernel->then < 0 || m < 0 || n < 0 ? 0 : 4 * (int64_t)kernel->slices * m * n;
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

int plg_open(const char *folder, const char *hip, plg_library **out) {
    *out = NULL;
    plg_library *library = calloc(1, sizeof *library);
    if (!library || !(library->folder = strdup(folder))) {
        free(library);
        snprintf(message, sizeof message, "no memory");
        return PLG_NO_HIP;
    }
    library->hip = dlopen(hip ? hip : "libamdhip64.so", RTLD_NOW);
    if (!library->hip) {
        snprintf(message, sizeof message, "no HIP runtime here: %s", dlerror());
        plg_close(library);
        return PLG_NO_HIP;
    }
    *(void **)&library->load = dlsym(library->hip, "hipModuleLoad");
    *(void **)&library->unload = dlsym(library->hip, "hipModuleUnload");
    *(void **)&library->function = dlsym(library->hip, "hipModuleGetFunction");
    *(void **)&library->launch = dlsym(library->hip, "hipModuleLaunchKernel");
    *(void **)&library->text = dlsym(library->hip, "hipGetErrorString");
    if (!library->load || !library->function || !library->launch) {
        snprintf(message, sizeof message, "the HIP runtime lacks hipModuleLoad or a like call");
        plg_close(library);
        return PLG_NO_HIP;
    }
    *out = library;
    return PLG_OK;
}

void plg_close(plg_library *library) {
    if (!library) return;
    for (int i = 0; i < PLG_KERNELS; i++)
        if (library->modules[i] && library->unload) library->unload(library->modules[i]);
    if (library->hip) dlclose(library->hip);
    free(library->folder);
    free(library);
}

static int loaded(plg_library *library, int number) {
    if (library->functions[number]) return PLG_OK;
    const plg_kernel_record *kernel = &plg_kernels[number];
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", library->folder, kernel->file);
    if (length < 0 || length >= (int)sizeof path) {
        snprintf(message, sizeof message, "the name of the folder is too long");
        return PLG_NOT_ALLOWED;
    }
    int code = library->load(&library->modules[number], path);
    if (code) {
        library->modules[number] = NULL;
        return failed(library, "hipModuleLoad", code);
    }
    code = library->function(&library->functions[number], library->modules[number], kernel->name);
    if (code) {
        library->functions[number] = NULL;
        return failed(library, "hipModuleGetFunction", code);
    }
    return PLG_OK;
}

static int checked(const plg_kernel_record *kernel, const char *what, int64_t size, int64_t multiple) {
    if (size < 0 || size >= PLG_LARGEST || size % multiple)
        return refused(kernel->name, what, size, multiple);
    return PLG_OK;
}

static int array(const plg_kernel_record *kernel, const char *what, const void *at, int64_t rows,
                 int64_t columns, int64_t pitch, int64_t stride, int64_t bytes, int64_t align,
                 int64_t tile) {
    if (pitch < columns || pitch >= PLG_LARGEST) return refused(kernel->name, what, pitch, columns);
    if ((rows > 1 && pitch * bytes % align) || (uintptr_t)at % (uintptr_t)align ||
        stride * bytes % align) {
        snprintf(message, sizeof message, "%s: the rows of %s must begin at multiples of %lld bytes",
                 kernel->name, what, (long long)align);
        return PLG_NOT_ALLOWED;
    }
    if (((rows < tile ? rows : tile) * pitch + columns) * bytes >= PLG_LARGEST) {
        snprintf(message, sizeof message, "%s: a workgroup would reach over 2 GiB of %s",
                 kernel->name, what);
        return PLG_NOT_ALLOWED;
    }
    return PLG_OK;
}

static int launched(plg_library *library, int number, unsigned z, const int64_t *values,
                    void *stream) {
    const plg_kernel_record *kernel = &plg_kernels[number];
    unsigned char arguments[256] = {0};
    int code = loaded(library, number);
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
    unsigned x = (unsigned)((values[PLG_N] + kernel->tile_n - 1) / kernel->tile_n);
    unsigned y = (unsigned)((values[PLG_M] + kernel->tile_m - 1) / kernel->tile_m);
    code = library->launch(library->functions[number], x, y, z, kernel->threads, 1, 1, 0, stream,
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
    return PLG_OK;
}

static int64_t word(float number) {
    int32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

int plg_run(plg_library *library, const plg_call *call) {
    const int64_t m = call->m, n = call->n, k = call->k, batches = call->batches;
    int number = plg_choose(m, n, k), code;
    const plg_kernel_record *kernel = &plg_kernels[number];
    const plg_kernel_record *last = kernel->then < 0 ? kernel : &plg_kernels[kernel->then];
    const void *before = call->c ? call->c : call->out;
    int64_t ld_before = call->c ? call->ldc : call->ldout;
    int64_t bs_before = call->c ? call->stride_c : call->stride_out;
    message[0] = 0;
    if ((code = finished(call))) return code;
    if ((code = checked(kernel, "m, of which a multiple", m, kernel->multiple_m))) return code;
    if ((code = checked(kernel, "n, of which a multiple", n, kernel->multiple_n))) return code;
    if ((code = checked(kernel, "k, of which a multiple", k, kernel->multiple_k))) return code;
    if (batches < 0 || batches * kernel->slices > 65535 || (batches > 1 && !kernel->batched))
        return refused(kernel->name, "batches", batches, kernel->batched ? 65535 / kernel->slices : 1);
    if (m == 0 || n == 0 || batches == 0) return PLG_OK;
    int64_t rows_a = PLG_A_TRANSPOSED ? k : m, rows_b = PLG_B_TRANSPOSED ? n : k;
    if ((code = array(kernel, "A", call->a, rows_a, PLG_A_TRANSPOSED ? m : k, call->lda,
                      call->stride_a, PLG_BYTES, kernel->align_a,
                      PLG_A_TRANSPOSED ? rows_a : kernel->tile_m)))
        return code;
    if ((code = array(kernel, "B", call->b, rows_b, PLG_B_TRANSPOSED ? k : n, call->ldb,
                      call->stride_b, PLG_BYTES, kernel->align_b,
                      PLG_B_TRANSPOSED ? kernel->tile_n : rows_b)))
        return code;
    if ((code = array(last, "C", before, m, n, ld_before, bs_before, PLG_OUT_BYTES, last->align_c,
                      last->tile_m)))
        return code;
    if ((code = array(last, "out", call->out, m, n, call->ldout, call->stride_out, PLG_OUT_BYTES,
                      last->align_out, last->tile_m)))
        return code;
    if (kernel->then >= 0 && !call->workspace) {
        snprintf(message, sizeof message, "%s needs a workspace of %lld bytes", kernel->name,
                 (long long)(plg_workspace(m, n, k) * batches));
        return PLG_NOT_ALLOWED;
    }
    int64_t values[PLG_VALUES] = {
        [PLG_ARG_A] = (int64_t)(intptr_t)call->a,
        [PLG_ARG_B] = (int64_t)(intptr_t)call->b,
        [PLG_ARG_C] = (int64_t)(intptr_t)before,
        [PLG_ARG_OUT] = (int64_t)(intptr_t)call->out,
        [PLG_ARG_SCALE_A] = (int64_t)(intptr_t)call->scale_a,
        [PLG_ARG_SCALE_B] = (int64_t)(intptr_t)call->scale_b,
        [PLG_ARG_BIAS] = (int64_t)(intptr_t)call->bias,
        [PLG_BS_A] = call->stride_a,
        [PLG_BS_B] = call->stride_b,
        [PLG_BS_C] = bs_before,
        [PLG_BS_OUT] = call->stride_out,
        [PLG_M] = m,
        [PLG_N] = n,
        [PLG_K] = k,
        [PLG_LD_A] = call->lda,
        [PLG_LD_B] = call->ldb,
        [PLG_LD_C] = ld_before,
        [PLG_LD_OUT] = call->ldout,
        [PLG_BATCHES] = batches,
        [PLG_ARG_ALPHA] = word(call->alpha),
        [PLG_ARG_BETA] = word(call->beta),
    };
    if (kernel->then < 0) return launched(library, number, (unsigned)batches, values, call->stream);
    values[PLG_ARG_OUT] = values[PLG_ARG_P] = (int64_t)(intptr_t)call->workspace;
    values[PLG_LD_OUT] = values[PLG_LD_P] = n;
    values[PLG_BS_OUT] = m * n;
    values[PLG_S] = kernel->slices;
    values[PLG_BS_P] = m * n * (int64_t)kernel->slices;
    unsigned z = kernel->slices * (unsigned)batches;
    if ((code = launched(library, number, z, values, call->stream))) return code;
    values[PLG_ARG_OUT] = (int64_t)(intptr_t)call->out;
    values[PLG_LD_OUT] = call->ldout;
    values[PLG_BS_OUT] = call->stride_out;
    return launched(library, kernel->then, (unsigned)batches, values, call->stream);
}

int plg_gemm(plg_library *library, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
             const void *b, int64_t ldb, void *c, int64_t ldc, void *workspace, void *stream) {
    plg_call call = {.m = m, .n = n, .k = k, .batches = 1, .a = a, .b = b, .out = c, .lda = lda,
                     .ldb = ldb, .ldout = ldc, .alpha = 1, .workspace = workspace, .stream = stream};
    return plg_run(library, &call);
}
