#include "tests/ops/device.h"

#include <stdlib.h>
#include <string.h>

bool test_device(Device *device, Comm **comm, Error *error) {
    const char *choice = getenv("PRUN_TEST_DEVICE");
    const DeviceModule *module = choice && strcmp(choice, "cuda") == 0 ? device_module(error) : NULL;
    if (choice && !module) return false;
    if (!device_open(device, module ? module->backend : &backend_cpu, &(DeviceOptions){.nlocal = 1, .nthreads = 1}, error)) return false;
    Comm *moved = module ? module->backend->queue->comm(device->context, *comm, "auto", error) : *comm;
    if (moved) *comm = moved;
    return moved != NULL;
}
