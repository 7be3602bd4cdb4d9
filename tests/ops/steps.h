/* steps: random fused steps as a plan has them: elementwise operators on operands of memory, broadcast, transposed or cut, some results
 * stored, some inner; perhaps a product first, perhaps a sum last. Stored results lie alone, or exactly over an operand that nothing reads
 * any more. */
#pragma once
#include "runtime/backend.h"
#include "tests/random.h"

enum { STEP_CALLS = 14, STEP_VALUES = 48 };

typedef struct StepValue {
    DType dtype;
    Shape shape;
    int64_t at; /* in the memory */
    int from;   /* the call, -1: there before */
    bool inner;
    bool in_order; /* every reader so far reads it element by element */
    int last_use;  /* the last call that reads it, -1: none */
} StepValue;

typedef struct FusedStep {
    uint64_t random;
    char *memory; /* bytes of random numbers; operands point into it */
    int64_t bytes, used;
    DType dtype;
    Shape shape; /* of the results */
    StepValue value[STEP_VALUES];
    int nvalues;
    KernelCall call[STEP_CALLS];
    unsigned inner[STEP_CALLS];
    int in[STEP_CALLS][MAX_IN], out[STEP_CALLS][MAX_OUT]; /* values */
    Attr attr[STEP_CALLS][MAX_ATTRS];
    Rule rule[STEP_CALLS];
    int ncalls;
    bool heading; /* a product and the transposes around it are being added, */
    int nheading; /* so many calls */
} FusedStep;

/* What a step may have besides elementwise operators. */
enum { STEP_WITH_PRODUCT = 1, STEP_WITH_SUM = 2, STEP_WITH_VIEWS = 4 };
/* most: elements of a result. The memory is the step's. */
void step_random(FusedStep *step, uint64_t seed, int64_t most, unsigned with);
void step_finish(FusedStep *step);
/* The calls as text. */
void step_print(const FusedStep *step, Text *text);
