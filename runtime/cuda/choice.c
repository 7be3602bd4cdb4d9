/* choice: chooses cuBLASLt's algorithm for a product: of the first ones that its heuristics name, the fastest whose epilogue is exact.
 *
 * The documentation does not say how the library's epilogues round: its gelu may use the hardware's fast tanh, its relu may drop a NaN. So every
 * algorithm is tried on the device, on a product of the shape in use whose terms are exact, and rejected if its result is not that of our own kernels.
 * If two algorithms are about equally fast, chance decides which is faster. So that replicas compute the same bits, all processes take the choice that one has settled
 * for the shape in an earlier program, or else the choice of the first process that has the shape. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/errors.h"
#include "runtime/cuda/matmul.h"
#include "runtime/element.h"

/* ---------------------------------------------------------------- operands to try a product on */

/* left (m x k), right (k x n), bias (n, or m if the left operand is summed), the epilogue's matrix (m x n), the result (m x n) and what it is added to, with the key's layouts. */
enum { LEFT, RIGHT, BIAS, MATRIX, RESULT, ONTO, NTRIED };
typedef struct Trial {
    char *memory; /* all of them, on the device */
    int64_t elements[NTRIED];
    void *at[NTRIED];
    DType dtype[NTRIED];
    uint32_t every; /* one in so many elements of left is not 0, so that few terms are summed */
} Trial;

enum { DENSE = 1, TERMS = 16, SIXTEENTHS = 16, MATRIX_SIXTEENTHS = 128 };

static int64_t extent(int64_t rows, int64_t columns, int64_t leading, int64_t batch, int64_t stride) {
    return (rows - 1) * leading + columns + stride * (batch - 1);
}

/* Allocates the memory, aligned as in the key, and fills it: 1; 0: there is none; -1: the device fails, *error. */
static int trial_open(CudaContext *cuda, Trial *trial, const MatmulKey *key, uint32_t every, Error *error) {
    const int32_t aligned[NTRIED] = {key->aligned[1], key->aligned[0], key->aligned[2], key->aligned[3], key->aligned[2], key->aligned[2]};
    int64_t bytes = 0, begin[NTRIED];
    *trial = (Trial){.every = every};
    trial->elements[LEFT] = key->transposed[1] ? extent(key->k, key->m, key->leading[1], key->batch, key->stride[1])
                                               : extent(key->m, key->k, key->leading[1], key->batch, key->stride[1]);
    trial->elements[RIGHT] = key->transposed[0] ? extent(key->n, key->k, key->leading[0], key->batch, key->stride[0])
                                                : extent(key->k, key->n, key->leading[0], key->batch, key->stride[0]);
    trial->elements[BIAS] = key->epilogue == CUBLASLT_EPILOGUE_BGRADB ? key->m : key->n;
    trial->elements[MATRIX] = matmul_has_matrix(key->epilogue) ? key->m * key->n : 0;
    trial->elements[RESULT] = extent(key->m, key->n, key->leading[2], key->batch, key->stride[2]);
    trial->elements[ONTO] = key->add ? trial->elements[RESULT] : 0;
    for (int t = 0; t < NTRIED; t++) {
        trial->dtype[t] = (DType)(t == LEFT || t == RIGHT ? key->dtype : key->out_dtype);
        begin[t] = (bytes + 255) / 256 * 256 + (aligned[t] < MATMUL_ALIGNED ? aligned[t] : 0);
        bytes = begin[t] + trial->elements[t] * dtype_bytes[trial->dtype[t]];
    }
    void *memory;
    const int taken = cuda_try_memory(cuda, &memory, bytes, "taking memory to try a product", error);
    if (taken < 1) return taken;
    trial->memory = memory;
    for (int t = 0; t < NTRIED; t++) {
        trial->at[t] = trial->memory + begin[t];
        const cudaError_t filled = kernels_trial(trial->at[t], trial->elements[t], (int)trial->dtype[t], (uint32_t)t,
                                                 t == LEFT ? every : DENSE, t == MATRIX ? MATRIX_SIXTEENTHS : SIXTEENTHS, cuda->compute);
        if (!cuda_launched(cuda, filled, "trial", error)) return -1;
    }
    return 1;
}

static void trial_close(Trial *trial) {
    if (trial->memory) cudaFree(trial->memory);
}

/* Element i on the device, before any product. */
static double trial_at(const Trial *trial, int t, int64_t i) {
    return kernel_trial(i, (uint32_t)t, t == LEFT ? trial->every : DENSE, t == MATRIX ? MATRIX_SIXTEENTHS : SIXTEENTHS);
}

static Multiply trial_multiply(const Trial *trial, const MatmulKey *key) {
    return (Multiply){.key = *key,
                      .right = trial->at[RIGHT],
                      .left = trial->at[LEFT],
                      .out = trial->at[RESULT],
                      .onto = key->add ? trial->at[ONTO] : NULL,
                      .bias = matmul_has_bias(key->epilogue) || matmul_has_sums(key->epilogue) ? trial->at[BIAS] : NULL,
                      .matrix = matmul_has_matrix(key->epilogue) ? trial->at[MATRIX] : NULL};
}

/* ---------------------------------------------------------------- what epilogues compute */

enum { MOST_ROWS = 8, MOST_COLUMNS = 64, NAN_ROW = 5 };

/* The elements of a result that are compared: some rows, some columns of each, including the first and the last. */
typedef struct Sample {
    int nrows, ncolumns;
    int64_t row[MOST_ROWS], column[MOST_COLUMNS];
    double expected[MOST_ROWS][MOST_COLUMNS], operand[MOST_ROWS][MOST_COLUMNS]; /* the result; the operand that the epilogue keeps */
    double columns[MOST_COLUMNS], rows[MOST_ROWS];                              /* of BGRADA: sums of columns; of BGRADB: of rows */
} Sample;

static bool keeps_operand(int epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static const double gelu_scale = 0.79788456080286535588, gelu_cube = 0.044715; /* sqrt(2 / pi) */

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(gelu_scale * (x + gelu_cube * x * x * x)));
}

static double gelu_gradient(double x) {
    double t = tanh(gelu_scale * (x + gelu_cube * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_scale * (1 + 3 * gelu_cube * x * x);
}

/* Whether they are equal up to a few roundings of f32; for 16-bit types half a unit in the last place more, for the result's rounding. */
static bool is_near(double found, double expected, DType dtype) {
    if (isnan(expected)) return isnan(found);
    double limit = 16 * FLT_EPSILON * (1 + fabs(expected));
    int exponent;
    if (dtype_is_half(dtype)) {
        frexp(expected, &exponent); /* below 2^exponent; numbers of f16 below 2^-14 have no more digits than that one */
        if (dtype == F16 && exponent < -13) exponent = -13;
        limit += ldexp(1, exponent - (dtype == F16 ? 12 : 9));
    }
    return fabs(found - expected) <= limit;
}

static int64_t spread(int i, int n, int64_t length) {
    return n < 2 ? 0 : i * (length - 1) / (n - 1);
}

static double finished(int epilogue, double z, double matrix) {
    switch ((cublasLtEpilogue_t)epilogue) {
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
        return z <= 0 ? 0 : z;
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        return gelu(z);
    case CUBLASLT_EPILOGUE_DGELU:
        return z * gelu_gradient(matrix);
    default:
        return z;
    }
}

static double left_at(const Trial *trial, const MatmulKey *key, int64_t row, int64_t k) {
    return trial_at(trial, LEFT, key->transposed[1] ? k * key->leading[1] + row : row * key->leading[1] + k);
}

static double right_at(const Trial *trial, const MatmulKey *key, int64_t k, int64_t column) {
    return trial_at(trial, RIGHT, key->transposed[0] ? column * key->leading[0] + k : k * key->leading[0] + column);
}

static void sample_sums(Sample *sample, const Trial *trial, const MatmulKey *key, int64_t nan_row) {
    for (int j = 0; j < sample->ncolumns && key->epilogue == CUBLASLT_EPILOGUE_BGRADA; j++)
        for (int64_t k = 0; k < key->k; k++)
            sample->columns[j] += right_at(trial, key, k, sample->column[j]);
    for (int i = 0; i < sample->nrows && key->epilogue == CUBLASLT_EPILOGUE_BGRADB; i++) {
        for (int64_t k = 0; k < key->k; k++)
            sample->rows[i] += left_at(trial, key, sample->row[i], k);
        if (sample->row[i] == nan_row) sample->rows[i] = NAN;
    }
}

static void sample_fill(Sample *sample, const Trial *trial, const MatmulKey *key) {
    const int64_t nan_row = key->m > NAN_ROW ? NAN_ROW : 0;
    sample->nrows = key->m < MOST_ROWS ? (int)key->m : MOST_ROWS;
    sample->ncolumns = key->n < MOST_COLUMNS ? (int)key->n : MOST_COLUMNS;
    for (int i = 0; i < sample->nrows; i++)
        sample->row[i] = spread(i, sample->nrows, key->m);
    sample->row[sample->nrows > 1 ? 1 : 0] = nan_row;
    for (int j = 0; j < sample->ncolumns; j++)
        sample->column[j] = spread(j, sample->ncolumns, key->n);
    for (int j = 0; j < sample->ncolumns; j++) {
        const int64_t column = sample->column[j];
        for (int i = 0; i < sample->nrows; i++) {
            const int64_t row = sample->row[i];
            double z = matmul_has_bias(key->epilogue) ? trial_at(trial, BIAS, column) : 0;
            for (int64_t k = 0; k < key->k; k++) {
                const double x = left_at(trial, key, row, k);
                if (x != 0) z += x * right_at(trial, key, k, column);
            }
            if (key->add) z += trial_at(trial, ONTO, row * key->leading[2] + column);
            if (row == nan_row) z = NAN;
            sample->operand[i][j] = z;
            sample->expected[i][j] = finished(key->epilogue, z, trial_at(trial, MATRIX, row * key->n + column));
        }
    }
    sample_sums(sample, trial, key, nan_row);
}

/* Whether elements at some places, of n from `begin` on, are as expected: 1 or 0; -1: *error. */
static int line_right(CudaContext *cuda, const void *tensor, int64_t begin, int64_t n, DType dtype, const int64_t *place, int nplaces,
                      const double *expected, void *room, Error *error) {
    const size_t each = (size_t)dtype_bytes[dtype];
    if (!cuda_ok(
            cuda,
            cudaMemcpyAsync(room, (const char *)tensor + (size_t)begin * each, (size_t)n * each, cudaMemcpyDeviceToHost, cuda->compute),
            "copying from the device", error) ||
        !cuda_ok(cuda, cudaStreamSynchronize(cuda->compute), "trying a product with what follows it", error))
        return -1;
    for (int j = 0; j < nplaces; j++)
        if (!is_near(element_at(room, dtype, place[j]), expected[j], dtype)) return 0;
    return 1;
}

static int row_right(CudaContext *cuda, const void *tensor, int64_t begin, const MatmulKey *key, const Sample *sample,
                     const double *expected, void *room, Error *error) {
    return line_right(cuda, tensor, begin, key->n, (DType)key->out_dtype, sample->column, sample->ncolumns, expected, room, error);
}

/* 1: the algorithm's result is that of our kernels; 0: it is not; -1: the device fails, *error. */
static int algorithm_right(CudaContext *cuda, MatmulPlan *plan, int algorithm, const Trial *trial, const Sample *sample, void *room,
                           Error *error) {
    const MatmulKey *key = &plan->key;
    const Multiply multiply = trial_multiply(trial, key);
    Error refused;
    bool queued = matmul_call(cuda, plan, algorithm, &multiply, &refused);
    if (!cuda_ok(cuda, cudaStreamSynchronize(cuda->compute), "trying a product with what follows it", error)) return -1;
    int right = queued;
    if (right > 0 && key->epilogue == CUBLASLT_EPILOGUE_BGRADA)
        right = row_right(cuda, trial->at[BIAS], 0, key, sample, sample->columns, room, error);
    if (right > 0 && key->epilogue == CUBLASLT_EPILOGUE_BGRADB)
        right = line_right(cuda, trial->at[BIAS], 0, key->m, (DType)key->out_dtype, sample->row, sample->nrows, sample->rows, room, error);
    for (int i = 0; right > 0 && i < sample->nrows; i++) {
        right = row_right(cuda, trial->at[RESULT], sample->row[i] * key->leading[2], key, sample, sample->expected[i], room, error);
        if (right > 0 && keeps_operand(key->epilogue))
            right = row_right(cuda, trial->at[MATRIX], sample->row[i] * key->n, key, sample, sample->operand[i], room, error);
    }
    return right;
}

/* Keeps the algorithms that are right. -1: *error. */
static int keep_right(CudaContext *cuda, MatmulPlan *plan, Error *error) {
    static const float nan_f32 = NAN;
    static const uint16_t nan_half[2] = {0x7e00, 0x7fc0}; /* f16, bf16 */
    const MatmulKey *key = &plan->key;
    const void *nan_element = key->dtype == F32 ? (const void *)&nan_f32 : &nan_half[key->dtype == BF16];
    const size_t factor_bytes = (size_t)dtype_bytes[key->dtype];
    const int64_t nan_row = key->m > NAN_ROW ? NAN_ROW : 0;
    Trial trial;
    Sample *sample = calloc(1, sizeof *sample);
    void *room = malloc((size_t)(key->n > key->m ? key->n : key->m) * sizeof(float));
    int opened = sample && room ? 0 : -1, kept = 0;
    if (opened < 0)
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
    else
        opened = trial_open(cuda, &trial, key, key->k > TERMS ? (uint32_t)(key->k / TERMS) : DENSE, error);
    if (opened > 0) {
        sample_fill(sample, &trial, key);
        const int64_t at = key->transposed[1] ? nan_row : nan_row * key->leading[1];
        if (!cuda_ok(cuda,
                     cudaMemcpyAsync((char *)trial.at[LEFT] + (size_t)at * factor_bytes, nan_element, factor_bytes, cudaMemcpyHostToDevice,
                                     cuda->compute),
                     "copying to the device", error))
            opened = -1;
        for (int a = 0; opened > 0 && a < plan->nalgorithms; a++) {
            const int right = algorithm_right(cuda, plan, a, &trial, sample, room, error);
            if (right < 0) opened = -1;
            if (right > 0) plan->algorithm[kept++] = plan->algorithm[a];
        }
        trial_close(&trial);
    }
    if (opened == 0) cuda->lacked = true; /* without the epilogue, results are rounded twice instead of once */
    if (opened >= 0) plan->nalgorithms = kept;
    free(sample);
    free(room);
    return opened;
}

int choice_is_sound(CudaContext *cuda, const Multiply *multiply, Error *error) {
    cublasStatus_t status;
    MatmulPlan *plan = matmul_plan(cuda, multiply, &status);
    if (!plan || plan->key.dtype == F64) return 0;
    if (!plan->tried && keep_right(cuda, plan, error) < 0) return -1;
    plan->tried = true;
    return plan->nalgorithms > 0;
}

/* ---------------------------------------------------------------- the fastest */

enum { ROUNDS = 3 };

typedef struct Clock {
    cudaEvent_t begin, end;
} Clock;

/* Milliseconds of one product; -1: the library refuses it after all; -2: the device fails, *error. */
static double time_algorithm(CudaContext *cuda, MatmulPlan *plan, int algorithm, const Multiply *multiply, const Clock *clock,
                             Error *error) {
    double least = -1;
    for (int round = -1; round < ROUNDS; round++) { /* the first is not counted */
        float ms = 0;
        Error refused;
        bool ok = cuda_ok(cuda, cudaEventRecord(clock->begin, cuda->compute), "timing a product", error);
        const bool queued = ok && matmul_call(cuda, plan, algorithm, multiply, &refused);
        ok = ok && cuda_ok(cuda, cudaEventRecord(clock->end, cuda->compute), "timing a product", error) &&
             cuda_ok(cuda, cudaStreamSynchronize(cuda->compute), "timing a product", error) &&
             cuda_ok(cuda, cudaEventElapsedTime(&ms, clock->begin, clock->end), "timing a product", error);
        if (!ok) return -2;
        if (!queued) return -1;
        if (round >= 0 && (least < 0 || ms < least)) least = ms;
    }
    return least;
}

static bool time_plan(CudaContext *cuda, MatmulPlan *plan, const Clock *clock, Error *error) {
    Trial trial;
    const int opened = plan->nalgorithms > 1 ? trial_open(cuda, &trial, &plan->key, DENSE, error) : 0;
    if (opened == 0) return true; /* nothing to choose, or no memory to try it in: the heuristics' first */
    const Multiply multiply = trial_multiply(&trial, &plan->key);
    double best = -1;
    bool ok = opened > 0;
    for (int a = 0; ok && a < plan->nalgorithms; a++) {
        const double ms = time_algorithm(cuda, plan, a, &multiply, clock, error);
        ok = ms > -2;
        if (ms < 0 || (best >= 0 && ms >= best)) continue;
        best = ms;
        plan->chosen = a;
    }
    trial_close(&trial);
    return ok;
}

static bool time_plans(CudaContext *cuda, Error *error) {
    Clock clock = {0};
    bool ok = cuda_ok(cuda, cudaEventCreate(&clock.begin), "making an event", error) &&
              cuda_ok(cuda, cudaEventCreate(&clock.end), "making an event", error);
    for (int i = 0; ok && i < matmul_nplans(cuda); i++) {
        MatmulPlan *plan = matmul_plan_at(cuda, i);
        if (!plan->settled) ok = time_plan(cuda, plan, &clock, error);
    }
    if (clock.begin) cudaEventDestroy(clock.begin);
    if (clock.end) cudaEventDestroy(clock.end);
    return ok;
}

/* ---------------------------------------------------------------- the same everywhere */

/* What a process has chosen for a shape. */
typedef struct Chosen {
    MatmulKey key;
    cublasLtMatmulAlgo_t algorithm;
} Chosen;

/* Takes the algorithm that another process uses, if the heuristics name it here too, else their first. */
static void take_chosen(MatmulPlan *plan, const Chosen *list, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&list[i].key, &plan->key, sizeof plan->key) != 0) continue;
        plan->settled = true;
        plan->chosen = 0;
        for (int a = 0; a < plan->nalgorithms; a++)
            if (memcmp(&plan->algorithm[a], &list[i].algorithm, sizeof list[i].algorithm) == 0) plan->chosen = a;
    }
}

/* Shares the choices for shapes that processes have settled, or for those that they have not. */
static bool share_chosen(CudaContext *cuda, Comm *comm, bool settled, Error *error) {
    const int nplans = matmul_nplans(cuda);
    int64_t n = 0;
    void *all = NULL;
    Chosen *mine = calloc((size_t)nplans + 1, sizeof *mine);
    bool ok = comm_agree(comm, mine || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error);
    for (int i = 0; ok && i < nplans; i++) {
        const MatmulPlan *plan = matmul_plan_at(cuda, i);
        if (plan->settled != settled || plan->nalgorithms == 0) continue;
        memcpy(&mine[n].key, &plan->key, sizeof plan->key);
        memcpy(&mine[n++].algorithm, &plan->algorithm[plan->chosen], sizeof mine->algorithm);
    }
    ok = ok && comm_union(comm, mine, n, sizeof *mine, sizeof mine->key, &all, &n, error);
    for (int i = 0; ok && i < nplans; i++)
        if (!matmul_plan_at(cuda, i)->settled) take_chosen(matmul_plan_at(cuda, i), all, n);
    free(mine);
    free(all);
    return ok;
}

bool cuda_settle(void *context, Comm *comm, Error *error) {
    CudaContext *cuda = context;
    const bool timed = !cuda->options.deterministic;
    const bool same =
        !cuda->lacked || comm->nprocesses == 1 ||
        error_set(error, EXIT_ENVIRONMENT,
                  "device %d is out of memory, to try products in: this rank's would have other bits than those of its replicas%s",
                  cuda->device, cuda_advice(cudaErrorMemoryAllocation, false));
    if (!comm_agree(comm, same, error)) return false;
    if (!comm_agree(comm, !timed || time_plans(cuda, error), error)) return false;
    if (timed && comm->nprocesses > 1 && !(share_chosen(cuda, comm, true, error) && share_chosen(cuda, comm, false, error))) return false;
    for (int i = 0; i < matmul_nplans(cuda); i++)
        matmul_plan_at(cuda, i)->settled = true;
    return cudnn_settle(cuda, comm, error);
}
