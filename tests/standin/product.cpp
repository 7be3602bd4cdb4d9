/* product: see product.hpp. */
#include "product.hpp"

#include <cstdlib>
#include <cmath>
#include <cstring>
#include <vector>

#include "ir/half.h"

namespace standin {

static size_t index_of(const Matrix &m, size_t row, size_t col) {
    return m.order == CUBLASLT_ORDER_COL ? row + col * (size_t)m.ld : row * (size_t)m.ld + col;
}

size_t matrix_extent(const Matrix &m) { return index_of(m, m.rows - 1, m.cols - 1) + 1 + (size_t)(m.batch - 1) * (size_t)m.stride; }

static double load(const void *p, int32_t type, size_t i) {
    switch (type) {
    case CUDA_R_64F: return ((const double *)p)[i];
    case CUDA_R_16F: return f16_to_f32(((const uint16_t *)p)[i]);
    case CUDA_R_16BF: return bf16_to_f32(((const uint16_t *)p)[i]);
    }
    return ((const float *)p)[i];
}

static void store(void *p, int32_t type, size_t i, double value) {
    switch (type) {
    case CUDA_R_64F: ((double *)p)[i] = value; return;
    case CUDA_R_16F: ((uint16_t *)p)[i] = f16_of_f32((float)value); return;
    case CUDA_R_16BF: ((uint16_t *)p)[i] = bf16_of_f32((float)value); return;
    }
    ((float *)p)[i] = (float)value;
}

static const void *nth(const void *p, const Matrix &m, int batch) { return (const char *)p + (size_t)batch * (size_t)m.stride * type_bytes(m.type); }

static double to_tf32(double value) { /* to nearest, ties away from zero */
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* op(M) as rows x cols doubles, row by row. */
static std::vector<double> unpack(const void *p, const Matrix &m, bool transposed, bool tf32) {
    size_t rows = transposed ? m.cols : m.rows, cols = transposed ? m.rows : m.cols;
    std::vector<double> values(rows * cols);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            double value = load(p, m.type, transposed ? index_of(m, j, i) : index_of(m, i, j));
            values[i * cols + j] = tf32 ? to_tf32(value) : value;
        }
    return values;
}

static const double gelu_scale = 0.79788456080286536, gelu_cubic = 0.044715;

/* How many algorithms, of the first on, take the hardware's quick tanh. */
static int nquick() {
    const char *text = std::getenv("STANDIN_TANH");
    return !text ? 0 : strncmp(text, "quick:", 6) == 0 ? atoi(text + 6) : INT32_MAX;
}

/* Quick: 11 bits. */
static double tanh_of(const Product &p, double x) {
    static const int quick = nquick();
    return p.algorithm < quick ? std::round(std::tanh(x) * 2048) / 2048 : std::tanh(x);
}

static double gelu(const Product &p, double x) { return 0.5 * x * (1 + tanh_of(p, gelu_scale * (x + gelu_cubic * x * x * x))); }

static double gelu_slope(const Product &p, double x) {
    double t = tanh_of(p, gelu_scale * (x + gelu_cubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_scale * (1 + 3 * gelu_cubic * x * x);
}

/* One element after the epilogue; aux: this batch's, at element `at` of it (a bit for relu). */
static double finish_element(const Product &p, int32_t type, double x, void *aux, size_t at) {
    if (p.epilogue & EPILOGUE_RELU) {
        if (p.epilogue & EPILOGUE_AUX) {
            unsigned char &byte = ((unsigned char *)aux)[at / 8], bit = (unsigned char)(1u << at % 8);
            byte = (unsigned char)(x > 0 ? byte | bit : byte & ~bit);
        }
        return x > 0 || x != x ? x : 0;
    }
    if (p.epilogue & EPILOGUE_GELU) {
        if (p.epilogue & EPILOGUE_AUX) store(aux, type, at, x);
        return gelu(p, x);
    }
    if (p.epilogue & EPILOGUE_DRELU) return ((const unsigned char *)aux)[at / 8] >> at % 8 & 1 ? x : 0;
    if (p.epilogue & EPILOGUE_DGELU) return x * gelu_slope(p, load(aux, type, at));
    return x;
}

static void run_one(const Product &p, const Matrix &a, const Matrix &b, const Matrix &c, const Matrix &d, Operands at, void *bias, void *aux, double alpha, double beta) {
    size_t m = d.rows, n = d.cols, k = p.trans_a ? a.rows : a.cols;
    bool tf32 = p.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    std::vector<double> left = unpack(at.a, a, p.trans_a, tf32), right = unpack(at.b, b, p.trans_b, tf32), row(n), bias_of_column(n);
    for (size_t i = 0; i < m; i++) {
        std::fill(row.begin(), row.end(), 0.0);
        for (size_t l = 0; l < k; l++) {
            double value = left[i * k + l];
            const double *from = &right[l * n];
            for (size_t j = 0; j < n; j++) row[j] += value * from[j];
        }
        double bias_sum = 0;
        for (size_t j = 0; j < n; j++) {
            double x = alpha * row[j];
            if (beta != 0) x += beta * load(at.c, c.type, index_of(c, i, j));
            if (p.epilogue & EPILOGUE_BIAS) x += load(bias, d.type, i);
            x = finish_element(p, d.type, x, aux, i + j * (size_t)p.aux_ld);
            bias_sum += x;
            store(at.d, d.type, index_of(d, i, j), x);
        }
        if (p.epilogue & EPILOGUE_BGRAD) store(bias, d.type, i, bias_sum);
        if (p.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
            double sum = 0;
            for (size_t l = 0; l < k; l++) sum += left[i * k + l];
            store(bias, d.type, i, sum);
        }
    }
    if (p.epilogue == CUBLASLT_EPILOGUE_BGRADB)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t l = 0; l < k; l++) sum += right[l * n + j];
            store(bias, d.type, j, sum);
        }
}

void product_run(const Product &p, const Matrix &a, const Matrix &b, const Matrix &c, const Matrix &d, Operands at, double alpha, double beta) {
    bool bits = p.epilogue & (EPILOGUE_RELU | EPILOGUE_DRELU);
    for (int i = 0; i < d.batch; i++) {
        size_t aux_bytes = bits ? (size_t)p.aux_stride / 8 : (size_t)p.aux_stride * type_bytes(d.type);
        Operands here = {nth(at.a, a, i), nth(at.b, b, i), nth(at.c, c, i), const_cast<void *>(nth(at.d, d, i))};
        run_one(p, a, b, c, d, here, (char *)p.bias + (size_t)i * (size_t)p.bias_stride * type_bytes(d.type), (char *)p.aux + (size_t)i * aux_bytes, alpha, beta);
    }
}

} // namespace standin
