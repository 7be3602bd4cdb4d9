#include "tests/ops/device.h"

#include <stdlib.h>
#include <string.h>

bool test_device_open(Device *device, int nthreads, Error *error) {
    cpu_set_environment();
    const char *choice = getenv("PRUN_TEST_DEVICE");
    const DeviceModule *module = choice && strcmp(choice, "cuda") == 0 ? device_module(error) : NULL;
    if (choice && !module) return false;
    return device_open(device, module ? module->backend : &backend_cpu, &(DeviceOptions){.nlocal = 1, .nthreads = nthreads}, error);
}

bool test_device(Device *device, Comm **comm, Error *error) {
    if (!test_device_open(device, 1, error)) return false;
    Comm *moved = device->backend->queue ? device->backend->queue->comm(device->context, *comm, "auto", error) : *comm;
    if (moved) *comm = moved;
    return moved != NULL;
}
