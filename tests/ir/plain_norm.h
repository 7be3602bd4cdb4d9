/* layer_norm, rms_norm, batch_norm and their gradients by plain loops. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Result `result` of a norm of x, weight (and bias), or of its gradient of x, dy, weight (, mean) and root: `count` elements of x in rows of n. out: zero. */
static inline void run_norm(bool centered, bool gradient, double eps, const double *const *in, int64_t count, int64_t n, int result,
                            double *out) {
    const double *x = in[0], *dy = in[1], *weight = in[gradient ? 2 : 1], *bias = in[2];
    for (int64_t row = 0; row < count / n; row++) {
        double mean = 0, squares = 0, all = 0, along = 0;
        for (int64_t k = 0; k < n && centered; k++)
            mean += x[row * n + k] / (double)n;
        for (int64_t k = 0; k < n; k++)
            squares += pow(x[row * n + k] - mean, 2) / (double)n;
        double root = 1 / sqrt(squares + eps);
        if (gradient) {
            mean = centered ? in[3][row] : 0;
            root = in[3 + centered][row];
        } else if (result > 0) {
            out[row] = centered && result == 1 ? mean : root;
            continue;
        }
        for (int64_t k = 0; k < n && gradient; k++) {
            all += dy[row * n + k] * weight[k] / (double)n;
            along += dy[row * n + k] * weight[k] * (x[row * n + k] - mean) * root / (double)n;
        }
        for (int64_t k = 0; k < n; k++) {
            const int64_t i = row * n + k;
            const double normalised = (x[i] - mean) * root;
            if (!gradient)
                out[i] = normalised * weight[k] + (centered ? bias[k] : 0);
            else if (result == 0)
                out[i] = (dy[i] * weight[k] - (centered ? all : 0) - normalised * along) * root;
            else
                out[k] += dy[i] * (result == 1 ? normalised : 1);
        }
    }
}

/* Result `result` of batch_norm of x, weight and bias, or of its gradient of x, dy, weight, mean and variance: `count` elements of x, [n, c, s]. out: zero. */
static inline void run_batch_norm(bool gradient, double eps, const double *const *in, int64_t count, int64_t c, int64_t s, int result,
                                  double *out) {
    const double *x = in[0], *dy = in[1], *weight = in[gradient ? 2 : 1], *bias = in[2], each = (double)(count / c);
    for (int64_t channel = 0; channel < c; channel++) {
        double mean = 0, variance = 0, dweight = 0, dbias = 0;
        for (int64_t i = 0; i < count && !gradient; i++)
            mean += i / s % c == channel ? x[i] / each : 0;
        for (int64_t i = 0; i < count && !gradient; i++)
            variance += i / s % c == channel ? pow(x[i] - mean, 2) / each : 0;
        if (gradient) mean = in[3][channel], variance = in[4][channel];
        const double deviation = sqrt(variance + eps);
        for (int64_t i = 0; i < count && gradient; i++)
            if (i / s % c == channel) {
                dweight += dy[i] * (x[i] - mean) / deviation;
                dbias += dy[i];
            }
        for (int64_t i = 0; i < count && result == 0; i++) {
            if (i / s % c != channel) continue;
            const double normalised = (x[i] - mean) / deviation;
            out[i] = gradient ? (dy[i] - dbias / each - normalised * dweight / each) * weight[channel] / deviation
                              : normalised * weight[channel] + bias[channel];
        }
        if (result > 0) out[channel] = gradient ? (result == 1 ? dweight : dbias) : result == 1 ? mean : variance;
    }
}
