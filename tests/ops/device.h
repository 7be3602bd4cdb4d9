/* Which device tests run nets on. */
#pragma once
#include "runtime/backend.h"
#include "runtime/comm/comm.h"

/* The device that PRUN_TEST_DEVICE names (cuda; the CPU when it is not set) for a test that drives all ranks, and the communicator over its memory, which
 * takes comm's place. */
bool test_device(Device *device, Comm **comm, Error *error);
/* The same for calls of kernels, with so many threads (on the CPU), and no communicator. */
bool test_device_open(Device *device, int nthreads, Error *error);
