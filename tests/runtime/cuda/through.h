/* through: a communicator over memory of the process whose data takes the way of one over a device: for tests that look at every cell. Sources are written, and
 * targets read and sources overwritten, by copies that are queued on the device and not waited for, so that a communicator that forgets to order its work with them
 * moves what is not there yet. */
#pragma once
#include "runtime/backend.h"
#include "runtime/comm/comm.h"

/* base is owned by the result, and by the communicator over it; the module is the one that PRUN_CUDA_MODULE names. NULL and *error. */
Comm *through_open(Comm *base, const char *choice, Error *error);
/* The communicator over the device, and the device. */
Comm *through_inner(Comm *comm);
const Device *through_device(Comm *comm);
/* Lets the uses that follow be recorded once, and replayed: where the communicator can. */
void through_capture(Comm *comm, bool capture);
/* Tensors lie in memory that the communicator has not given: before the first request is prepared. */
void through_foreign(Comm *comm);
