/* The launcher of pipeloom_gemm.h; the kernels and shapes are in pipeloom_gemm_table.h. */
#include "pipeloom_gemm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLG_A, PLG_B, PLG_OUT, PLG_P, PLG_BS_A, PLG_BS_B, PLG_BS_OUT, PLG_BS_P, /* 8 bytes each */
    PLG_M, PLG_N, PLG_K, PLG_S, PLG_LD_A, PLG_LD_B, PLG_LD_OUT, PLG_LD_P, PLG_BATCHES, /* 4 */
    PLG_VALUES
};

typedef struct {
    const char *name, *file;
    unsigned threads, slices;
    int then; /* the kernel that adds up the slices, -1 if there are none */
    int64_t tile_m, tile_n, multiple_m, multiple_n, multiple_k, align_a, align_b, align_out;
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
                 int64_t columns, int64_t pitch, int64_t bytes, int64_t align, int64_t tile) {
    if (pitch < columns || pitch >= PLG_LARGEST) return refused(kernel->name, what, pitch, columns);
    if ((rows > 1 && pitch * bytes % align) || (uintptr_t)at % (uintptr_t)align) {
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

int plg_gemm(plg_library *library, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
             const void *b, int64_t ldb, void *c, int64_t ldc, void *workspace, void *stream) {
    int number = plg_choose(m, n, k), code;
    const plg_kernel_record *kernel = &plg_kernels[number];
    message[0] = 0;
    if ((code = checked(kernel, "m, of which a multiple", m, kernel->multiple_m))) return code;
    if ((code = checked(kernel, "n, of which a multiple", n, kernel->multiple_n))) return code;
    if ((code = checked(kernel, "k, of which a multiple", k, kernel->multiple_k))) return code;
    if (m == 0 || n == 0) return PLG_OK;
    int64_t rows_a = PLG_A_TRANSPOSED ? k : m, rows_b = PLG_B_TRANSPOSED ? n : k;
    if ((code = array(kernel, "A", a, rows_a, PLG_A_TRANSPOSED ? m : k, lda, PLG_BYTES,
                      kernel->align_a, PLG_A_TRANSPOSED ? rows_a : kernel->tile_m)))
        return code;
    if ((code = array(kernel, "B", b, rows_b, PLG_B_TRANSPOSED ? k : n, ldb, PLG_BYTES,
                      kernel->align_b, PLG_B_TRANSPOSED ? kernel->tile_n : rows_b)))
        return code;
    if ((code = array(kernel, "C", c, m, n, ldc, PLG_OUT_BYTES, kernel->align_out, kernel->tile_m)))
        return code;
    if (kernel->then >= 0 && !workspace) {
        snprintf(message, sizeof message, "%s needs a workspace of %lld bytes", kernel->name,
                 (long long)plg_workspace(m, n, k));
        return PLG_NOT_ALLOWED;
    }
    int64_t values[PLG_VALUES] = {(int64_t)(intptr_t)a, (int64_t)(intptr_t)b, (int64_t)(intptr_t)c};
    values[PLG_M] = m;
    values[PLG_N] = n;
    values[PLG_K] = k;
    values[PLG_LD_A] = lda;
    values[PLG_LD_B] = ldb;
    values[PLG_LD_OUT] = ldc;
    values[PLG_BATCHES] = 1;
    if (kernel->then < 0) return launched(library, number, 1, values, stream);
    values[PLG_OUT] = values[PLG_P] = (int64_t)(intptr_t)workspace;
    values[PLG_LD_OUT] = values[PLG_LD_P] = n;
    values[PLG_BS_OUT] = m * n;
    values[PLG_S] = kernel->slices;
    values[PLG_BS_P] = m * n * (int64_t)kernel->slices;
    if ((code = launched(library, number, kernel->slices, values, stream))) return code;
    values[PLG_OUT] = (int64_t)(intptr_t)c;
    values[PLG_LD_OUT] = ldc;
    values[PLG_BS_OUT] = 0;
    return launched(library, kernel->then, 1, values, stream);
}
