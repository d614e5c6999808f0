/* Matrix products from a library of kernels that pipeloom wrote, launched through HIP.
 *
 *   plg_library *library;
 *   if (plg_open("lib", NULL, &library)) puts(plg_message());
 *   plg_gemm(library, m, n, k, A, lda, B, ldb, C, ldc, workspace, bytes, stream);
 *
 * computes C = op(A) op(B), with A stored as m x k (k x m if PLG_A_TRANSPOSED) and B as k x n (n x k
 * if PLG_B_TRANSPOSED). plg_run does all that the kernels of the table can: batches, and alpha,
 * beta, bias and scales where PLG_ALPHA, PLG_BETA, PLG_BIAS and PLG_SCALES are 1; where PLG_BLOCK is
 * not 0, so many elements along K share a scale, and k is a multiple of it. The workspace is device
 * memory of plg_workspace_of(&call) bytes, NULL where that is 0; calls on different streams must
 * not share one.
 *
 * Matrices are row-major in device memory, leading dimensions in elements; types are those of the
 * table (PLG_DTYPE, PLG_OUT_DTYPE). Rows of A and B that do not begin at multiples of 16 bytes, and
 * a k that is not whole loads, are first copied to the workspace, which takes longer. A shape that
 * the table does not have is given the kernel of the nearest that it has. What a kernel does not allow is refused before anything is launched. HIP is
 * found at run time, so nothing of ROCm is needed to compile this. Kernels are launched on the current
 * device, and are loaded on each when first needed there; a launch allocates nothing and waits for
 * nothing, so it can be captured in a graph once its kernels are loaded. A library is used by one
 * thread at a time. It compiles as C11 and as C++. UNTESTED ON HARDWARE. */
#ifndef PIPELOOM_GEMM_H
#define PIPELOOM_GEMM_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct plg_library plg_library;

enum plg_status { PLG_OK = 0, PLG_NOT_ALLOWED = 1, PLG_HIP_FAILED = 2, PLG_NO_HIP = 3 };

/* hip: the path of the HIP runtime. NULL for the one that is loaded already, else the one that
 * PIPELOOM_HIP_LIBRARY names, that the loader finds (libamdhip64.so.7, .6, .8), or that lies under
 * HIP_PATH, ROCM_PATH or /opt/rocm. */
int plg_open(const char *folder, const char *hip, plg_library **library);
int plg_gemm(plg_library *library, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
             const void *b, int64_t ldb, void *c, int64_t ldc, void *workspace,
             int64_t workspace_bytes, void *stream);
/* Leading dimensions and strides (between batches) are in elements, of block scales in bytes. */
typedef struct {
    int64_t m, n, k, batches;
    const void *a, *b, *c; /* c: what beta multiplies, NULL for out itself */
    void *out;
    int64_t lda, ldb, ldc, ldout, stride_a, stride_b, stride_c, stride_out;
    const float *bias, *scale_a, *scale_b; /* n, m and n numbers, the same for every batch */
    const void *blocks_a, *blocks_b; /* m and n rows of k / PLG_BLOCK bytes, E8M0, any alignment */
    int64_t ld_blocks_a, ld_blocks_b, stride_blocks_a, stride_blocks_b;
    float alpha, beta;
    void *workspace;
    int64_t workspace_bytes;
    void *stream;
} plg_call;

int plg_run(plg_library *library, const plg_call *call);
/* Bytes that a call needs; -1 for one that would be refused. The second is for rows that are
 * aligned, and one batch. */
int64_t plg_workspace_of(const plg_call *call);
int64_t plg_workspace(int64_t m, int64_t n, int64_t k);
void plg_close(plg_library *library);

/* The number of the kernel that a shape is given, and the name of one. */
int plg_choose(int64_t m, int64_t n, int64_t k);
const char *plg_kernel(int number);
/* What was wrong with the last call of this thread. */
const char *plg_message(void);

#ifdef __cplusplus
}
#endif
#endif
