/* peak: times products, a long pass over memory, and small kernels: the peaks of which a profile gives shares, and figures for a machine file. */
#include "runtime/profile.h"

#include <stdlib.h>
#include <string.h>

/* A product of two matrices, -x or exp of a vector, an update of one that has a slot: a call of the backend's own kernel. */
typedef struct Trial {
    KernelCall call;
    Rule rule;
    Attr attr[MAX_ATTRS];
    KernelFn *fn;
    char *
        memory; /* ncopies of all operands and results, which calls use in turn: as in a step, others are used before an operand is reused */
    int ncopies;
    int64_t each_bytes; /* room of each: that of the largest operand */
    int nlying;         /* number of operands and results in memory; an update overwrites its operands: these alone */
} Trial;

static void set_operand(Operand *operand, DType dtype, void *data, int ndim, const int64_t *dim) {
    *operand = (Operand){.data = data, .dtype = dtype};
    operand->local.ndim = operand->box.ndim = ndim;
    for (int d = 0; d < ndim; d++)
        operand->local.dim[d] = operand->box.end[d] = dim[d];
    operand->global = operand->local;
}

static void set_letters(int8_t *letters, int first, int second) {
    for (int d = 0; d < MAX_NDIM; d++)
        letters[d] = -1;
    letters[0] = (int8_t)first;
    if (second >= 0) letters[1] = (int8_t)second;
}

/* Sizes of a product: [m, k] by [k, n]; of others: vectors of m. */
typedef struct Size {
    int64_t m, k, n;
} Size;

static double product_flops(Size size) {
    return 2.0 * (double)size.m * (double)size.k * (double)size.n;
}

/* Bytes of a product's operands. */
static double factor_bytes(Size size, DType dtype) {
    return (double)dtype_bytes[dtype] * (double)(size.m * size.k + size.k * size.n);
}

static double result_bytes(Size size, DType dtype) {
    return (double)dtype_bytes[dtype] * (double)(size.m * size.n);
}

static bool trial_zero(const Trial *trial, const Device *device, Error *error) {
    void *zeros = calloc(1, (size_t)trial->each_bytes);
    bool ok = zeros || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    for (int i = 0; ok && i < trial->ncopies * trial->nlying; i++)
        ok = device->backend->upload(device->context, trial->memory + i * trial->each_bytes, zeros, trial->each_bytes, error);
    free(zeros);
    return ok;
}

/* How many copies of `bytes` bytes fit into room, at most `copies`, at least one. */
static int copies_within(int64_t bytes, int copies, int64_t room) {
    const int64_t most = room / bytes;
    return most < 1 ? 1 : most < copies ? (int)most : copies;
}

/* Prepares a trial in the memory from `memory` on: at most `copies` copies, as many as fit into room, at least one. */
static void trial_init(Trial *trial, const Device *device, OpCode op, DType dtype, Size size, int nthreads, void *memory, int copies,
                       int64_t room) {
    static const Attr none[MAX_ATTRS];
    const bool product = op == OP_matmul, update = op == OP_momentum;
    const int ndim = product ? 2 : 1, nin = update ? 3 : product ? 2 : 1, nout = update ? 2 : 1;
    const int64_t vector[2] = {size.m}, matrices[3][2] = {{size.m, size.k}, {size.k, size.n}, {size.m, size.n}};
    *trial = (Trial){.memory = memory, .fn = device->backend->kernels[op], .nlying = update ? nin : nin + nout};
    trial->call = (KernelCall){
        .op = op, .nin = nin, .nout = nout, .nthreads = nthreads, .rule = &trial->rule, .context = device->context, .attr = none};
    for (int i = 0; i < nin + nout; i++) {
        const int64_t *dim = product ? matrices[i] : vector;
        set_operand(i < nin ? &trial->call.in[i] : &trial->call.out[i - nin], dtype, NULL, ndim, dim);
        const int64_t bytes = dim[0] * (product ? dim[1] : 1) * dtype_bytes[dtype];
        if (bytes > trial->each_bytes) trial->each_bytes = bytes;
    }
    trial->ncopies = copies_within(trial->nlying * trial->each_bytes, copies, room);
    trial->rule.nfactors = nin + nout;
    trial->rule.nout = nout;
    set_letters(trial->rule.in[0], 0, product ? 1 : -1);
    set_letters(trial->rule.in[1], 1, 2);
    set_letters(trial->rule.out[0], 0, product ? 2 : -1);
}

/* A convolution of images, 3 x 3 with padding of 1, from c channels to c, as is common in residual nets: x [n, c, side, side], w [c, c, 3, 3], y as x. */
typedef struct Convolution {
    int64_t n, c, side;
} Convolution;
static const OpCode convolution_ops[] = {OP_conv2d, OP_conv2d_grad_x, OP_conv2d_grad_w};
static const Convolution convolutions[] = {{16, 64, 32}, {32, 256, 8}, {64, 512, 2}};
enum { NKINDS = sizeof convolution_ops / sizeof *convolution_ops, NCONVOLUTIONS = NKINDS * sizeof convolutions / sizeof *convolutions };

/* FLOPs of each of the three operators, without those on padding. */
static double convolution_flops(Convolution of) {
    const double inside = (3.0 * (double)of.side - 2) / (3.0 * (double)of.side); /* in each dimension */
    return 2.0 * 9 * inside * inside * (double)(of.n * of.c * of.c * of.side * of.side);
}
static double convolution_bytes(Convolution of) {
    return (double)dtype_bytes[F32] * (double)(2 * of.n * of.c * of.side * of.side + 9 * of.c * of.c);
}

/* As trial_init, for conv2d and its gradients. False: the operator takes no such operands. */
static bool trial_convolution(Trial *trial, const Device *device, OpCode op, Convolution of, int nthreads, void *memory, int copies,
                              int64_t room, Error *error) {
    enum { PADDING = 1, SHAPE = 4 }; /* attributes; the shape is that of a gradient's result */
    const Shape images = {.ndim = 4, .dim = {of.n, of.c, of.side, of.side}}, weights = {.ndim = 4, .dim = {of.c, of.c, 3, 3}};
    const Shape *const in[2] = {&images, op == OP_conv2d_grad_w ? &images : &weights}, *const out =
                                                                                           op == OP_conv2d_grad_w ? &weights : &images;
    const TensorType types[2] = {{.dtype = F32, .shape = *in[0]}, {.dtype = F32, .shape = *in[1]}};
    RuleError failure;
    *trial = (Trial){.memory = memory, .fn = device->backend->kernels[op], .nlying = 3};
    trial->call = (KernelCall){
        .op = op, .nin = 2, .nout = 1, .nthreads = nthreads, .rule = &trial->rule, .context = device->context, .attr = trial->attr};
    trial->attr[PADDING] = (Attr){.given = true, .n = 1, .ints = {1}};
    if (op != OP_conv2d) {
        trial->attr[SHAPE] = (Attr){.given = true, .n = 4};
        memcpy(trial->attr[SHAPE].ints, out->dim, 4 * sizeof *out->dim);
    }
    for (int i = 0; i < 3; i++) {
        const Shape *shape = i < 2 ? in[i] : out;
        set_operand(i < 2 ? &trial->call.in[i] : &trial->call.out[0], F32, NULL, 4, shape->dim);
        const int64_t bytes = shape_elements(shape) * dtype_bytes[F32];
        if (bytes > trial->each_bytes) trial->each_bytes = bytes;
    }
    trial->ncopies = copies_within(trial->nlying * trial->each_bytes, copies, room);
    return rule_infer(op, types, 2, trial->attr, &trial->rule, &failure) ||
           error_set(error, EXIT_INTERNAL, "%s: %s", op_table[op].name, failure.text);
}

static bool trial_call(Trial *trial, int64_t number, Error *error) {
    const int nin = trial->call.nin, nout = trial->call.nout;
    char *copy = trial->memory + number % trial->ncopies * trial->nlying * trial->each_bytes;
    for (int i = 0; i < nin; i++)
        trial->call.in[i].data = copy + i * trial->each_bytes;
    for (int k = 0; k < nout; k++)
        trial->call.out[k].data = copy + (trial->nlying > nin ? nin + k : k) * trial->each_bytes;
    return trial->fn(&trial->call, error);
}

/* ---------------------------------------------------------------- of one device */

/* Seconds of a call, the best of several; on a device several calls are queued at once, so that the time of queueing does not count. */
static bool trial_run(Trial *trial, const Device *device, double *seconds, Error *error) {
    enum { ROUNDS = 3 };
    const Backend *backend = device->backend;
    int calls = backend->queue ? 10 : 1;
    *seconds = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_seconds();
        for (int i = 0; i < calls; i++)
            if (!trial_call(trial, i, error)) return false;
        if (!backend->sync(device->context, error)) return false;
        double each = (now_seconds() - begin) / calls;
        if (round > 0 && each < *seconds) *seconds = each; /* the first warms up */
    }
    return true;
}

/* Runs an operator on larger and larger operands, until a call takes so long that the overhead around it no longer counts, or they have the
 * size `most`. */
static bool trial_grow(const Device *device, OpCode op, DType dtype, int64_t *size, int64_t most, int64_t factor, double enough_s,
                       int nthreads, double *seconds, Error *error) {
    for (;; *size *= factor) {
        Trial trial;
        trial_init(&trial, device, op, dtype, (Size){*size, *size, *size}, nthreads, NULL, 1, 0);
        trial.memory = device->backend->alloc(device->context, trial.nlying * trial.each_bytes, error);
        const bool ok = trial.memory && trial_zero(&trial, device, error) && trial_run(&trial, device, seconds, error);
        device->backend->free(device->context, trial.memory);
        if (!ok || *seconds >= enough_s || *size * factor > most) return ok;
    }
}

bool peak_measure(const Device *device, int nthreads, DType dtype, double *flops, double *bytes, Error *error) {
    bool host = device->backend->host;
    int64_t side = host ? 1024 : 256, length = host ? 1 << 23 : 1 << 16;
    double seconds = 0;
    if (!trial_grow(device, OP_matmul, dtype, &side, host ? 1024 : 8192, 2, 8e-3, nthreads, &seconds, error)) return false;
    *flops = 2.0 * (double)side * (double)side * (double)side / seconds;
    if (!trial_grow(device, OP_neg, F32, &length, host ? 1 << 23 : 1 << 28, 4, 2e-3, nthreads, &seconds, error)) return false;
    *bytes = 2.0 * (double)length * (double)dtype_bytes[F32] / seconds;
    return true;
}

/* ---------------------------------------------------------------- of all ranks at once */

/* Seconds in which all ranks make so many calls, on the clock of the one that began first: ranks that share a core take turns, and it does not matter which goes first. A barrier follows each `turn` calls. */
static bool trial_together(Trial *trial, const Device *device, Comm *comm, int64_t calls, int64_t turn, double *seconds, Error *error) {
    if (!comm->table->barrier(comm, error)) return false;
    const double begin = now_seconds();
    for (int64_t i = 0; i < calls; i++) {
        for (int r = 0; r < comm->ndriven; r++) /* a process's ranks take turns */
            if (!trial_call(trial, i * comm->ndriven + r, error)) return false;
        if ((i + 1) % turn == 0 && i + 1 < calls && !comm->table->barrier(comm, error)) return false;
    }
    if (!device->backend->sync(device->context, error) || !comm->table->barrier(comm, error)) return false;
    *seconds = now_seconds() - begin;
    return comm_longest(comm, seconds, error);
}

/* Seconds of a barrier of all ranks, the lower quartile of several. */
static bool meetings_measure(Comm *comm, double *seconds, Error *error) {
    enum { ROUNDS = 7, MEETINGS = 64 };
    double each[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = now_seconds();
        for (int i = 0; i < MEETINGS; i++)
            if (!comm->table->barrier(comm, error)) return false;
        each[round] = (now_seconds() - begin) / MEETINGS;
    }
    qsort(each, ROUNDS, sizeof *each, compare_seconds);
    *seconds = each[ROUNDS / 4];
    return true;
}

/* How many calls take so long that the overhead around them no longer counts; this is also the warm-up. */
static bool trial_count(Trial *trial, const Device *device, Comm *comm, int64_t *calls, double *taken_s, Error *error) {
    static const double WINDOW_S = 0.02;
    *calls = 1;
    for (int64_t more = 1;; *calls *= more) {
        if (!trial_together(trial, device, comm, *calls, *calls, taken_s, error)) return false;
        if (*taken_s >= WINDOW_S) return true; /* on all processes */
        more = *taken_s > WINDOW_S / 8 ? (int64_t)(WINDOW_S / *taken_s) + 1 : 8;
    }
}

/* The terms whose sum is the seconds of a product: FLOPs, bytes of operands, a start. */
enum { FLOPS, BYTES, START_OF, NTERMS };

/* Adds the normal equations of least squares of relative errors; the last column is the right-hand side. */
static void normal_equations(const double *flops, const double *bytes, const double *seconds, int n, double a[NTERMS][NTERMS + 1]) {
    for (int i = 0; i < n; i++) {
        const double term[NTERMS + 1] = {flops[i] / seconds[i], bytes[i] / seconds[i], 1 / seconds[i], 1};
        for (int j = 0; j < NTERMS; j++)
            for (int k = 0; k <= NTERMS; k++)
                a[j][k] += term[j] * term[k];
    }
}

/* Solves for the terms in the set, the others are 0. False: the terms are linearly dependent, or one is not positive. */
static bool solve_terms(double equations[NTERMS][NTERMS + 1], unsigned set, double x[NTERMS]) {
    static const double LEAST = 1e-9; /* of a pivot's first value, what is left where others determine it */
    double a[NTERMS][NTERMS + 1];
    memcpy(a, equations, sizeof a);
    for (int j = 0; j < NTERMS; j++) { /* Gauss-Jordan; the matrix is symmetric and positive definite, so that no rows are exchanged */
        x[j] = 0;
        if (!(set >> j & 1)) continue;
        if (a[j][j] <= LEAST * equations[j][j]) return false;
        for (int row = 0; row < NTERMS; row++)
            for (int k = NTERMS; row != j && k >= j; k--)
                a[row][k] -= a[row][j] / a[j][j] * a[j][k];
    }
    bool positive = true;
    for (int j = 0; j < NTERMS; j++)
        if (set >> j & 1) {
            x[j] = a[j][NTERMS] / a[j][j];
            positive = positive && x[j] > 0;
        }
    return positive;
}

ProductRates fit_products(const double *flops, const double *bytes, const double *seconds, int n) {
    static const unsigned sets[] = {1 << FLOPS, 1 << FLOPS | 1 << START_OF, 1 << FLOPS | 1 << BYTES, (1 << NTERMS) - 1};
    double equations[NTERMS][NTERMS + 1] = {0}, best[NTERMS] = {0}, most = -1;
    normal_equations(flops, bytes, seconds, n, equations);
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        double x[NTERMS], explained = 0; /* by how much the sum of squared errors is less than without any term */
        if (!solve_terms(equations, sets[s], x)) continue;
        for (int j = 0; j < NTERMS; j++)
            explained += x[j] * equations[j][NTERMS];
        if (explained <= most) continue;
        most = explained;
        memcpy(best, x, sizeof best);
    }
    return (ProductRates){.flops_per_s = 1 / best[FLOPS], .bytes_per_s = best[BYTES] > 0 ? 1 / best[BYTES] : 0, .start_s = best[START_OF]};
}

/* What all ranks run: products as in nets, square ones, thin ones in each dimension, small ones; one of f64; a function of numbers that lie in the cache; a pass over memory; a call
 * that only takes the time of its start; an update; a convolution and its gradients; and repeated negs of growing length. */
enum {
    NPRODUCTS = 13,
    WIDE = NPRODUCTS,
    VECTOR,
    PASS,
    START,
    UPDATE,
    CONVOLUTION,
    CACHE = CONVOLUTION + NCONVOLUTIONS,
    NLENGTHS = 10,
    NTRIALS = CACHE + NLENGTHS
};
enum { SHORTEST = 1 << 13, COPIES = 8 }; /* numbers of the shortest neg; copies of a product's operands, at most */
static const int64_t ROOM = 64 << 20;    /* bytes of a product's operands, and at least of data that must lie in memory, not in a cache; */
static const int64_t FAR = 256 << 20;    /* of such data of all ranks of a node together */
static const double PACKED_AT_ONCE = 1e12,
                    STARTED_AT_ONCE_S = 1e-9; /* stand for products whose packing, and whose start, take no time at all */
static const struct {
    OpCode op;
    DType dtype;
    Size size;
} trials[CONVOLUTION] = {{OP_matmul, F32, {512, 512, 512}},
                         {OP_matmul, F32, {1024, 256, 512}},
                         {OP_matmul, F32, {256, 2048, 256}},
                         {OP_matmul, F32, {128, 256, 128}},
                         {OP_matmul, F32, {128, 32, 128}},
                         {OP_matmul, F32, {128, 128, 32}},
                         {OP_matmul, F32, {128, 128, 10}},
                         {OP_matmul, F32, {128, 10, 128}},
                         {OP_matmul, F32, {16, 784, 256}},
                         {OP_matmul, F32, {128, 784, 256}},
                         {OP_matmul, F32, {1024, 16, 1024}},
                         {OP_matmul, F32, {512, 1024, 1024}},
                         {OP_matmul, F32, {256, 2048, 2048}},
                         {OP_matmul, F64, {512, 512, 512}},
                         {OP_exp, F32, {.m = 1 << 17}},
                         {OP_neg, F32, {0}},
                         {OP_neg, F32, {.m = 16}},
                         {OP_momentum, F32, {0}}}; /* 0: as much as there is room for */

/* Elements of each of the vectors that fill so much memory: two in a pass, three in an update. */
static int64_t far_length(int trial, int64_t room) {
    return room / ((trial == UPDATE ? 3 : 2) * dtype_bytes[F32]);
}

/* Prepares one of the trials of all ranks in the memory that trials use in turn. */
static bool share_init(Trial *run, const Device *device, int trial, int nthreads, void *memory, int64_t room, Error *error) {
    const bool fixed = trial < CONVOLUTION;
    if (trial >= CONVOLUTION && trial < CACHE)
        return trial_convolution(run, device, convolution_ops[(trial - CONVOLUTION) % NKINDS], convolutions[(trial - CONVOLUTION) / NKINDS],
                                 nthreads, memory, COPIES, ROOM, error);
    Size size = fixed ? trials[trial].size : (Size){.m = (int64_t)SHORTEST << (trial - CACHE)};
    if (size.m == 0) size.m = far_length(trial, room);
    trial_init(run, device, fixed ? trials[trial].op : OP_neg, fixed ? trials[trial].dtype : F32, size, nthreads, memory,
               trial < VECTOR ? COPIES : 1, ROOM);
    return true;
}

static double pass_bytes(int64_t length) {
    return 2.0 * (double)length * dtype_bytes[F32];
}

int find_caches(const double *bytes, const double *bytes_per_s, int n, double memory_bytes_per_s, PeakCache *cache) {
    static const double ALIKE = 0.75, FASTER = 1.25;
    int ncaches = 0, passes = 0; /* of the last cache */
    double fastest = 0;
    for (int i = 0; i < n && bytes_per_s[i] > FASTER * memory_bytes_per_s; i++) {
        if (ncaches == 0 || (bytes_per_s[i] < ALIKE * fastest && ncaches < MAX_PEAK_CACHES)) {
            passes = 0;
            fastest = 0;
            cache[ncaches++] = (PeakCache){0};
        }
        PeakCache *last = &cache[ncaches - 1];
        fastest = bytes_per_s[i] > fastest ? bytes_per_s[i] : fastest;
        last->bytes_per_s = (last->bytes_per_s * passes + bytes_per_s[i]) / (passes + 1);
        last->bytes = bytes[i];
        passes++;
    }
    if (ncaches == 0) cache[ncaches++] = (PeakCache){memory_bytes_per_s, bytes[0]}; /* as fast as memory */
    for (int c = 1; c < ncaches; c++)
        if (cache[c].bytes_per_s > cache[c - 1].bytes_per_s) cache[c].bytes_per_s = cache[c - 1].bytes_per_s;
    return ncaches;
}

static void rate_caches(const double *seconds, RankPeaks *peaks) {
    double bytes[NLENGTHS], rate[NLENGTHS];
    for (int i = 0; i < NLENGTHS; i++) {
        bytes[i] = pass_bytes((int64_t)SHORTEST << i);
        rate[i] = bytes[i] / seconds[CACHE + i];
    }
    peaks->ncaches = find_caches(bytes, rate, NLENGTHS, peaks->bytes_per_s, peaks->cache);
}

/* The rate of the nearest cache that holds so many bytes; 0: none does. */
static double rate_of_cache(const RankPeaks *peaks, double bytes) {
    for (int c = 0; c < peaks->ncaches; c++)
        if (bytes <= peaks->cache[c].bytes) return peaks->cache[c].bytes_per_s;
    return 0;
}

/* Seconds to move a product's operands and result from where the copies of a trial, used in turn, lie: a cache, or memory, where data that is written is fetched first. */
static double moving_seconds(const RankPeaks *peaks, int trial) {
    const Size size = trials[trial].size;
    const int64_t largest = size.m * (size.k > size.n ? size.k : size.n), factor = size.k * size.n;
    const double written = result_bytes(size, trials[trial].dtype), bytes = factor_bytes(size, trials[trial].dtype) + written;
    const int64_t each = (largest > factor ? largest : factor) * dtype_bytes[trials[trial].dtype];
    const double all = bytes * copies_within(3 * each, COPIES, ROOM);
    const double rate = rate_of_cache(peaks, all);
    return rate > 0 ? bytes / rate : (bytes + written) * (2.0 / 3) / peaks->bytes_per_s;
}

/* To be called after the caches and the memory are rated. */
static void rate_products(const double *seconds, RankPeaks *peaks) {
    double flops[NPRODUCTS], bytes[NPRODUCTS], left[NPRODUCTS + 1];
    for (int i = 0; i < NPRODUCTS; i++) {
        flops[i] = product_flops(trials[i].size);
        bytes[i] = factor_bytes(trials[i].size, F32);
    }
    for (int i = 0; i <= NPRODUCTS; i++) {
        const double moving = moving_seconds(peaks, i);
        left[i] = seconds[i] - (moving < seconds[i] / 2 ? moving : seconds[i] / 2);
    }
    ProductRates *rates = &peaks->product;
    *rates = fit_products(flops, bytes, left, NPRODUCTS);
    if (rates->bytes_per_s == 0 || rates->bytes_per_s > PACKED_AT_ONCE) rates->bytes_per_s = PACKED_AT_ONCE;
    if (rates->start_s < STARTED_AT_ONCE_S) rates->start_s = STARTED_AT_ONCE_S;
    const double wide = left[WIDE], beside = rates->start_s + factor_bytes(trials[WIDE].size, F64) / rates->bytes_per_s;
    peaks->f64_flops = product_flops(trials[WIDE].size) / (beside < wide / 2 ? wide - beside : wide / 2);
}

/* Seconds to move so many bytes that are used repeatedly. */
static double again_seconds(const RankPeaks *peaks, double bytes) {
    const double rate = rate_of_cache(peaks, bytes);
    return bytes / (rate > 0 ? rate : peaks->bytes_per_s);
}

/* Rates convolutions, without what pcc assumes besides their products: operands and results are read and written, and converted to blocks and back. */
static void rate_convolutions(const double *seconds, RankPeaks *peaks) {
    double flops = 0, left = 0;
    for (int i = 0; i < NCONVOLUTIONS; i++) {
        const Convolution of = convolutions[i / NKINDS];
        const double bytes = convolution_bytes(of), beside = again_seconds(peaks, 2 * bytes) + bytes / peaks->bytes_per_s,
                     all = seconds[CONVOLUTION + i];
        flops += convolution_flops(of);
        left += all - (beside < all / 2 ? beside : all / 2);
    }
    peaks->convolution_flops = flops / left;
}

static void peaks_of_trials(const double *seconds, int64_t room, RankPeaks *peaks) {
    *peaks = (RankPeaks){0};
    peaks->vector_flops = (double)op_table[OP_exp].flops * (double)trials[VECTOR].size.m / seconds[VECTOR];
    peaks->bytes_per_s = pass_bytes(far_length(PASS, room)) / seconds[PASS];
    peaks->update_bytes_per_s = 5.0 * (double)far_length(UPDATE, room) * dtype_bytes[F32] / seconds[UPDATE]; /* reads 3, writes 2 */
    peaks->kernel_s = seconds[START];
    rate_caches(seconds, peaks);
    rate_products(seconds, peaks);
    rate_convolutions(seconds, peaks);
}

/* How many calls a rank makes between barriers. As between communications of a step, ranks that share a core and its caches run for a while and then meet. Without barriers each
 * would have the caches for itself as long as the system lets it run. */
static int64_t calls_of_turn(int64_t calls, double taken_s) {
    static const double TURN_S = 1e-3;
    const int64_t most = (int64_t)(TURN_S / (taken_s / (double)calls));
    return most >= calls ? calls : most < 1 ? 1 : most;
}

/* Seconds of a rank's call of each trial while all ranks make such calls. The trials take turns in several rounds, of
 * which the lower quartile counts: other load on the machine slows some rounds, for seconds, and makes none faster. */
static bool measure_shares(const Device *device, int nthreads, Comm *comm, void *memory, int64_t room, double seconds[NTRIALS],
                           Error *error) {
    enum { ROUNDS = 7 };
    int64_t calls[NTRIALS], turn[NTRIALS];
    double each[NTRIALS][ROUNDS], taken, meeting;
    for (int round = 0; round < ROUNDS; round++)
        for (int trial = 0; trial < NTRIALS; trial++) {
            Trial run;
            if (!share_init(&run, device, trial, nthreads, memory, room, error)) return false;
            if (round == 0) {
                if (!trial_zero(&run, device, error) || !trial_count(&run, device, comm, &calls[trial], &taken, error)) return false;
                turn[trial] = calls_of_turn(calls[trial], taken);
            }
            if (!trial_together(&run, device, comm, calls[trial], turn[trial], &taken, error)) return false;
            if (trial == VECTOR && !trial_zero(&run, device, error)) return false; /* all numbers stay 0: exp(0) is not */
            each[trial][round] = taken / (double)calls[trial];
        }
    for (int trial = 0; trial < NTRIALS; trial++) {
        qsort(each[trial], ROUNDS, sizeof each[trial][0], compare_seconds);
        seconds[trial] = each[trial][ROUNDS / 4];
    }
    if (!meetings_measure(comm, &meeting, error)) return false;
    for (int trial = 0; trial < NTRIALS; trial++) {
        const double met = meeting * (double)((calls[trial] - 1) / turn[trial]) / (double)calls[trial];
        seconds[trial] -= met < seconds[trial] / 2 ? met : seconds[trial] / 2;
    }
    return true;
}

bool peak_measure_ranks(const Device *device, int nthreads, Comm *comm, RankPeaks *peaks, Error *error) {
    double seconds[NTRIALS];
    const int64_t room = FAR / comm->nlocal > ROOM ? FAR / comm->nlocal : ROOM;
    void *memory = device->backend->alloc(device->context, room, error);
    const bool ok = memory && measure_shares(device, nthreads, comm, memory, room, seconds, error);
    if (ok) peaks_of_trials(seconds, room, peaks);
    device->backend->free(device->context, memory);
    return ok;
}
