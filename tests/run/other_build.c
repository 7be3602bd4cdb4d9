/* other_build: the head of a module as another build has it: of a table with one operator more, or, before modules said so, of a numbered interface. */
#include "runtime/abi.h"

#ifdef NUMBERED
const struct NumberedModule {
    int abi;
    const void *backend;
} prun_device_module = {4, NULL};
#else
static uint64_t abi_with_one_more(void) {
    static const char row[] = "argmin: .ins = \"x\"";
    return abi_add(device_abi(), row, sizeof row);
}
const DeviceModule prun_device_module = {DEVICE_MODULE, abi_with_one_more, NULL, NULL, NULL};
#endif
