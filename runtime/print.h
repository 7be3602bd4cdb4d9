/* print: numbers and tensors as readable text. */
#pragma once
#include "ir/layout.h"

/* A number as Python's repr of a float writes it: the shortest digits that read back exactly, exponent form below 1e-4 and from 1e16. */
enum { NUMBER_MAX = 64 };
void number_print(char text[NUMBER_MAX], double number);
/* "[[2.0000], [3.0000]]"; over 1,000 elements only the first and last three of each dimension. full: all elements, with the shortest digits that read back exactly as
 * their type. */
void tensor_print(Text *text, const Shape *shape, DType dtype, const double *data, bool full);
