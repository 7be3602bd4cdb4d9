"""Faults, one a row: a file, text that occurs in it once, what replaces it, and the check that must then fail."""
import dataclasses

from checks import ABORT, CLI, DIFFERENCES, DUMPS, ERRORS, FUZZ_LANG, FUZZ_PLAN, INTEGERS, LANGUAGE, LATE, LAYERS, MUTANTS, OPS, PROVED, Check, commtest, script, unit


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    file: str
    old: str
    new: str
    check: Check
    unit: str  # the source file that is compiled with it


FAULTS = []


def seed(check, *rows):
    """Rows of one check: what is wrong, file, old, new; a fault in a header says which source reads it."""
    FAULTS.extend(Fault(*row[:4], check, row[4] if len(row) > 4 else row[1]) for row in rows)


# ---------------------------------------------------------------- ir
seed(unit("ir", "arena"),
     ("memory that is not aligned", "ir/arena.c", "bytes = (bytes + align - 1) / align * align;", "bytes = bytes + !bytes * align;"))
seed(unit("ir", "file"),
     ("a signal leaves half a file", "ir/file.c", "pthread_sigmask(SIG_BLOCK, &ends, &before);", "pthread_sigmask(SIG_BLOCK, NULL, &before);"),
     ("reading waits for a pipe", "ir/file.c", "stat(path, &status) == 0 && !other_kind(status.st_mode) ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;", "open(path, O_RDONLY | O_CLOEXEC);"),
     ("a link hides what it leads to", "ir/file.c", "    if (stat(path, &status) == 0) {\n        if (!S_ISREG", "    if (lstat(path, &status) == 0) {\n        if (!S_ISREG"))
seed(CLI,
     ("the plan goes over a net's file", "compiler/outputs.c", "for (int f = 1; f < c->diags->files.n; f++)", "for (int f = 1; f < 1; f++)"),
     ("a dump goes over a file", "compiler/outputs.c", "if (!files_write(uses, c->arena, file, \"--dump-ir\", error)) return false;\n            uses->n--;", ""))
seed(unit("ir", "type"),
     ("a product that may overflow by one", "ir/type.c", "overflow = b > 0 ? a > INT64_MAX / b :", "overflow = b > 0 ? a - 1 > INT64_MAX / b :"))
seed(unit("ir", "layout"),
     ("layouts of other partial digits are one", "ir/layout.c", "if (da.size != db.size || da.stride != db.stride) return false;", ""),
     ("digits merge where boxes change", "ir/layout.c", "if (!same) break;", "(void)same;"),
     ("digits of 2x3 and 3x2 stand together", "ir/layout.c", "return b.stride % digit_top(a) == 0 || a.stride % digit_top(b) == 0;",
      "return b.stride >= digit_top(a) || a.stride >= digit_top(b);"))
seed(unit("ir", "box"),
     ("the leader has its own digits", "ir/box.c", "return rank - only(digits, n, rank);", "return rank;"),
     ("the last parts are the longer ones", "ir/box.c", "*begin += part * each + (part < rest ? part : rest);",
      "*begin += part * each + (part > parts - rest ? part - (parts - rest) : 0);"),
     ("an empty intersection that is not", "ir/box.c", "if (result->end[i] <= result->begin[i]) some = false;", "if (result->end[i] < result->begin[i]) some = false;"))
seed(unit("ir", "rule"),
     ("a gradient's operand broadcasts", "ir/rule.c", "row->op_class == OP_CLASS_USER || row->broadcasts, types", "true, types"),
     ("the hidden dimension moves no factor", "ir/rule.c", "map[d - 1] < 0 ? -1 : map[d - 1] + 1", "map[d - 1]"),
     ("products of one operand only", "ir/ops.def", "OP_CLASS_USER, .ins = \"a, b\", .dtypes = DTYPES_FLOAT, .letters = \"..., ...->...\", .linear = LINEAR_OPERAND_0",
      "OP_CLASS_USER, .ins = \"a\", .dtypes = DTYPES_FLOAT, .letters = \"...->...\", .linear = LINEAR_OPERAND_0", "ir/rule.c"))
seed(unit("ir", "shapes"),
     ("a product transposed", "ir/shapes.c", "add_result_dim(rule, fm, m);\n    add_result_dim(rule, fn, n);", "add_result_dim(rule, fn, n);\n    add_result_dim(rule, fm, m);"),
     ("a reshape splits where it does not divide", "ir/shapes.c", "rule->factor[f].divides = !single;", "rule->factor[f].divides = false;"),
     ("negative axes from the front", "ir/shapes.c", "int64_t axis = axes->ints[i] < 0 ? axes->ints[i] + ndim :", "int64_t axis = axes->ints[i] < 0 ? -1 - axes->ints[i] :"))
seed(unit("ir", "adjoint"),
     ("a difference's second gradient keeps its sign", "ir/adjoint.c", "dx[1] = emit1(graph, node, OP_neg, sum, 1, 1, NULL, grad_name(graph, node, 1));", "dx[1] = sum;"),
     ("a transpose is its own inverse", "ir/adjoint.c", "attr[0].ints[perm->ints[d] < 0 ? perm->ints[d] + perm->n : perm->ints[d]] = d;", "attr[0].ints[d] = perm->ints[d];"),
     ("a minimum's gradient goes to the larger one", "ir/adjoint.c", "first = turned ? other : i;", "first = i;"),
     ("a gradient with its own factors", "ir/graph.c", "node->origin_factor[own[d]] = theirs[d];", "node->origin_factor[own[d]] = own[d];"))
seed(unit("ir", "rows"),
     ("the gradient of a row reduces the operand", "ir/rows.c", "int sum = emit_gradient(graph, node, OP_sum, product, PART_OUT, -1,", "int sum = emit_gradient(graph, node, OP_sum, dy, PART_OUT, -1,"),
     ("a row's number has the row's factor", "ir/rows.c", "attr[1] = (Attr){.given = true, .i = 1};", "attr[1] = (Attr){.given = true, .i = 0};"))
seed(unit("ir", "cut"),
     ("rows of which one reduction is not counted", "ir/cut.c", ".reductions = nin == 1 ? 2 : 1;", ".reductions = 1;"))
seed(unit("ir", "verify"),
     ("a kernel of a part of a row", "ir/verify.c", "strategy_count(strategy, f) > 0 && node->rule->factor[f].reductions > 0", "false"))
seed(unit("ir", "graph"),
     ("two values of one name", "ir/graph.c", "while (name_slot(index, numbered)->name);", "while (0);"),
     ("a contraction that owes no sum", "ir/graph.c", "if (strategy_count(strategy, f) > 0 && rule_contracted(node->rule, node->nout, f))", "if (false)"))
seed(unit("ir", "print"),
     ("values with the numbers of passes", "ir/print.c", "printing->value[graph->nodes.at[i].out[o]] = next++;", "printing->value[graph->nodes.at[i].out[o]] = graph->nodes.at[i].out[o];"))
seed(unit("ir", "read"),
     ("a result of any type", "ir/read.c", "if (!type_equal(&value->type, &text->out[o].type)) return fail_type(reading, text, o, &value->type);", ""),
     ("gradients always mean", "ir/read.c", "settings->gradients_mean = gradients == 1;", "settings->gradients_mean = true;"))
seed(unit("ir", "plan"),
     ("any checksum", "ir/plan.c", "if (stored == actual || flags & PLAN_IGNORE_CHECKSUM) return true;", "return true;"),
     ("values beyond the arena", "ir/plan.c", "if (bytes <= role->arena_bytes - instance->at) return true;", "if (bytes >= 0) return true;"),
     ("ranks without a role", "ir/plan.c", "if (next != plan->graph.nranks) return", "if (next > plan->graph.nranks) return"))
seed(unit("ir", "scan"),
     ("numbers without an upper limit", "ir/scan.c", "if (!fits || number < min || number > max)", "if (!fits || number < min)"))
seed(unit("ir", "verify"),
     ("any rule", "ir/verify.c", "if (rule.nout != node->nout || !rule_equal(&rule, node->rule, in, node->nin, node->nout)) return", "if (false) return"),
     ("operands made later", "ir/verify.c", "if (producer < 0 || producer >= id)", "if (producer < 0)"))
seed(unit("ir", "diag"),
     ("carets by bytes", "ir/diag.c", "if (!is_continuation(line[i])) putc('~', out);", "putc('~', out);"),
     ("two swapped letters are two mistakes", "ir/diag.c", "if (i > 1 && j > 1 && a[i - 1] == b[j - 2]", "if (false && a[i - 1] == b[j - 2]"))
seed(FUZZ_PLAN,
     ("a plan's digits may overlap", "ir/read.c", "if (!layout_valid(&layout, reading->graph->nranks, &why)) return", "if (false) return"),
     ("texts that do not read back", "ir/print.c", "text_printf(text, \"\\nranks %d\\nreplicas %d\\n\", graph->nranks, graph->replicas);",
      "text_printf(text, \"\\nranks %d\\nreplicas %d\\n\", graph->nranks, graph->replicas + 1);"),
     ("an offset that no one looks at", "ir/plan.c", "if (bytes <= role->arena_bytes - instance->at) return true;", "if (bytes >= 0) return true;"))

# ---------------------------------------------------------------- frontend
seed(unit("frontend", "ast"),
     ("an expression ends where it begins", "frontend/ast.c", "first.end = last.end > first.begin ? last.end : first.end;", "first.end = first.begin + 1;"))
seed(unit("frontend", "syntax"),
     ("'}' does not leave brackets", "frontend/syntax.c", "leave_brackets(parse);\n        if (parse->nopen > 0) parse->nopen--;", "if (parse->nopen > 0) parse->nopen--;"))
seed(unit("frontend", "express"),
     ("a difference is a sum", "frontend/express.c", "op = OP_sub;", "op = OP_add;"))
seed(unit("frontend", "subscript"),
     ("a subscript from the end counts from the beginning", "frontend/subscript.c", "if (*begin < 0) *begin += n;", ""),
     ("the power of a number is a product", "frontend/number.c", "if (!mul_checked(result, left.i, &result)) return overflow(lower, expr);", "result = left.i * right.i;"))
seed(unit("frontend", "shard"),
     ("a strategy in brackets is forgotten", "frontend/express.c", "hint_inner(lower, expr, out->value, outcome->own)", "hint_inner(lower, expr, out->value, NULL)"))
seed(unit("frontend", "patterns"),
     ("operators inside a statement have no hints", "frontend/express.c", "hint_inner(lower, expr, out->value, outcome->own)", "true"))
seed(unit("frontend", "foreign"),
     ("a second axis is taken for keep_dims", "frontend/express.c", " || !is_truth(unbracket(item)))) return -1;", ")) return -1;"),
     ("operands the other way round are told to be cast", "ir/rule.c", "if (letter == 't' && turned_round(op, in, nin, i))", "if (letter == 't' && false && turned_round(op, in, nin, i))"),
     ("what is near by a third of its letters is proposed", "ir/diag.c", "if (limit > MAX_EDITS && !is_path) limit = MAX_EDITS;", ""),
     ("an argument without a name is the last attribute", "frontend/express.c", "if (attr[a].given && !more) continue;", "if (!more) continue;"))
seed(unit("frontend", "lower"),
     ("the first -D counts", "frontend/lower.c", "for (int i = flags->ndefines - 1; i >= 0; i--)", "for (int i = 0; i < flags->ndefines; i++)"),
     ("an input without its replicas", "frontend/lower.c", "shape->dim[0] = lower->graph->replicas;", "shape->dim[0] = 1;"))
seed(unit("frontend", "names"),
     ("names before their definition", "frontend/names.c", "if (symbol && symbol->kind > SYMBOL_FAILED) return symbol;", "if (symbol) return symbol;"))
seed(unit("frontend", "batch"),
     ("rows that are normalized together are apart", "frontend/batch.c", "(factor >= 0 && !factor_stays_whole(&node->rule->factor[factor]))", "factor >= 0"),
     ("a reshape leaves rows where they are", "frontend/batch.c", "if (passed == before && to->dim[d] % batch == 0) return d;", "if (d == at) return d;"))
seed(unit("frontend", "number"),
     ("a remainder is a quotient", "frontend/number.c", "integer(expr->op == '/' ? a / b : a % b)", "integer(a / b)"),
     ("sums that overflow", "frontend/number.c", "if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) return false;", ""))
seed(unit("frontend", "parallel"),
     ("ranks without a replica", "frontend/parallel.c", "if (graph->replicas >= nranks) return true;", "return true;"))
seed(unit("frontend", "shard"),
     ("a mesh whose digits begin at 1", "frontend/shard.c", "(int32_t)(nranks / product), digits);", "1, digits);"),
     ("counts and axes mixed", "frontend/shard.c", "if (begins && mixed(lower, expr, form)) return false;", ""))
seed(unit("frontend", "train"),
     ("momentum above 1", "frontend/optimizer.c", "{\"momentum\", 0, 1, 0, &s->momentum, false}", "{\"momentum\", 0, DBL_MAX, 0, &s->momentum, false}"))
seed(unit("frontend", "types"),
     ("a list that is too short", "frontend/types.c", "if (expr->nitems != type->shape.dim[level]) {", "if (expr->nitems > type->shape.dim[level]) {"))
seed(ERRORS,
     ("a second loss", "frontend/lower.c", "if (lower->loss_span.line) {", "if (false) {"))
seed(LANGUAGE,
     ("gradients are only summed", "frontend/parallel.c", "choice(lower, \"gradients\", value, names, 2);", "choice(lower, \"gradients\", value, names, 1);"))
seed(FUZZ_LANG,
     ("brackets without a limit", "frontend/syntax.c", "if (parse->nopen == MAX_BRACKETS) {", "if (parse->nopen == MAX_BRACKETS << 20) {"),
     ("memory by what a type claims", "frontend/types.c", "(size_t)(elements < written ? elements : written)", "(size_t)elements"))

# ---------------------------------------------------------------- strategies
seed(unit("strategies", "candidates"),
     ("a factor split over more than it has", "strategies/candidates.c", "return factor->whole ? 1 : factor->size < nranks ? (int32_t)factor->size : nranks;", "return factor->whole ? 1 : nranks;"),
     ("the batch is the last dimension", "strategies/candidates.c", "node->op == OP_input && ndim > 0 ? 0 :", "node->op == OP_input && ndim > 0 ? ndim - 1 :"))
seed(OPS,
     ("a candidate that is left out", "strategies/candidates.c", "split <= most; split++", "split <= most - (ranks > 2); split++"))
seed(unit("strategies", "cost"),
     ("a cost of another target", "strategies/cost.c", "if (at->from == 0 || (at->from == from + 1 && at->to == to)) return at;", "if (at->from == 0 || at->from == from + 1) return at;"))
seed(unit("strategies", "hints"),
     ("ranks left over count first", "strategies/hints.c", "leftover_first ? 1 :", "!leftover_first ? 1 :"),
     ("a hint far from what was written", "strategies/hints.c", "score += all.at[(size_t)i * all.nfactors + f] == wanted[f];",
      "score += all.at[(size_t)i * all.nfactors + f] != wanted[f];"),
     ("one axis for two indices", "strategies/hints.c", "if (hint->named && !check_axes_of_factors(&check, node, hint, use)) return false;", ""))
seed(unit("strategies", "propagate"),
     ("the most arithmetic wins", "strategies/decide.c", "return class->flops[a] < class->flops[b] ? BY_FLOPS : -BY_FLOPS;", "return class->flops[a] > class->flops[b] ? BY_FLOPS : -BY_FLOPS;"),
     ("the last tuple wins", "strategies/decide.c", "return x[f] < y[f] ? -1 : 1;", "return x[f] < y[f] ? 1 : -1;"),
     ("split rows cost nothing", "strategies/decide.c", "int64_t bytes = row_bytes(p, node, &strategy);", "int64_t bytes = 0;"),
     ("hints do not reach producers", "strategies/propagate.c", "reach(p, producer[k], queue[i], hint, queue, &nqueue);", ";"))
seed(unit("strategies", "pair"),
     ("links that hold of themselves", "strategies/pair.c", "solutions /= pair->atom[f].size;", "solutions /= 1;"))
seed(unit("strategies", "traffic"),
     ("every rank receives its own term", "strategies/traffic.c", "received->total = sent->total = (t - 1) * pair->cells * pair->needers;",
      "received->total = sent->total = t * pair->cells * pair->needers;"))
seed(unit("strategies", "redistribute"),
     ("a collective above the bound", "strategies/redistribute.c", "if (received.total > bound->total) kind = COMM_EXCHANGE;", ""),
     ("gathers of more than differs", "strategies/redistribute.c", "if (!with_list(&at, d, common, n, &next)) continue;", "if (!with_list(&at, d, common, n - (n > 0), &next)) continue;"),
     ("an exchange from a rank that has it not", "ir/box.c", "piece.from = holder(m, rank, parts->part, piece.term);", "piece.from = holder(m, rank, parts->part / 2, piece.term);"),
     ("shares of which one is lost", "ir/box.c", "ranks_at(&own, i));\n        if (piece.from != piece.to && !fn(context, &piece)) return false;", "ranks_at(&own, i));\n        if (piece.from > piece.to && !fn(context, &piece)) return false;"),
     ("a sum of one term less", "ir/box.c", "for (piece.term = 0; piece.term < m->nterms; piece.term++) {", "for (piece.term = m->nterms > 1; piece.term < m->nterms; piece.term++) {"))

# ---------------------------------------------------------------- compiler
seed(unit("compiler", "simplify"),
     ("an index drawn by the uses that are left", "proof/field.c", "graph->inputs.at[node->state].index", "graph_index_range(graph, node->out[0], false)"),
     ("a -0 that is forgotten", "compiler/simplify.c", "return !strictly && is_nonpositive(g, a);", "return is_nonpositive(g, a);"),
     ("x + 0 is x", "compiler/simplify.c", "return !dtype_is_float(g->values.at[value].type.dtype) || is_nonnegative(g, value, true, 0);", "return true;"),
     ("a hinted node is dropped", "compiler/simplify.c", "if (node->hint != NULL || node->nin == 0) return -1;", "if (node->nin == 0) return -1;"))
seed(unit("compiler", "grad"),
     ("the last gradient instead of their sum", "compiler/grad.c", "if (grad[value] < 0) {", "if (true) {"))
seed(unit("compiler", "expand"),
     ("whole rows are expanded too", "compiler/expand.c", "rule->factor[f].reductions > 0 && strategy_count(strategy, f) > 0;", "rule->factor[f].reductions > 0;"),
     ("rows that are gathered", "compiler/expand.c", "strategy_follow(strategy, own, from->strategy, theirs);", "if (made->op != OP_max) strategy_follow(strategy, own, from->strategy, theirs);"),
     ("an output strategy that is lost", "compiler/expand.c", "asked[e.node[id]] = c->propagation.out_layout[id];", "if (e.first[id] == e.node[id]) asked[e.node[id]] = c->propagation.out_layout[id];"),
     ("a batch with strategies of its own", "compiler/expand.c", "if (node.micro > 0) follow_forward(e, first, old_origin, node.micro);", ""),
     ("an eval that decides anew", "compiler/eval.c", "*chosen = &c->chosen;", "*chosen = &c->graph;"))
seed(script("rows", "compiler/pcc", "Rows.test_losses_are_the_formulas_however_the_rows_are_split"),
     ("exponentials that overflow", "ir/rows.c", "int shifted = emit(graph, node, OP_sub, node->in[0], most, NULL, \"shifted\");", "int shifted = node->in[0];\n    (void)most;"))
seed(script("rows", "compiler/pcc", "Rows.test_what_is_sent_is_three_numbers_a_row"),
     ("a row gathered for its gradient", "compiler/expand.c", "return splits_rows(node->rule, &strategy);", "return false;"),
     ("a row gathered for its maximum", "compiler/expand.c", "made->strategy = strategy;", "made->strategy = made->op == OP_max ? memset(strategy->start, 0, sizeof strategy->start), strategy : strategy;"))
seed(unit("compiler", "explain"),
     ("an operator's part for the whole", "compiler/explain.c", "if (chosen->op != node->op) explain_expanded", "if (false) explain_expanded"))
seed(unit("compiler", "warn"),
     ("a part is warned of", "compiler/warn.c", "const Node *node = &c->chosen.nodes.at[n];", "const Node *node = &c->graph.nodes.at[n];"))
seed(unit("proof", "graphs"),
     ("softmax of another base", "proof/semantics.c", "y[j * numbers->stride] = fe_hash(OP_exp, fe_sub(x[j * numbers->stride], most));", "y[j * numbers->stride] = fe_hash(OP_tanh, fe_sub(x[j * numbers->stride], most));"),
     ("a row's logarithm for its sum", "ir/rows.c", "emit(graph, node, OP_log, sum, -1, NULL, \"log\")", "emit(graph, node, OP_exp, sum, -1, NULL, \"log\")"))
seed(unit("compiler", "assign"),
     ("a partial sum is let through", "compiler/assign.c", "asked != NULL ? asked : &complete", "asked != NULL ? asked : &layout"))
seed(unit("compiler", "reshard"),
     ("equal conversions twice", "compiler/reshard.c", "made->comm == kind && g->values.at[v].layout == layout) return v;", "made->comm == kind && false) return v;"),
     ("a loss as it was computed", "compiler/reshard.c", "graph_set_report(&c->spmd, i, bring(&r, at_home[node->out[k]], c->report_need[i]));", "graph_set_report(&c->spmd, i, node->out[k]);"))
seed(unit("compiler", "collectives"),
     ("collectives at -O1 too", "compiler/collectives.c", "if (c->options->optimize < 2) return true;", "if (c->options->optimize < 1) return true;"))
seed(unit("compiler", "tree"),
     ("the dearest tree", "compiler/tree.c", "if (!tree || cost_compare(sum, best) >= 0) continue;", "if (!tree || (code > 0 && cost_compare(sum, best) <= 0)) continue;"))
seed(unit("compiler", "partial"),
     ("sums passed on at any price", "compiler/partial.c", "if (tie ? cost_not_worse(after, before) : cost_better(after, before)) return true;", "return true;"),
     ("sums put off for nothing", "compiler/partial.c", "        back(flow);\n", ""))
seed(unit("compiler", "place"),
     ("a kernel moved to parts of rows", "compiler/place.c", "factor_stays_whole(&node->rule->factor[f])", "node->rule->factor[f].whole"),
     ("gradients gathered when they are large", "compiler/place.c", "if (better && cost_compare(gain, least) < 0) {", "if (false) {"))
seed(unit("compiler", "buckets"),
     ("a bucket without end", "compiler/buckets.c", "if (bucket->tensor_bytes < limit) continue;", "continue;"),
     ("all gradients kept until the end", "compiler/buckets.c", "for (; flight > most && oldest < b; oldest++) {", "for (; false && oldest < b; oldest++) {"),
     ("proof: a bucket torn apart", "proof/check.c", "if (!bucket_wait(walk, step, walk->pending[step->request])) return false;", ""))
seed(unit("compiler", "schedule"),
     ("no one waits", "compiler/schedule.c", "if (node->comm != COMM_STRIDED_SLICE) emit_all(s, n, true);", ""),
     ("a write before the last reader", "compiler/schedule.c", "if (last_reader[node->state] > key[n]) key[n] = last_reader[node->state];", "key[n] = 0;"))
seed(unit("compiler", "memory"),
     ("views that are copied", "compiler/memory.c", "if (!op_table[node->op].view) continue;", "continue;"),
     ("a source that ends at the start", "compiler/memory.c", "a->last[node->in[k]] = i;", "if (!c->order.at[i].wait) a->last[node->in[k]] = i;"),
     ("an operand overwritten that is read again", "compiler/memory.c", "a->last[from] != step ||", ""))
seed(unit("compiler", "emit"),
     ("no certificate in the bytes", "compiler/prove.c", "c->plan.certificate = c->proof.certificate;", ""),
     ("a wait for another request", "compiler/emit.c", "step.request = e->request[item.node];", "step.request = item.wait ? 0 : e->request[item.node];"))
seed(unit("compiler", "pipeline"),
     ("a merged reshape with the rule of the first", "compiler/simplify.c", "node->rule = &signature->rule;", ""),
     ("a rejected net without an exit code", "compiler/pipeline.c", "if (c->error.code == 0) c->error.code = EXIT_REJECTED;", ""))
seed(unit("compiler", "dump"),
     ("a slice from the tensor's begin", "compiler/dump.c", "begin[d] = target.begin[d] - source.begin[d];", "begin[d] = target.begin[d];"))
seed(unit("compiler", "stats"),
     ("bytes received as bytes sent", "compiler/stats.c", "kind->sent += moves.at[i].sent.max;", "kind->sent += moves.at[i].received.max * 2;"))
seed(unit("compiler", "redistribute"),
     ("JSON of the bound alone", "compiler/redistribute.c", "c->received.total, c->received.max, c->sent.total", "c->bound.total, c->bound.max, c->sent.total"))
seed(CLI,
     ("a certificate that outlives an edit", "compiler/check.c", "plan->certificate = NULL;", ""),
     ("a check that proves nothing", "compiler/check.c", "bool proved = graph_verify(&plan.graph, \"reading the plan\", &error) && proof_check(&plan, &options->proof, &proof, &error) && proof_header(&plan, &header, &error);",
      "bool proved = true;"),
     ("a plan that is not proved", "compiler/prove.c", "if (!c->options->prove) return true;", "return true;"))
seed(DUMPS,
     ("another rank's slice", "compiler/dump.c", "layout_box(to->layout, &to->type.shape, v->rank, &target);", "layout_box(to->layout, &to->type.shape, 0 * v->rank, &target);"),
     ("an AllReduce that is not there", "strategies/redistribute.c", "conversion_step(conversion, COMM_ALL_REDUCE, &next);\n        at = next;", "conversion_step(conversion, COMM_EXCHANGE, &next);\n        at = next;"),
     ("another way to the same plan", "compiler/schedule.c", "enum { WINDOW = 8 };", "enum { WINDOW = 2 };"))

# ---------------------------------------------------------------- proof
seed(unit("ir", "plan"),
     ("a certificate of another text", "ir/plan.c", "if (plan->certificate_bound && of != actual && !(flags & PLAN_IGNORE_CHECKSUM))", "if (false)"))
seed(unit("ir", "npy"),
     ("a type of numpy's taken for another", "ir/npy.c", "{\"i2\", I32}", "{\"i2\", I64}"))
seed(script("consts", "runtime/prun", "Consts.test_are_in_no_checkpoint_and_read_again"),
     ("a const in a checkpoint", "runtime/index.c", "return state->trainable || (all_states && !state_is_const(state));", "return state->trainable || all_states;"))
seed(script("consts", "runtime/prun", "Consts.test_that_do_not_fit_are_errors_that_say_where"),
     ("a const's numbers that do not fit", "runtime/state.c", "bool fits = fits_type(data[i], state->type.dtype);", "bool fits = true;"),
     ("a const that is no index", "runtime/state.c", "const IndexRange range = range_of(graph, state);", "const IndexRange range = {0};"))
seed(unit("proof", "settings"),
     ("proof: another optimizer than the header's", "proof/settings.c", "    if (node->op != update_op[settings->optimizer])\n", "    if (false)\n"),
     ("proof: another rate than the header's", "proof/settings.c", "if (a >= 0 && node->attr[a].f != said[i].number)", "if (false)"),
     ("proof: one parameter with a norm of its own", "proof/settings.c", "if (node->attr[op_attr(OP_clip, \"norm\")].f != clip)", "if (nclips == 1 && node->attr[op_attr(OP_clip, \"norm\")].f != clip)"),
     ("proof: a report that nobody knows", "proof/settings.c", "if (k == NKNOWN) return differ(", "if (k == NKNOWN) continue;\n        if (false) return differ("),
     ("proof: an eval that never ends", "proof/settings.c", "if (settings->data != DATA_FILES && settings->steps == 0 && graph->inputs.n > 0)", "if (false)"),
     ("proof: a slot of another parameter", "proof/settings.c", "if (s->parameter != parameter)", "if (false)"),
     ("proof: a step with fewer batches than it says", "proof/settings.c", "if (n != k) return differ(", "if (false) return differ("),
     ("proof: a mean of another number of batches", "proof/settings.c", "return !mean || differ(", "return true || differ("),
     ("proof: a bucket over its limit", "proof/settings.c", "if (members > 1 && sum - most >= graph->settings.bucket_bytes)", "if (false)"))
seed(unit("proof", "layout"),
     ("groups of a reduction that are not kept apart", "ir/box.c", "if ((kind != COMM_ALL_REDUCE && kind != COMM_REDUCE_SCATTER) || !agree) return;", "if (kind < NCOMMS || !agree) return;"),
     ("holder differs in a summed digit", "ir/box.c", "number_of(m->summed, m->nsummed, term) - only(m->summed, m->nsummed, at);", "number_of(m->summed, m->nsummed, term);"),
     ("holder of another part", "ir/box.c", "piece.from = holder(m, rank, parts->part, piece.term);", "piece.from = holder(m, rank, parts->part / 2, piece.term);"),
     ("owners: all needers, not those that hold a term", "ir/box.c", "        if (in_target && in_source && digit_of(d, rank) != digit_of(d, part)) {", "        if (in_target || in_source) {"),
     ("owners: shares in another order", "ir/box.c", "order_rank(m->to_order, ranks_at(&own, i));", "order_rank(m->to_order, ranks_at(&own, own.count - 1 - i));"),
     ("group in another order", "ir/box.c", "        members[i] = leader + number_of(digits, n, i);", "        members[i] = leader + number_of(digits, n, count - 1 - i);"),
     ("a sender skips a receiver", "ir/box.c", "if (receiver == rank ||", "if (receiver <= rank ||"),
     ("an uneven boundary", "ir/box.c", "(part < rest ? part : rest);", "(part < rest ? part : 0);"),
     ("the last parts one longer", "ir/box.c", "*end = *begin + each + (part < rest);", "*end = *begin + each + (part >= parts - rest);"),
     ("a piece outside its box", "ir/box.c", "if (end > p->within.end[dim]) end =", "if (end > p->within.end[dim] + 1) end ="),
     ("proof: an own boundary", "proof/layout.c", "int64_t b = v <= longer ?", "int64_t b = v < longer - 1 ?"),
     ("proof: sets that overlap", "proof/layout.c", "if (at < set->n && (high > set->low[at] || set->low[at] % high)) return false;", ""),
     ("proof: any layouts are gathered", "proof/layout.c", "ok = !removed->n && up; break;", "ok = !removed->n; break;"),
     ("proof: a target that owes more", "proof/layout.c", "|| !set_subtract(&a, &b, &rest)) {", "|| (set_subtract(&a, &b, &rest), false)) {"))
seed(unit("proof", "operators"),
     ("proof: any partial operand", "proof/operators.c", "if (!legal) return fail(", "if (false) return fail("),
     ("proof: a product is linear in both at once", "proof/operators.c", "(letters->pass == PASS_ONE && npartial == 1)", "letters->pass == PASS_ONE"),
     ("proof: sums over other digits", "proof/operators.c", "if (!set_equal(&owed[i], &owed[which])) return", "if (false) return"),
     ("proof: a maximum for a sum", "proof/operators.c", "if (r != REDUCE_SUM && r != (int)letters->owes && layout_count(out[k], out[k]->ndim + r))", "if (false)"),
     ("proof: a repeated dimension that is split", "proof/operators.c", "if (layout_count(layout, d)) return fail(why, n, \"a dimension that must be whole is split\");", ""),
     ("proof: one digit for two indices", "proof/operators.c", "if (!set_add_list(&all, layout, d)) return", "if (set_add_list(&all, layout, d), false) return"),
     ("proof: a reshape of any digits", "proof/operators.c", "if (ni != nj || memcmp(", "if (false && memcmp("))
seed(unit("proof", "check"),
     ("proof: steps twice", "proof/check.c", "if (walk->defined[i] != NEVER) return reject(", "if (false) return reject("),
     ("proof: overlapping values", "proof/memory.c", "if (at < nlive && live[at].begin < range.end) {", "if (false) {"),
     ("proof: in place everywhere", "proof/memory.c", "if (!(in_place[i] && same && last[other] == step)) {", "if (!same) {"),
     ("proof: a transpose in its operand's place", "proof/check.c", "(there && letters.flat)", "there"),
     ("proof: any result is a view", "proof/check.c", "if (step->nin != 1 || step->nout != 1 || !letters->view) return false;", "if (step->nin != 1 || step->nout != 1) return false;"),
     ("proof: a view by ranks without a slice", "proof/check.c", "has_slices(result->layout, to) && ", ""),
     ("proof: a view of another leaf", "proof/check.c", "if (operand->place != result->place || operand->at != result->at || operand->version != result->version) return false;", ""),
     ("proof: the old version after its end", "proof/check.c", "if (instance->version == 0 && overwritten >= 0) return", "if (false) return"),
     ("proof: sources need not last", "proof/check.c", "if (!use(walk, start->in[0], walk->step)) return false;", ""),
     ("proof: reads before the wait", "proof/check.c", "if (walk->readable[i] >= walk->step) return", "if (walk->defined[i] >= walk->step) return"),
     ("proof: requests without a wait", "proof/check.c", "if (walk->pending[r] >= 0) return", "if (false) return"),
     ("proof: another operand", "proof/check.c", "if (instance->value != node->in[k]) return", "if (false) return"),
     ("proof: conversions unseen", "proof/check.c", "if (shown_before(shown, step->comm, from->layout, to->layout, &alike)) return true;", "return true;"),
     ("proof: leaves anywhere", "proof/check.c", "if (node->op != OP_input || node->state != instance->at) return", "if (false) return"),
     ("proof: a write of another value", "proof/check.c", "node->state != step->state || node->in[0] != instance->value) return", "node->state != step->state) return"))

# ---------------------------------------------------------------- what the proof must refuse, while pcc compiles
seed(PROVED,
     ("proved: a holder that agrees in nothing", "ir/box.c", "    at += part - only(m->source, m->nsource, at);\n    at += number_of(m->summed", "    at = part;\n    at += number_of(m->summed"),
     ("proved: a holder of the next part", "ir/box.c", "    at += part - only(m->source, m->nsource, at);\n    at += number_of(m->summed", "    (void)part;\n    at += number_of(m->summed"),
     ("proved: one term twice", "ir/box.c", "piece.from = holder(m, rank, parts->part, piece.term);", "piece.from = holder(m, rank, parts->part, piece.term ? piece.term - 1 : 0);"),
     ("proved: owners that hold no term", "ir/box.c", "if (count > 0) *ranks = (Ranks){.count = count, .list = m->list};\n        return;\n    }\n    *ranks = (Ranks){0};", "if (count > 0) *ranks = (Ranks){.count = count, .list = m->list};\n        return;\n    }\n    needers(m, rank, ranks);\n    if (part >= 0) return;"),
     ("proved: owners in the other order", "ir/box.c", "piece.from = order_rank(m->to_order, ranks_at(&own, i));", "piece.from = order_rank(m->to_order, ranks_at(&own, own.count - 1 - i));"),
     ("proved: a group in the other order", "ir/box.c", "members[i] = leader + number_of(digits, n, i);", "members[i] = leader + number_of(digits, n, count - 1 - i);"),
     ("proved: an uneven boundary", "ir/box.c", "*begin += part * each + (part < rest ? part : rest);", "*begin += part * each + (part < rest ? part : rest - (rest > 1));"),
     ("proved: the longer parts last", "ir/box.c", "*begin += part * each + (part < rest ? part : rest);\n    *end = *begin + each + (part < rest);",
      "*begin += part * each + (part > parts - rest ? part - (parts - rest) : 0);\n    *end = *begin + each + (part >= parts - rest);"),
     ("proved: groups that are not kept apart", "ir/box.c", "void comm_layouts(CommKind kind, int nranks, Layout *from, Layout *to) {", "void comm_layouts(CommKind kind, int nranks, Layout *from, Layout *to) {\n    kind = COMM_EXCHANGE;"))
seed(PROVED,
     ("proved: a sum over a superset of the digits", "strategies/redistribute.c", "conversion_step(conversion, COMM_ALL_REDUCE, &next);\n        at = next;\n    }\n    for (int d = 0; d < shape->ndim; d++) {\n        Digit common",
      "Layout more = next;\n        with_list(&more, 0, layout_list(&more, 0), layout_count(&more, 0) - (layout_count(&more, 0) > 0), &next);\n        conversion_step(conversion, COMM_ALL_REDUCE, &next);\n        at = next;\n    }\n    for (int d = 0; d < shape->ndim; d++) {\n        Digit common"),
     ("proved: a reduction called a gather", "strategies/redistribute.c", "conversion_step(conversion, COMM_ALL_REDUCE, &next);\n        at = next;\n    }\n    for (int d = 0; d < shape->ndim; d++) {\n        Digit common", "conversion_step(conversion, COMM_ALL_GATHER, &next);\n        at = next;\n    }\n    for (int d = 0; d < shape->ndim; d++) {\n        Digit common"),
     ("proved: an all_to_all called a gather", "strategies/redistribute.c", "*kind = COMM_ALL_TO_ALL;", "*kind = COMM_ALL_GATHER;"),
     ("proved: what moves is a slice", "strategies/redistribute.c", "if (bound->total == 0) {", "if (bound->max < shape->dim[0]) {"))
seed(PROVED,
     ("proved: a product's rows for its columns", "ir/shapes.c", "rule->in[1][dim_kb] = (int8_t)fk;\n    rule->in[1][dim_n] = (int8_t)fn;", "rule->in[1][dim_kb] = (int8_t)(ka == n && nbatch == 0 ? fn : fk);\n    rule->in[1][dim_n] = (int8_t)(ka == n && nbatch == 0 ? fk : fn);"),
     ("proved: a transposition's letters", "ir/shapes.c", "add_result_dim(rule, (int)from, in[0].shape.dim[from]);", "add_result_dim(rule, in[0].shape.dim[0] == in[0].shape.dim[ndim - 1] ? ndim - 1 - (int)from : (int)from, in[0].shape.dim[from]);"),
     ("proved: a reshape that need not divide", "ir/shapes.c", "rule->factor[f].divides = !single;", "rule->factor[f].divides = false;"),
     ("proved: a bias on every rank of a sum", "ir/ops.def", "OP(add,      .title = \"Add\", .op_class = OP_CLASS_USER, .ins = \"a, b\", .dtypes = DTYPES_NUMBER, .letters = \"..., ...->...\", .linear = LINEAR_JOINT",
      "OP(add,      .title = \"Add\", .op_class = OP_CLASS_USER, .ins = \"a, b\", .dtypes = DTYPES_NUMBER, .letters = \"..., ...->...\", .linear = LINEAR_EACH", "ir/rule.c"),
     ("proved: a product of two sums", "ir/ops.def", "OP(mul,      .title = \"Mul\", .op_class = OP_CLASS_USER, .ins = \"a, b\", .dtypes = DTYPES_NUMBER, .letters = \"..., ...->...\", .linear = LINEAR_EACH",
      "OP(mul,      .title = \"Mul\", .op_class = OP_CLASS_USER, .ins = \"a, b\", .dtypes = DTYPES_NUMBER, .letters = \"..., ...->...\", .linear = LINEAR_JOINT", "ir/rule.c"),
     ("proved: squares of terms", "ir/ops.def", "OP(square,   .title = \"Square\", .op_class = OP_CLASS_USER, .ins = \"x\", .dtypes = DTYPES_NUMBER, .letters = \"...->...\", .linear = LINEAR_NONE",
      "OP(square,   .title = \"Square\", .op_class = OP_CLASS_USER, .ins = \"x\", .dtypes = DTYPES_NUMBER, .letters = \"...->...\", .linear = LINEAR_JOINT", "ir/rule.c"),
     ("proved: a contraction that owes no sum", "ir/graph.c", "if (strategy_count(strategy, f) > 0 && rule_contracted(node->rule, node->nout, f))", "if (false)"),
     ("proved: a partial operand let through", "compiler/reshard.c", "if (from == to) return value;", "if (from == to || layout_is_partial(from)) return value;"),
     ("proved: a step's results stay complete", "compiler/partial.c", "flow->layout[node->out[k]] = pass->layout[k];", ""),
     ("proved: a conversion from a neighbour's layout", "compiler/collectives.c", "target->parent < 0 ? c->flow->layout[root] :", "target->parent < 0 ? target->layout :"),
     ("proved: a target made from another branch", "compiler/collectives.c", "if (targets->at[i].layout == layout) return make(r, root, &wanted[root], i);", "return make(r, root, &wanted[root], 0);"))
seed(PROVED,
     ("proved: no one waits", "compiler/schedule.c", "if (node->comm != COMM_STRIDED_SLICE) emit_all(s, n, true);", ""),
     ("proved: a source that ends at the start", "compiler/memory.c", "a->last[node->in[k]] = i;", "if (!c->order.at[i].wait) a->last[node->in[k]] = i;"),
     ("proved: an operand overwritten that is read again", "compiler/memory.c", "a->last[from] != step ||", ""))
seed(PROVED,
     ("proved: x / 2 is x", "compiler/simplify.c", "keeps_a && is_constant(g, b, 1)) return a;", "keeps_a && (is_constant(g, b, 1) || is_constant(g, b, 2))) return a;"),
     ("proved: 2 x is x", "compiler/simplify.c", "if (node->op == OP_mul && keeps_b && is_constant(g, a, 1)) return b;", "if (node->op == OP_mul && keeps_b && is_constant(g, a, 2)) return b;"),
     ("proved: any transpositions are inverse", "compiler/simplify.c", "if (permutation(inner, ndim, permutation(node, ndim, i)) != i) return -1;", "(void)permutation(inner, ndim, i);"),
     ("proved: -x is x", "compiler/simplify.c", "if (inner->op != node->op || inner->hint != NULL) return -1;", "if (node->op == OP_neg) return node->in[0];\n    if (inner->op != node->op || inner->hint != NULL) return -1;"),
     ("proved: a row's gradient without its sum", "ir/rows.c", "OP_sub, dy, PART_OUT, sum, PART_ROW, PART_OUT, NULL, \"sub\"", "OP_add, dy, PART_OUT, sum, PART_ROW, PART_OUT, NULL, \"sub\""),
     ("proved: a row's part of the sum", "ir/rows.c", "OP_div, powers, sum, NULL, \"div\"", "OP_mul, powers, sum, NULL, \"div\""),
     ("proved: a row's sum for its maximum", "ir/rows.c", "emit(graph, node, OP_max, node->in[0], -1, row, \"max\")", "emit(graph, node, OP_sum, node->in[0], -1, row, \"max\")"),
     ("proved: a square that is a sum", "ir/adjoint.c", "int square = graph_emit(graph, OP_mul,", "int square = graph_emit(graph, OP_add,"))
seed(PROVED,
     ("proved: the last gradient instead of their sum", "compiler/grad.c", "if (grad[value] < 0) {\n        grad[value] = dy;", "if (true) {\n        grad[value] = dy;"),
     ("proved: a dropped adjoint", "compiler/grad.c", "if (dx[i] >= 0 && grads->active[node.in[i]]) accumulate", "if (dx[i] >= 0 && grads->active[node.in[i]] && !(i == 1 && node.op == OP_sub)) accumulate"),
     ("proved: products forgotten where there are others", "compiler/grad.c", "if (others >= 0) accumulate(g, grads->sum, value, others);", ""),
     ("proved: the gradient of 2 losses", "compiler/grad.c", "g->values.at[g->loss].type, NULL, 1, \"d_loss\"", "g->values.at[g->loss].type, NULL, 2, \"d_loss\""),
     ("proved: a product's gradient transposed", "ir/adjoint.c", "int value = graph_emit_gradient(graph, node, OP_einsum, in, part, 2, complete ? wanted : PART_NONE, attr, name);",
      "if (dy_first && other_type->shape.ndim == 2 && other_type->shape.dim[0] == other_type->shape.dim[1]) {\n        char *letters = (char *)attr[0].text, letter = letters[3];\n"
      "        letters[3] = letters[4], letters[4] = letter;\n        part[0] = part[1] = PART_NONE;\n    }\n    int value = graph_emit_gradient(graph, node, OP_einsum, in, part, 2, complete ? wanted : PART_NONE, attr, name);"),
     ("proved: a transpose that is its own inverse", "ir/adjoint.c", "attr[0].ints[perm->ints[d] < 0 ? perm->ints[d] + perm->n : perm->ints[d]] = d;\n    dx[0] = emit1(graph, node, OP_transpose, dy[0], PART_OUT, 0,",
      "attr[0].ints[d] = perm->ints[d];\n    dx[0] = emit1(graph, node, OP_transpose, dy[0], PART_NONE, PART_NONE,"),
     ("proved: a mean's gradient without its count", "ir/adjoint.c", "adjoint_of_reduction(graph, node, OP_mean_grad, dy[0]);", "adjoint_of_reduction(graph, node, OP_sum_grad, dy[0]);"),
     ("proved: a quotient's gradient without a factor", "ir/adjoint.c", "int product = emit2(graph, node, OP_mul, scaled, PART_OUT, y, PART_OUT, PART_OUT, grad_name(graph, node, 1));", "int product = scaled;"),
     ("proved: a quotient's gradient of the wrong sign", "ir/adjoint.c", "dx[1] = emit1(graph, node, OP_neg, unbroadcast(graph, node, product, 1), 1, 1, NULL, grad_name(graph, node, 1));", "dx[1] = unbroadcast(graph, node, product, 1);"),
     ("proved: the gradient of a difference", "ir/adjoint.c", "dx[1] = emit1(graph, node, OP_neg, sum, 1, 1, NULL, grad_name(graph, node, 1));", "dx[1] = sum;"),
     ("proved: exp has the gradient of relu", "ir/adjoint.c", "dx[0] = adjoint_of_result(graph, node, OP_mul, dy[0]);", "dx[0] = adjoint_of_result(graph, node, OP_relu_grad, dy[0]);"),
     ("proved: relu has the gradient of tanh", "ir/adjoint.c", "dx[0] = adjoint_of_result(graph, node, OP_relu_grad, dy[0]);", "dx[0] = adjoint_of_result(graph, node, OP_tanh_grad, dy[0]);"),
     ("proved: parts joined in another order", "ir/adjoint.c", "in[o] = dy[o] >= 0 ? dy[o] :", "in[forward.nout - 1 - o] = dy[o] >= 0 ? dy[o] :"))
seed(MUTANTS,
     ("void: reads before the wait", "proof/check.c", "if (walk->readable[i] >= walk->step) return", "if (walk->defined[i] >= walk->step) return"),
     ("void: another operand", "proof/check.c", "if (instance->value != node->in[k]) return", "if (false) return"),
     ("void: another result", "proof/check.c", "if (instance->value != node->out[k]) return", "if (false) return"),
     ("void: leaves anywhere", "proof/check.c", "if (node->op != OP_input || node->state != instance->at) return", "if (false) return"),
     ("void: other states", "proof/check.c", "if (node->state != instance->at || node->version != instance->version)", "if (false)"),
     ("void: another value sent", "proof/check.c", "if (from->value != to->value) return", "if (false) return"),
     ("void: conversions unseen", "proof/check.c", "if (shown_before(shown, step->comm, from->layout, to->layout, &alike)) return true;", "return true;"),
     ("void: a loss that is not whole", "proof/check.c", "if (layout_is_partial(own->layout)) return reject(", "if (false) return reject("),
     ("void: another loss", "proof/check.c", "if (own->value != value) return reject(walk, \"reports", "if (false) return reject(walk, \"reports"),
     ("void: overlapping values", "proof/memory.c", "if (at < nlive && live[at].begin < range.end) {", "if (false) {"),
     ("void: any layouts of a kernel", "proof/operators.c", "} else if (!own_list_same(where[letter], list[letter], layout, d, letters->size[letter])) {", "} else if (false) {"),
     ("void: any sums of a kernel", "proof/operators.c", "if (!set_equal(&result, &partial)) {", "if (false) {"),
     ("void: any pattern of a collective", "proof/layout.c", "    if (!ok) snprintf(why, n, \"the layouts are not those of %s\"", "    ok = true;\n    if (!ok) snprintf(why, n, \"the layouts are not those of %s\""))

# ---------------------------------------------------------------- runtime
seed(unit("runtime", "kernels"),
     ("a product that forgets what it has added up", "runtime/cpu/einsum.c", "product->blas->dgemm(CblasRowMajor, a_order, b_order, (int)m, (int)n, (int)g->k, 1, a, lda, b, ldb, i > 0,",
      "product->blas->dgemm(CblasRowMajor, a_order, b_order, (int)m, (int)n, (int)g->k, 1, a, lda, b, ldb, 0,"),
     ("a small product that forgets what it has added up", "runtime/cpu/einsum.c", "tiny_f64(g, m, n, a, b, i > 0, out);", "tiny_f64(g, m, n, a, b, false, out);"),
     ("a wrong leading dimension", "runtime/product.c", "rows == 1 || row_stride < columns ? columns : row_stride}", "columns}"),
     ("no plain loop where BLAS cannot", "runtime/cpu/einsum.c", "case PRODUCT_PLAIN:\n        return reference_einsum(call, error);", "case PRODUCT_PLAIN:\n        return true;"),
     ("momentum steps by the gradient alone", "runtime/cpu/update.c", "new_w[i] = w[i] - lr * slot;", "new_w[i] = w[i] - lr * g[i];"),
     ("the parameter moves before the slot", "runtime/cpu/update.c", "const T slot = momentum * v[i] + (decay == 0 ? g[i] : g[i] + decay * w[i]);", "const T slot = v[i];"),
     ("a mean over replicas that is not divided in place", "runtime/cpu/reduce.c", "if (one && !call->attr[0].i) return true;", "if (one) return true;"),
     ("f32 sums added in f32", "runtime/cpu/reduce.c", "ADD_ROW(f32, float, double)", "ADD_ROW(f32, float, float)"),
     ("a tile read the right way round", "runtime/cpu/move.c", "in[i + j * in_stride];", "in[j + i * in_stride];"))
seed(OPS,
     ("a mean by the local count", "runtime/nest.c", "*reduced *= (double)in->global.dim[d];", "*reduced *= (double)in->local.dim[d];"),
     ("a mean's gradient by the local count", "runtime/cpu/move.c", "(double)shape_elements(&out->global) / (double)shape_elements(&dy->global)",
      "(double)shape_elements(&out->local) / (double)shape_elements(&dy->local)"),
     ("replicas share the first one's slice", "runtime/load.c", "slice * shape_elements(&operand->local)", "0 * slice * shape_elements(&operand->local)"),
     ("a slice from the operand's first element", "runtime/cut.c", "at[d] = out->begin[d] - in->begin[d];", "at[d] = 0;"),
     ("gradients summed over sources that are copies", "ir/graph.c", "if (node->origin_factor[f] >= 0) strategy_follow(strategy, f, origin, node->origin_factor[f]);", "(void)origin;"),
     ("a partial operand let through", "compiler/reshard.c", "if (from == to) return value;", "if (from == to || layout_is_partial(from)) return value;"))
seed(DIFFERENCES,
     ("a gradient that forgets the chain rule", "runtime/cpu/elements.c", "REAL2(tanh_grad, NOTHING, y *(1 - x * x), y *(1 - x * x))", "REAL2(tanh_grad, NOTHING, y *(1 - x * x), y *(1 - x))"),
     ("a quotient's second gradient without a factor", "ir/adjoint.c", "int product = emit2(graph, node, OP_mul, scaled, PART_OUT, y, PART_OUT, PART_OUT, grad_name(graph, node, 1));", "int product = scaled;"),
     ("exp has the gradient of relu", "ir/adjoint.c", "dx[0] = adjoint_of_result(graph, node, OP_mul, dy[0]);", "dx[0] = adjoint_of_result(graph, node, OP_relu_grad, dy[0]);"))
seed(unit("runtime", "data"),
     ("rows that do not repeat", "runtime/data/source.c", "index[d] % data->rows[input]", "(index[d] ? data->rows[input] - 1 : 0)"),
     ("generator words in the other order", "runtime/data/random.c", "(a * 67108864.0 + b)", "(b * 67108864.0 + a)"),
     ("MT19937 off by one", "runtime/data/random.c", "MT_SHIFT = 397", "MT_SHIFT = 396"))
seed(unit("runtime", "state"),
     ("initial values by the place in the box", "runtime/state.c", "fill_run(fill, first, runs.length);", "fill_run(fill, 0, runs.length);"),
     ("parameters that all begin alike", "runtime/data/random.c", "for (; *name; name++)\n        hash =", "for (; *name && hash == 0; name++)\n        hash ="))
seed(unit("runtime", "print"),
     ("exponent form too late", "runtime/print.c", "exponent < -4", "exponent < -5"))
seed(unit("runtime", "threads", "threads/products"),
     ("tiles by the number of threads", "runtime/cpu/einsum.c", "product_run(&product, call_pool(call));",
      "product.rows = 1 + product.rows / pool_threads(call_pool(call));\n    product_run(&product, call_pool(call));"))
seed(unit("runtime", "limits"),
     ("quotas of the group itself alone", "runtime/limits.c", "if (!slash) return;", "return;"),
     ("a part of a core is none", "runtime/limits.c", "return whole < cores ? whole + 1 : whole;", "return whole;"))
seed(unit("runtime", "pool"),
     ("a loop's last part too short", "runtime/pool.c", "pool->fn(pool->context, begin, begin + size + (part < rest));", "pool->fn(pool->context, begin, begin + size);"))
seed(unit("runtime", "exec"),
     ("a deadlock that nobody notices", "runtime/exec.c", "if (ndone < n && !moved) return report_deadlock(executor, error);", "if (ndone < n && !moved) return true;"))
seed(INTEGERS,
     ("integers that stop at the ends between ranks", "runtime/comm/piece.c", "#define ADD_WRAPPING(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))",
      "#define ADD_WRAPPING(a, b) ((int32_t)((int64_t)(a) + (b) > INT32_MAX ? INT32_MAX : (int64_t)(a) + (b) < INT32_MIN ? INT32_MIN : (int64_t)(a) + (b)))"),
     ("a maximum of i64 as reals", "runtime/comm/piece.c", "COMBINE(combine_i64_max, int64_t, MAXIMUM)", "#define ROUNDED(a, b) ((double)(a) >= (double)(b) ? (a) : (b))\nCOMBINE(combine_i64_max, int64_t, ROUNDED)"))
seed(unit("runtime", "kernels"),
     ("i32 sums that stop", "runtime/cpu/reduce.c", "REDUCE(i32, int32_t, uint32_t, (int32_t)acc)", "REDUCE(i32, int32_t, uint32_t, (int32_t)(acc >> 31 ? INT32_MAX : acc))"),
     ("a cast to i32 that stops", "runtime/cpu/elements.c", "(int32_t)(uint32_t)(uint64_t)x", "(int32_t)(x > INT32_MAX ? INT32_MAX : x)"))
seed(unit("runtime", "verify"),
     ("--verify with a tolerance too wide", "runtime/verify.c", "double tolerance = (8 +", "double tolerance = 1e6 * (8 +"),
     ("--verify that continues its own states", "runtime/verify.c", "if (!executor_set_state(verifier->reference, verifier->state[i], moved, error)) return false;",
      "if (verifier->nsteps == 0 && !executor_set_state(verifier->reference, verifier->state[i], moved, error)) return false;"))
seed(unit("runtime", "comm_local"),
     ("bytes counted twice", "runtime/comm/local.c", "counters[peer->rank].sent_bytes += peer->moved_bytes;", "counters[peer->rank].sent_bytes += 2 * peer->moved_bytes;"),
     ("a rank that does not wait for others", "runtime/comm/local.c", "if (request->rank[r].group == rank->group && !request->rank[r].started) return COMM_PENDING;", ""),
     ("the first term twice", "runtime/comm/pull.c", "bool add = pull->add || s > 0;", "bool add = true;"))
seed(unit("runtime", "comm_piece"),
     ("a share from its run's first element", "runtime/comm/piece.c", "walk->skip = piece->first % walk->unit;", "walk->skip = 0;"),
     ("terms in pairs", "runtime/comm/piece.c", "LOOP(OP(OP(OP(a[i], b[i]), c[i]), d[i]));", "LOOP(OP(OP(a[i], b[i]), OP(c[i], d[i])));"))
seed(script("ranks", "runtime/prun", "Alike.test_options_and_variables"),
     ("options that nobody compares", "runtime/comm/same.c", "for (int i = 0; ok && !same && i < n; i++)", "for (int i = 0; ok && !same && i < 0; i++)"))
seed(script("ranks", "runtime/prun", "Orphans.test_shared_memory_of_killed_jobs_is_removed_by_the_next"),
     ("memory taken from a job that lives", "runtime/comm/stale.c", "if (marks->at.at[i].job == job && marks->at.at[i].fd < 0) return false;", ""),
     ("Open MPI's memory is left", "runtime/comm/stale.c", 'if (strncmp(name, "vader_segment.", 14) == 0) {', "if (false) {"))
seed(unit("runtime", "comm_heap"),
     ("freed blocks that do not join", "runtime/comm/heap.c", "heap_merge(heap, i - 1);", ""))
seed(unit("runtime", "checksum"),
     ("checksums that nobody compares", "runtime/checksum.c", "if (found != written) *damaged = element;", ""),
     ("a header that nobody compares", "runtime/checksum.c", "if (header != file->header_checksum) return", "if (false) return"),
     ("boxes that none of several compares", "runtime/checksum.c", "if (element % parts != part) continue;", "if (element % parts != part || part == 1) continue;"),
     ("a rank's box under another's number", "runtime/checksum.c", "number = number * layout->digit[i].size + digit_of(layout->digit[i], position);",
      "number = number + digit_of(layout->digit[i], position);"))

# ---------------------------------------------------------------- under mpirun
seed(commtest("kinds", "shared"),
     ("a slot of the use before", "runtime/comm/move.c", "request->peer[node]->at[((request->epoch & 1) * 2 +", "request->peer[node]->at[((~request->epoch & 1) * 2 +"),
     ("bytes read that are not counted", "runtime/comm/move.c", "job->counters.received_bytes += peer->moved_bytes;", ""))
seed(commtest("kinds", "messages"),
     ("bytes in messages counted twice", "runtime/comm/move.c", "job->message_bytes += p->walk.count * bytes;", "job->message_bytes += 2 * p->walk.count * bytes;"),
     ("parts of a message over each other", "runtime/comm/request.c", "Packing packing = {.transfer = sent->transfer, .message_bytes = message->bytes};",
      "Packing packing = {.transfer = sent->transfer, .message_bytes = 0};"))
seed(commtest("sweep", "messages", 4),
     ("sums in the order of arrival", "runtime/comm/piece.c", "LOOP(OP(OP(OP(a[i], b[i]), c[i]), d[i]));", "LOOP(OP(OP(a[i], b[i]), OP(c[i], d[i])));"))
seed(script("reference", "compiler/pcc", "OneFlow.test_mean_of_gradients_gives_oneflows_losses_to_the_last_digit"),
     ("gradients summed, not averaged", "frontend/express.c", ".i = lower->graph->settings.gradients_mean}", ".i = 0}"))
seed(script("reference", "runtime/prun", "Quickstart.test_losses_on_8_ranks_with_the_hint"),
     ("prun draws other data", "runtime/data/random.c", "MT_SHIFT = 397", "MT_SHIFT = 396"),
     ("prun multiplies momentum by 0", "runtime/cpu/update.c", ".momentum = attribute(call, \"momentum\"),", ".momentum = 0,"))
seed(script("samples", "runtime/prun", "Verify.test_another_momentum_makes_a_state_differ_once_there_is_velocity"),
     ("--verify looks at the loss alone", "runtime/verify.c", "for (int i = 0; i < graph->states.n; i++) {\n        const TensorType *type", "for (int i = 0; i < 0; i++) {\n        const TensorType *type"))
seed(script("samples", "runtime/prun", "Samples.test_quickstart_computes_on_all_ranks_what_it_does_on_one"),
     ("prun sends more than it says", "runtime/results.c", "return executor->comm->counters[driven].sent_bytes - executor->gathered_bytes[driven];", "return executor->comm->counters[driven].sent_bytes / 2;"))
seed(script("same", "compiler/pcc", "Same.test_every_sample_compiles_to_the_same_bytes_and_dumps_again"),
     ("an address in the plan", "compiler/emit.c", "\"mode=%s search=%s -O%d redistribution=%s%s\", mode_name[settings->mode]",
      "\"%p mode=%s search=%s -O%d redistribution=%s%s\", (void *)c, mode_name[settings->mode]"))
seed(script("same", "compiler/pcc", "Same.test_the_hash_is_of_the_net_and_not_of_ranks_strategies_or_level"),
     ("a hash of the mode", "ir/print.c", "if (!printing->net) {\n        text_printf(text, \"parallel mode=%s search=\"", "if (true) {\n        text_printf(text, \"parallel mode=%s search=\""))
seed(script("failures", "compiler/pcc", "Compiler.test_a_file_that_cannot_grow_leaves_the_old_plan_and_no_other_file"),
     ("half a file that stays", "ir/file.c", "    unlink(temporary);\n", ""))
seed(script("checksums", "runtime/prun", "Checksums.test_only_what_is_taken_has_to_be_intact"),
     ("a checkpoint that is taken as it is", "runtime/checkpoint.c", "*damaged = ok && first >= 0;", "*damaged = false;"),
     ("an optimizer's state that is taken as it is", "runtime/checkpoint.c", "ok = matches[i].tensor < 0 || checksums_compare(", "ok = matches[i].tensor < 0 || 2 * i >= n || checksums_compare("))
seed(script("weights", "runtime/prun", "Weights.test_a_transposed_matrix_is_loaded_on_any_split"),
     ("a transposed matrix that is loaded as stored", "runtime/tensors.c", "copy + (size_t)(c * rows + r) * size, size);", "copy + (size_t)(r * columns + c) * size, size);"))
seed(script("eval", "runtime/prun", "Evaluation.test_labels_are_not_needed_for_predictions"),
     ("labels that are computed with all the same", "runtime/needed.c", "if (needed[r].step[s]) vec_push(", "vec_push("),
     ("data that is asked for and not used", "runtime/data/source.c", "|| (used && !used[i])) continue;", ") continue;"))
seed(unit("compiler", "eval"),
     ("another parameter in the eval", "compiler/eval.c", "graph->nodes.at[n].state = number[graph->nodes.at[n].state];", "(void)number;"))
seed(script("checkpoints", "runtime/prun", "Checkpoints.test_overwrite_replaces_an_earlier_runs_checkpoints_with_its_first"),
     ("old checkpoints among new ones", "runtime/checkpoint.c", "|| (replace && steps[i] != now)", ""))
seed(script("weights", "runtime/prun", "Weights.test_numbered_modules_are_loaded_by_other_names"),
     ("a tensor for two parameters", "runtime/match.c", "if (*by > 0)", "if (false)"),
     ("a name that no parameter has", "runtime/match.c", "if (!renames[k].used) return", "if (false) return"))
seed(script("checksums", "runtime/prun", "Checksums.test_latest_passes_over_what_a_disk_has_changed"),
     ("a changed checkpoint ends --resume latest", "runtime/checkpoint.c", "if (damaged && !next.last) {", "if (false) {"))
seed(script("failures", "runtime/prun", "Runner.test_a_file_of_initial_values_that_does_not_fit_is_an_environment_error"),
     ("any number of initial values", "runtime/npy.c", "if ((uint64_t)size != n - header.begin)", "if (false)"),
     ("initial values of any shape", "runtime/state.c", "} else if (!shape_equal(&shape, &state->type.shape)) {", "} else if (false) {"))
seed(ABORT,
     ("a job ended in another's name", "runtime/comm/mpi.c", "ends the job with exit code %d\\n\", message, comm->process,", "ends the job with exit code %d\\n\", message, comm->process + 1,"))
seed(LATE,
     ("a late rank without a name", "runtime/comm/mpi.c", "text_printf(text, \"rank %d \", job->rank_of[node_rank]);", "text_printf(text, \"a rank \");"))
seed(script("killed", "runtime/prun", "Killed.test_a_rank_that_stops_is_named_after_the_timeout"),
     ("a stopped rank without a name", "runtime/comm/mpi.c", "text_printf(text, \"rank %d \", job->rank_of[node_rank]);", "text_printf(text, \"a rank \");"))
seed(script("commands", "runtime/prun", "Commands.test_help", "Commands.test_version"),
     ("prun without help", "runtime/main.c", "usage: prun", "use: prun"))

# ---------------------------------------------------------------- the sources themselves
seed(LAYERS,
     ("ir knows the compiler", "ir/type.c", "#include \"ir/layout.h\"", "#include \"ir/layout.h\"\n#include \"compiler/compiler.h\""),
     ("the runtime knows the compiler", "runtime/data/source.c", "#include \"runtime/data/data.h\"", "#include \"runtime/data/data.h\"\n#include \"compiler/compiler.h\""),
     ("the compiler knows the runtime", "compiler/stats.c", "#include \"compiler/compiler.h\"", "#include \"compiler/compiler.h\"\n#include \"runtime/backend.h\""),
     ("a communicator knows graphs", "runtime/comm/agree.c", "#include \"runtime/comm/comm.h\"", "#include \"ir/graph.h\"\n#include \"runtime/comm/comm.h\""),
     ("a kernel knows plans", "runtime/cut.h", "#include \"runtime/backend.h\"", "#include \"ir/plan.h\"\n#include \"runtime/backend.h\""),
     ("proof/ computes with ir/box.c", "proof/memory.c", "own_max_elements(instance->layout, &type->shape)", "layout_max_elements(instance->layout, &type->shape)"),
     ("a pass that switches over operators", "compiler/stats.c", "if (part == 0) continue;", "switch (node->op) {\n        default:\n            break;\n        }"))

# ---------------------------------------------------------------- ends of trainings, CSV
seed(script("stop", "runtime/prun", "Stop.test_the_first_operator_is_named", "Stop.test_states_stay_as_they_were_where_ranks_share_the_loss",
            "Stop.test_a_gradient_that_is_not_finite_is_found_by_the_parameter", "Stop.test_a_checkpoint_is_there_before_its_evaluation"),
     ("updates of a step whose loss is nan", "runtime/exec.c", "if (cursor->withholds && is_update(call->call.op)) {", "if (false) {"),
     ("the loss is looked at behind the updates", "runtime/exec.c", "if (cursor->guard < first || cursor->actions.at[cursor->guard].kind != ACTION_WAIT) return;", "return;"),
     ("a checkpoint of nan", "runtime/checkpoint.c", "return at < 0 || error_set(error, EXIT_MISMATCH,", "return true || error_set(error, EXIT_MISMATCH,"),
     ("an evaluation before its checkpoint", "runtime/run.c", "if (checkpoint_is_due(run, &next) && !checkpoint(run, error)) return false;",
      "if (checkpoint_is_due(run, &next) && (!evaluate(run, error) || !checkpoint(run, error))) return false;"))
seed(script("eval", "runtime/prun", "Evaluation.test_an_evaluation_behind_the_checkpoint_is_not_lost_by_a_kill"),
     ("an evaluation that a kill loses", "runtime/run.c", "return evaluation_is_due(run, at) || (evaluates_last(run) && nothing_left);", "return false;"),
     ("an evaluation twice in the metrics", "runtime/log.c", "(step == global_step && !evaluated && strstr(line, \"\\\"eval\\\": true\"))", "false"))
seed(unit("runtime", "rows"),
     ("any width of a row", "runtime/data/rows.c", "if (columns != rows->columns) {", "if (false) {"),
     ("a quote within a field opens one", "runtime/data/stream.c", "(state == BEFORE || state == CLOSED)", "true"),
     ("columns from the end one too far", "runtime/data/rows.c", "if (rows->first_column < 0) rows->first_column += rows->columns;", "if (rows->first_column < 0) rows->first_column += rows->columns - 1;"))
