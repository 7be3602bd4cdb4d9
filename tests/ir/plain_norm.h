/* layer_norm, rms_norm and their gradients by plain loops. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Result `result` of a norm of x, weight (and bias), or of its gradient of x, dy and weight: `count` elements of x in rows of n. out: zero. */
static inline void run_norm(bool centered, bool gradient, double eps, const double *const *in, int64_t count, int64_t n, int result,
                            double *out) {
    const double *x = in[0], *dy = in[1], *weight = in[gradient ? 2 : 1], *bias = in[2];
    for (int64_t row = 0; row < count / n; row++) {
        double mean = 0, squares = 0, all = 0, along = 0;
        for (int64_t k = 0; k < n && centered; k++)
            mean += x[row * n + k] / (double)n;
        for (int64_t k = 0; k < n; k++)
            squares += pow(x[row * n + k] - mean, 2) / (double)n;
        const double deviation = sqrt(squares + eps);
        for (int64_t k = 0; k < n && gradient; k++) {
            all += dy[row * n + k] * weight[k] / (double)n;
            along += dy[row * n + k] * weight[k] * (x[row * n + k] - mean) / deviation / (double)n;
        }
        for (int64_t k = 0; k < n; k++) {
            const int64_t i = row * n + k;
            const double normalised = (x[i] - mean) / deviation;
            if (!gradient)
                out[i] = normalised * weight[k] + (centered ? bias[k] : 0);
            else if (result == 0)
                out[i] = (dy[i] * weight[k] - (centered ? all : 0) - normalised * along) / deviation;
            else
                out[k] += dy[i] * (result == 1 ? normalised : 1);
        }
    }
}
