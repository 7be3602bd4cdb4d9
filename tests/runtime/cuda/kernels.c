/* The module's kernels are tested by tests/ops/kernels.c; here: what they refuse. */
#include "tests/runtime/cuda/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

Test(kernels, what_plans_do_not_hold_is_refused) {
    const Device *device = fixture_device();
    for (int op = 0; op < NOPS; op++) {
        KernelCall call = {.op = (OpCode)op, .attr = (Attr[MAX_ATTRS]){{0}}, .context = device->context};
        Error error = {0};
        if (op_table[op].expand || op == OP_input ||
            op == OP_read) /* composites are gone from plans, inputs and states are where the executor put them */
            cr_assert(!device->backend->kernels[op](&call, &error) && strstr(error.text, op_table[op].name), "%s", op_table[op].name);
    }
}
