/* cases: calls of every operator, a list that tests and measurements of every backend walk. */
#pragma once
#include "tests/ops/check.h"

typedef void CaseFn(void *context, const Check *check);
/* cases_NAME of each group calls fn for each of its calls. */
/* clang-format off */
#define CASE_GROUPS(X)                                                                                            \
    X(unary) X(binary) X(gradients) X(selections) X(reductions) X(rows) X(norms) X(batch_norms) X(attention) X(movements) X(expansions) X(cuts)        \
    X(lookups) X(along) X(products) X(planes) X(updates) X(whole_table)
/* clang-format on */
#define DECLARE_CASES(name) void cases_##name(CaseFn *fn, void *context);
CASE_GROUPS(DECLARE_CASES)
/* One call of the sizes that nets have for each operator that takes time in them: what is timed, as f32. */
void cases_timed(CaseFn *fn, void *context);
