/* normal: normally distributed numbers. Used by random.c. */
#pragma once

/* Pairs of uniform numbers in [0, 1) become pairs of normal ones, of mean 0 and deviation 1; pairs: a multiple of 4. */
void normal_of_uniform(const double *uniform, int pairs, double *out);
