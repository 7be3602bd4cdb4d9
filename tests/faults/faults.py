"""Faults, one a row: the text that is replaced in a source file, and the test that must fail then."""

# Static libraries of the build that a test needs, users before used.
LIBRARIES = {
    "tests/proof/layout.c": ["proof", "ir"],
    "tests/ir/box.c": ["ir"],
    "tests/ir/layout.c": ["ir"],
}
LINK = ["-lcriterion", "-lxxhash", "-lm", "-lpthread"]


def fault(name, file, old, new, test):
    return {"name": name, "file": file, "old": old, "new": new, "test": test}


PROOF = "tests/proof/layout.c"
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
]
