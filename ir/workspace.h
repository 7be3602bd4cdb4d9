/* workspace: memory that kernels on GPUs need beside tensors. The CUDA backend allocates it at the start; pcc counts it for a machine whose device is cuda. */
#pragma once
#include "ir/base.h"

enum {
    WORKSPACE_REDUCTIONS = 4 << 20,                              /* bytes: partial results of reductions in two stages */
    WORKSPACE_PRODUCTS = 32 << 20,                               /* of cuBLASLt's algorithms */
    WORKSPACE_LEAST = WORKSPACE_REDUCTIONS + WORKSPACE_PRODUCTS, /* of every program */
    WORKSPACE_ODD_ROWS = 64 << 20,                               /* for parts of matrices with odd rows, where products have such */
    ROW_ALIGNMENT = 16 /* bytes: rows that do not begin at multiples of this are odd, and large products of them slow */
};
#define ODD_ROWS_FROM ((int64_t)1 << 34) /* multiplications of the smallest product for which that memory pays */

struct Graph;
struct Role;
/* Whether a role has a product that may need the room for odd rows: a large one on a rank, of sizes that are not all multiples of ROW_ALIGNMENT. */
bool role_has_odd_rows(const struct Graph *graph, const struct Role *role);
int64_t role_workspace(const struct Graph *graph, const struct Role *role); /* bytes per process that runs the role */
