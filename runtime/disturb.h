/* disturb: measures how much rounding matters. A backend around another one: its kernels call the other's and then move each number that these have rounded by
 * some more roundings, deterministically. A fused step is run kernel by kernel, so that its inner values are moved too. */
#pragma once
#include "runtime/executor.h"

typedef struct Disturber Disturber;
/* Opens inner, whose buffers are memory of the process, in *device; device_close ends both. NULL and *error on failure. */
Disturber *disturber_open(Device *device, const Backend *inner, const DeviceOptions *options, Error *error);
/* From the next step of an executor on this device, each element of its inputs, of constants that are added up and of every kernel's result is moved by at
 * most so many roundings, differently for each seed. 0: nothing is moved. */
void disturber_set(Disturber *disturber, Executor *executor, double roundings, uint64_t seed);
/* The number, moved by at most so many roundings in dtype, of itself or of `least` where that is larger; key determines by how much. Integers are not moved. */
double number_moved(double number, double least, DType dtype, double roundings, uint64_t key);
double number_epsilon(DType dtype); /* 0 for integers */
