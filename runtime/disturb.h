/* disturb: how much rounding matters. A backend around another one, whose kernels call the other's and then move each number that these have rounded by
 * some more roundings, always alike. A fused step is run kernel by kernel, so that its inner values are moved too. */
#pragma once
#include "runtime/executor.h"

typedef struct Disturber Disturber;
/* Opens inner, whose buffers are memory of the process, in *device; device_close ends both. NULL and *error on failure. */
Disturber *disturber_open(Device *device, const Backend *inner, const DeviceOptions *options, Error *error);
/* From the next step of an executor on this device on, each element of its inputs, of constants that are added up and of every kernel's result is moved by at
 * most so many roundings, otherwise for each seed. 0: they are as they are. */
void disturber_set(Disturber *disturber, Executor *executor, double roundings, uint64_t seed);
/* number moved by at most so many roundings in dtype, of itself or of `least` where that is larger; by how much depends on key. Integers are not moved. */
double number_moved(double number, double least, DType dtype, double roundings, uint64_t key);
double number_epsilon(DType dtype); /* 0 for integers */
