/* check: one call of a kernel of a backend, compared with the plain kernel. */
#pragma once
#include "runtime/backend.h"
#include "tests/ops/call.h"
#include "tests/shape.h"

typedef struct Check {
    OpCode op;
    DType dtype; /* of operands that may be of any type; check_all sets it */
    int nin;
    Shape in[MAX_IN];
    Attr attr[MAX_ATTRS];
    bool hidden;   /* operand 0 has the hidden dimension */
    bool positive; /* operands are above 0 */
    bool ends;     /* integers are at the ends of their range; check_all sets it */
    int64_t most;  /* integers that are indices are drawn from [-2, most + 2); 0: 50 */
    double
        length; /* numbers that are added up for one result, for the tolerance; 0: as many as each result has elements of the first operand */
    double size; /* of numbers met on the way to a result; 0: 1 */
    bool
        fast; /* on a device: against the CPU's own kernel, itself checked against the plain one, which takes the square of what it should */
} Check;

#define SCALAR ((Shape){0})
#define NUMBER(v)                                                                                                                          \
    { .given = true, .f = (v) }
#define INT(v)                                                                                                                             \
    { .given = true, .i = (v) }
#define INTS(...)                                                                                                                          \
    {                                                                                                                                      \
        .given = true, .n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .ints = { __VA_ARGS__ }                             \
    }

/* How far an element may be from b, what the plain kernel says: (8 + sqrt(length)) roundings of a number of size + |b|, by 2^-24 of it for f32 and 2^-53 for f64, and
 * the plain kernel's own, which adds doubles one after another: length * 2^-53. Integers and bools must be equal. */
double check_tolerance(DType dtype, double length, double size, double b);
/* Runs the call, whose operands and results lie in ordinary memory, on the device, each tensor `misaligned` elements past an aligned address. in_place: results lie
 * in the first operands. Fails the test where an operand changed, or where a second run gives other bits. Returns false with *error where the kernel does. */
bool check_run(const Device *device, const KernelCall *call, int misaligned, bool in_place, Error *error);
/* A call on random numbers against the plain kernel, at the given element type. whole: the boxes are the tensors; else each factor's box is a part of it, which may
 * be empty. */
void check_call(const Device *device, const Check *check, bool whole, uint64_t *random);
/* check_call with every element type, whole and with parts, aligned and not. */
void check_all(const Device *device, const Check *check);
/* Compares results, already computed on the device, with what one of these kernels gives. */
void check_results(KernelFn *const *kernels, const KernelCall *call, double length, double size, const char *how);
/* A call on random numbers, of memory of the process: call_open and check_fill. */
void check_open(KernelCall *call, const Check *check, Rule *rule, bool whole, uint64_t *random);
/* Random numbers for an operand. */
void check_fill(const Operand *operand, const Check *check, bool index, uint64_t *random);
