"""Faults, one a row: the text that is replaced in a source file, and the test that must fail then."""

# Static libraries of the build that a test needs, users before used.
LIBRARIES = {
    "tests/proof/layout.c": ["proof", "ir"],
    "tests/ir/box.c": ["ir"],
    "tests/ir/layout.c": ["ir"],
    "tests/runtime/kernels.c": ["runtime", "ir"],
    "tests/runtime/data.c": ["runtime", "ir"],
    "tests/runtime/state.c": ["runtime", "ir"],
    "tests/runtime/print.c": ["runtime", "ir"],
    "tests/runtime/exec.c": ["compiler", "frontend", "frontend_syntax", "strategies", "proof", "runtime", "ir"],
    "tests/runtime/verify.c": ["compiler", "frontend", "frontend_syntax", "strategies", "proof", "runtime", "ir"],
    "tests/ops/ops.c": ["compiler", "frontend", "frontend_syntax", "strategies", "proof", "runtime", "ir"],
}
# More sources of a test.
SOURCES = {
    "tests/runtime/exec.c": ["tests/ops/net.c"],
    "tests/runtime/verify.c": ["tests/ops/net.c"],
    "tests/ops/ops.c": ["tests/ops/net.c"],
}
LINK = ["-lcriterion", "-lopenblas", "-lxxhash", "-lm", "-lpthread"]


def fault(name, file, old, new, test):
    return {"name": name, "file": file, "old": old, "new": new, "test": test}


PROOF = "tests/proof/layout.c"
KERNELS = "tests/runtime/kernels.c"
OPS = "tests/ops/ops.c"
FAULTS = [
    fault("holder differs in a summed digit", "ir/box.c",
          "return rank - only(m->source, m->nsource, rank) + part - only(m->summed, m->nsummed, rank)",
          "return rank - only(m->source, m->nsource, rank) + part - 0 * only(m->summed, m->nsummed, rank)", PROOF),
    fault("holder of another part", "ir/box.c",
          "piece.from = holder(m, rank, parts->part, piece.term);", "piece.from = holder(m, rank, parts->part / 2, piece.term);", PROOF),
    fault("owners: all needers, not those that hold a term", "ir/box.c",
          "        if (in_target && in_source && digit_of(d, rank) != digit_of(d, part)) {", "        if (in_target || in_source) {", PROOF),
    fault("owners: shares in another order", "ir/box.c",
          "        piece.from = ranks_at(&own, i);", "        piece.from = ranks_at(&own, own.count - 1 - i);", PROOF),
    fault("group in another order", "ir/box.c",
          "        members[i] = leader + number_of(digits, n, i);", "        members[i] = leader + number_of(digits, n, count - 1 - i);", PROOF),
    fault("a sender skips a receiver", "ir/box.c",
          "        if (piece.to == rank || !box_intersect(&held, &wanted, &piece.box)) continue;",
          "        if (piece.to <= rank || !box_intersect(&held, &wanted, &piece.box)) continue;", PROOF),
    fault("an uneven boundary", "ir/box.c",
          "*begin += part * each + (part < rest ? part : rest);", "*begin += part * each + (part < rest ? part : 0);", PROOF),
    fault("the last parts one longer", "ir/box.c",
          "    *end = *begin + each + (part < rest);", "    *end = *begin + each + (part >= parts - rest);", PROOF),
    fault("a piece outside its box", "ir/box.c",
          "        if (end > p->within.end[dim]) end = p->within.end[dim];", "        if (end > p->within.end[dim] + 1) end = p->within.end[dim];", PROOF),
    fault("a mean by the local count", "runtime/cpu/nest.c",
          "*reduced *= (double)in->global.dim[d];", "*reduced *= (double)in->local.dim[d];", OPS),
    fault("a mean's gradient by the local count", "runtime/cpu/move.c",
          "(double)shape_elements(&out->global) / (double)shape_elements(&dy->global)",
          "(double)shape_elements(&out->local) / (double)shape_elements(&dy->local)", OPS),
    fault("replicas share the first one's slice", "runtime/load.c",
          "slice * shape_elements(&operand->local)", "0 * slice * shape_elements(&operand->local)", OPS),
    fault("a slice from the operand's first element", "runtime/cpu/move.c",
          "(char *)in->data + first * dtype_bytes[in->dtype]", "(char *)in->data + 0 * first", OPS),
    fault("a gradient that forgets the chain rule", "runtime/cpu/elementwise.c",
          "BINARY(tanh_grad, f64, double, y *(1 - x * x))", "BINARY(tanh_grad, f64, double, y *(1 - x))", OPS),
    fault("a product that forgets what it has added up", "runtime/cpu/einsum.c",
          "cblas_dgemm(CblasRowMajor, a_order, b_order, (int)m, (int)n, (int)g->k, 1, a, lda, b, ldb, i > 0, out, ldc);",
          "cblas_dgemm(CblasRowMajor, a_order, b_order, (int)m, (int)n, (int)g->k, 1, a, lda, b, ldb, 0 * i, out, ldc);", KERNELS),
    fault("momentum steps by the gradient alone", "runtime/cpu/update.c",
          "new_w[i] = w[i] - lr * slot;", "new_w[i] = w[i] - lr * g[i];", KERNELS),
    fault("f32 sums added in f32", "runtime/cpu/reduce.c", "ADD_ROW(f32, float, double)", "ADD_ROW(f32, float, float)", KERNELS),
    fault("a tile read the right way round", "runtime/cpu/move.c", "in[i + j * in_stride];", "in[j + i * in_stride];", KERNELS),
    fault("rows that do not repeat", "runtime/data.c",
          "index[d] % data->rows[input]", "(index[d] ? data->rows[input] - 1 : 0)", "tests/runtime/data.c"),
    fault("generator words in the other order", "runtime/data.c", "(a * 67108864.0 + b)", "(b * 67108864.0 + a)", "tests/runtime/data.c"),
    fault("initial values by the place in the box", "runtime/state.c",
          "fill_run(fill, first, run);", "fill_run(fill, i * run, run);", "tests/runtime/state.c"),
    fault("exponent form too late", "runtime/print.c", "exponent < -4", "exponent < -5", "tests/runtime/print.c"),
    fault("a deadlock that nobody notices", "runtime/exec.c",
          "if (ndone < n && !moved) return report_deadlock(executor, error);", "if (ndone < n && !moved) return true;", "tests/runtime/exec.c"),
    fault("--verify with a tolerance too wide", "runtime/verify.c",
          "double tolerance = (8 +", "double tolerance = 1e6 * (8 +", "tests/runtime/verify.c"),
    fault("--verify that continues its own states", "runtime/verify.c",
          "if (!executor_set_state(verifier->reference, verifier->state[i], moved, error)) return false;",
          "if (step == 1 && !executor_set_state(verifier->reference, verifier->state[i], moved, error)) return false;", "tests/runtime/verify.c"),
]
