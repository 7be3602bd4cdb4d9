/* What a cross_entropy has for each row, and its gradient, by plain loops, of doubles. */
#pragma once
#include <math.h>
#include <stdint.h>

/* A row's largest, and the sum of exponentials less it. */
static inline double plain_row_sum(const double *x, int64_t n, double *most) {
    double sum = 0;
    *most = x[0];
    for (int64_t i = 1; i < n; i++)
        *most = fmax(*most, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - *most);
    return sum;
}

/* -log(softmax) at the label, which takes 1 - smoothing of it, and of all n classes the rest; a label that means nothing picks 0. */
static inline void run_loss(double smoothing, const double *logits, const double *label, int64_t n, int64_t rows, int result, double *out) {
    for (int64_t row = 0; row < rows; row++) {
        const double *x = logits + row * n, at = label[row];
        double most, sum = plain_row_sum(x, n, &most), loss = log(sum);
        loss -= (1 - smoothing) * ((at >= 0 && at < (double)n ? x[(int64_t)at] : 0) - most);
        for (int64_t i = 0; i < n; i++)
            loss -= smoothing * (x[i] - most) / (double)n;
        out[row] = result == 0 ? loss : result == 1 ? most : sum;
    }
}

/* in: logits, dy, label, most, sum. */
static inline void run_loss_grad(double smoothing, const double *const *in, int64_t n, int64_t rows, double *out) {
    for (int64_t i = 0; i < rows * n; i++) {
        const int64_t row = i / n;
        const double share = smoothing / (double)n + (in[2][row] == (double)(i % n) ? 1 - smoothing : 0);
        out[i] = in[1][row] * (exp(in[0][i] - in[3][row]) / in[4][row] - share);
    }
}
