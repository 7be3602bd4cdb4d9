/* Redistributions with known results, for tests of communicators. Nothing here calls ir/box.c: who holds which cell, what it must be, and
 * how much must move follow from the definitions of layouts and conversions (docs/redistribution.md), cell by cell. */
#pragma once
#include "runtime/comm/comm.h"
#include "tests/shape.h"

enum { MAX_ATOMS = 4 };
enum { ROLE_WHOLE = -1, ROLE_PARTIAL = MAX_NDIM }; /* else the dimension that the digit splits */

/* One layout: what each digit of a mesh does. */
typedef struct Side {
    int natoms;
    Digit atom[MAX_ATOMS];
    int role[MAX_ATOMS];
    bool reversed; /* digits of one dimension in the opposite order */
} Side;

/* Mistakes made on purpose, to see that the checks find them. */
typedef enum {
    FAULT_NONE,
    FAULT_CELL /* one cell of the last rank's source is wrong */,
    FAULT_BYTES /* one use more than was asked for */
} Fault;

typedef struct Case {
    int nranks;
    Shape shape;
    DType dtype;
    Reduction reduction; /* of the partial digits */
    Side from, to;       /* the digits that are partial in `to` are digits of `from` and partial there */
    CommKind kind;
    const char *name;
    Fault fault;
} Case;

void side_layout(const Case *c, const Side *side, Layout *layout);
/* The index ranges that rank holds: begin[d], end[d]. Returns the number of cells. */
int64_t side_box(const Case *c, const Side *side, int rank, int64_t *begin, int64_t *end);
/* What rank's source holds at the cell in use number `use`, and what its target must hold. */
double case_source(const Case *c, int rank, int64_t cell, int use);
double case_target(const Case *c, int rank, int64_t cell, int use);
/* Cells that must be received by all ranks together: the bound of docs/redistribution.md. */
int64_t case_bound(const Case *c);
void case_print(Text *text, const Case *c);

/* A conversion of this kind: of all ranks along one digit, or its minor half where there is one. */
Case kind_case(CommKind kind, int nranks, Shape shape, DType dtype);

/* The same case with the type and the reduction of this number: each in turn, but for sums of bool, which are none. */
static inline Case case_numbered(const Case *c, int64_t number) {
    Case one = *c;
    one.dtype = (DType)(number % BOOL);
    one.reduction = (Reduction)(number / BOOL % NREDUCTIONS);
    return one;
}

/* Axis sizes. */
#define MESH(...) ((const int32_t[MAX_ATOMS + 1]){__VA_ARGS__})
/* Calls fn for every pair of layouts that the meshes allow (each given by its axis sizes, 0 ends it), the target's partial digits among the
 * source's. Returns the number of calls. */
typedef void CaseFn(void *context, const Case *c);
int64_t cases_all(int nranks, const int32_t *from_mesh, const int32_t *to_mesh, const Shape *shape, CaseFn *fn, void *context);

/* Runs n cases together as one request, `uses` times, on every rank that comm drives, and checks every cell and the bytes that were
 * counted. Collective. memory: from the communicator (else from malloc). False with *error saying which cell is wrong. */
bool cases_run(Comm *comm, const Case *cases, int n, int uses, bool memory, Error *error);
