"""Faults that the tests must find. Each row breaks one rule.

A row: the rule, the function where it is kept, a pattern that occurs in it once (source.py), and what replaces
the match ($0: the match, $1: what a $1 of the pattern stands for). The function may move to
another file. Where several folders have a function of that name: "runtime/cpu:NAME". A table's row is named by its macro, OP(add); a fault in one
names a function of the source file that is compiled with it.
"""
import dataclasses

from checks import CLI, DIFFERENCES, DUMPS, ERRORS, FUZZ_PLAN, INTEGERS, MUTANTS, OPS, PROVED, Check, commtest, script, unit


@dataclasses.dataclass(frozen=True)
class Fault:
    rule: str
    function: str
    pattern: str
    wrong: str
    check: Check
    reader: str = None  # a function of the source file to compile, where the fault is not in one


FAULTS = []


def seed(check, *rows):
    """Rows that one check must find."""
    FAULTS.extend(Fault(*row[:4], check, *row[4:]) for row in rows)


seed(unit("ir", "arena"),
     ("what an arena hands out is aligned", "take", "(bytes + align - 1) / align * align", "bytes + !bytes * align"))
seed(unit("ir", "gather"),
     ("a gather's places are not those that it looks along", "rule_gather", "d == axis ? rule_add_factor(rule, index->dim[d]) : rule->in[0][d]", "rule->in[0][d]"),
     ("an index has the sizes of what it indexes", "index_fits", "fits = (d == axis && !along) || index->dim[d] == rows->dim[d];", "fits = true;"),
     ("a row has no more than its elements to take the largest of", "rule_topk", "k < 1 || k > length", "k < 1"))
seed(unit("ir", "adjoint"),
     ("the gradient of sums so far is the sums from there on", "adjoint_cumsum", "!forward[REVERSE].i", "forward[REVERSE].i"))
seed(unit("ir", "box"),
     ("ranks of other values than the pin's hold nothing", "position_box", "box->nothing = !layout_has_rank(layout, position)", "box->nothing = false"),
     ("a part is sought on the ranks that it is pinned to", "parts_begin", "if (layout_is_pinned(m->from)) p->part = m->from->pin.value * m->from->pin.digit.stride;", ""))
seed(unit("ir", "layout"),
     ("layouts that are pinned to other ranks differ", "layout_equal", "!pin_equal(&a->pin, &b->pin)", "false"))
seed(unit("proof", "roles"),
     ("all roles whose ranks take part start a communication", "same_request", "if (role_has(role_of(c, r), from) || role_has(role_of(c, r), to))", "if (false)"),
     ("a request is one communication in all roles", "same_request", "role_of(c, r)->instances.at[other->in[0]].value != role_of(c, first)->instances.at[one->in[0]].value", "false"),
     ("what runs as one in a role does so in all", "same_request", "joined(c, r, request) != joined(c, first, request)", "false"),
     ("a wait goes on when all roles have started", "may_pass", "if (c->next[r] <= start_of(c, r, request)) return false;", ""),
     ("operands are on the ranks that make the result", "pins_belong", "if (layout_is_pinned(in[i]) && !pin_equal(&in[i]->pin, &out[0]->pin))", "if (false)"))
seed(unit("search", "chain"),
     ("the slowest run counts, not all together", "solve", "what == BY_CROSSING ? before + cost : fmax(before, cost)", "before + cost"),
     ("a cut holds no more beyond the limit than it must", "run_cost", "beyond > s->most_excess * ROUNDING || ", ""))
seed(unit("compiler", "tables"),
     ("a lookup is of the rank that has the table", "lookup_pin", "return rank_pin(b, g, table->state, table->stage)", "return (Pin){0}"),
     ("a rank of a stage is counted from its first one", "rank_pin", "own.value * own.digit.stride + ", ""),
     ("states on one rank are not all ranks'", "most_states", "own[state->layout->pin.value - first] +=", "own[0] +="),
     ("kernels of other ranks take no time", "is_free", "alone >= 0 && alone != s->rank", "false"))
seed(script("tables", "runtime/prun"),
     ("a rank runs no kernel whose results are elsewhere", "load_actions", "!here || fit_step", "fit_step"))
seed(unit("compiler", "stages"),
     ("a decision has the cuts of its limit", "cut_line", "b->front.decision->limit", "1"),
     ("the best pipeline is searched itself", "count_more", "search_best(k);", ""),
     ("fewer parts are tried", "try_parts", "parts_to(k, stages, parts / 2, best->chunks)", "0"),
     ("fewer parts are some that can be taken", "parts_to", "while (most > 0 && !may_take(k, stages, most, chunks))", "while (false)"),
     ("an operator without a hint goes with the one before it", "line_order", "before < own->least ? own->least : before > own->most ? own->most : before", "own->least"),
     ("an operator is not of a stage before that of what it takes", "find_within", "node->asked->stage < own->least", "false"),
     ("no stage before that of a hint runs its operator", "stage_run", "asked_at(line, first)->stage < stage", "false"),
     ("no stage behind that of a hint runs its operator", "stage_run", "asked_at(line, last)->stage > stage", "false"),
     ("stages hold no more than the memory", "cut_line", "(double)limit * nstages", "0"),
     ("of numbers of stages the fastest is taken", "better_than", "a->step_s < b->step_s", "a->step_s > b->step_s"),
     ("batches are taken in more parts as long as that is better", "try_parts", "parts = parts_from(k, stages, 2 * parts)", "parts = 0"),
     ("stages have several chunks where that is better", "try_count", "!may_take(k, stages, best.parts, more) || ", "true || "),
     ("a written stage has its last operator", "print_stages", "if (first && last != said)", "if (false)"),
     ("what is said within a call goes before what is said of it", "stage_nodes", "graph->nodes.at[n].asked == NULL && ", ""),
     ("a parameter is where its first user is", "stage_leaves", "first[node->out[0]];\n    }\n    for", "last[node->out[0]] + 1;\n    }\n    for"),
     ("as many batches are under way as there are stages behind", "first_passes", "turns->nstages - 1 - stage", "turns->nstages - stage"),
     ("interleaved begins with all chunks but the last", "first_passes", "(turns->nchunks - 1) * turns->nstages", "turns->nstages"),
     ("the last chunk goes backward first", "pass_of", "backward ? v - 1 - chunk : chunk", "chunk"),
     ("as many batches as stages go through a chunk before the next one", "pass_of", ".batch = group * p + within % together", ".batch = group * p + within / v"),
     ("stages have parts in turn", "stage_pin", "(stage - 1) % nstages", "(stage - 1) / (settings_parts(&g->settings) / nstages)"),
     ("sends are joined where that is faster", "is_faster", "fmax(0, end - use_s) + (1 - machine->overlap) * together < apart", "true"),
     ("a role has the steps of its ranks", "takes_part", "return role_holds(b, node->op == OP_write ? node->in[0] : node->out[0]);", "return true;"),
     ("a communication of two stages begins when both have started it", "waits_for_others", "shared->nstarted < shared->nroles", "false"))
seed(unit("proof", "operators"),
     ("the line of a sum, and the row of the largest, is whole", "line_letters", "if (d != axis) letters->in[0][d] =", "letters->in[0][d] ="),
     ("the axis of a gather is another letter than its places", "index_letters", "if (d == axis) narrow_map[d]", "if (d < 0) narrow_map[d]"))
seed(OPS,
     ("a gather takes of this rank's part what is in it", "gather_rows", "index_within(run->index, i, run->begin, run->length)", "index_within(run->index, i, 0, run->length)"))
seed(unit("ir", "type"),
     ("a checked product overflows exactly where it does not fit", "mul_checked", "a > INT64_MAX / b", "a - 1 > INT64_MAX / b"))
seed(unit("ir", "layout"),
     ("layouts that are partial over other digits differ", "layout_same", "if (!digit_equal(da, db)) return false;", ""),
     ("digits merge only where every box stays what it is", "append_merged", "if (!same) break", "(void)same"),
     ("digits that overlap in part are not compatible", "digits_compatible",
      "b.stride % digit_top(a) == 0 || a.stride % digit_top(b) == 0", "b.stride >= digit_top(a) || a.stride >= digit_top(b)"))
seed(unit("ir", "box"),
     ("a group's leader has 0 in the group's digits", "group_leader", "rank - only(digits, n, rank)", "rank"),
     ("of uneven parts the first are the longer", "divide", "part < rest ? part : rest", "part > parts - rest ? part - (parts - rest) : 0"),
     ("an intersection of no elements is empty", "box_intersect", "result->end[i] <= result->begin[i]", "result->end[i] < result->begin[i]"))
seed(unit("ir", "rule"),
     ("only some operators broadcast their operands", "rule_infer", "row->op_class == OP_CLASS_USER || row->broadcasts", "true"),
     ("a hidden dimension in front moves the others by one", "rule_hide", "map[d - 1] < 0 ? -1 : map[d - 1] + 1", "map[d - 1]"),
     ("a quotient broadcasts two operands", "ir:BINARY_OP",
      '"a, b", .dtypes = ELEMENT_DTYPES_##types, .letters = "..., ...->..."', '"a", .dtypes = ELEMENT_DTYPES_##types, .letters = "...->..."', "rule_infer"))
seed(unit("ir", "shapes"),
     ("rows of a product come from its first operand", "rule_matmul",
      "add_result_dim(rule, fm, m); add_result_dim(rule, fn, n)", "add_result_dim(rule, fn, n); add_result_dim(rule, fm, m)"),
     ("a reshape splits only by what divides its factors", "rule_reshape",
      "rule->factor[f].divides = !single", "rule->factor[f].divides = false"),
     ("a negative axis counts from the end", "axes_read", "axes->ints[i] + ndim", "-1 - axes->ints[i]"))
seed(OPS,
     ("concat copies what lies in this rank's part", "joint_common", "parts[i].global.dim[axis]", "parts[i].local.dim[axis]"),
     ("a slice begins where this rank's part of it does", "slice_begin", "slice->box.begin[d] + first - whole->box.begin[d]", "first"),
     ("a convolution in groups is split by whole groups", "conv_factors", "rule->factor[of_x].divides = true", "rule->factor[of_x].divides = false"),
     ("kernels of convolutions and pools stay whole", "whole_factor", "rule->factor[f].whole = true", "(void)f"))
seed(unit("proof", "adjoints"),
     ("a maximum of a window moves as its element", "at_maxima", "to[i] = from[plane * seen + place_at(&held->x, row, column)]", "to[i] = from[plane * seen]"))
seed(PROVED,
     ("a halo reaches as far as the last tap", "need_halo", "window_extent(window) - 1 - window->low", "window_extent(window) - 2 - window->low"),
     ("a halo begins at the first tap", "need_halo", "window->stride, window->low,", "window->stride, window->low - 1,"),
     ("the windows that see a part are those up to its end", "halo_range", "last + halo->low", "last"),
     ("a maximum's gradient needs all that its windows see", "pool_grad_rule", "i == dy ? HALO_SEEN : HALO_AROUND", "HALO_SEEN"),
     ("what is read through windows has halos", "strategy_in_layout", "layout->halo[need->at] = need->halo", "layout->halo[need->at] = (Halo){0}"),
     ("halos are of the windows' parts, not of the elements'", "dim_range", "halo ? halo->of : size", "size"))
seed(unit("ir", "box"),
     ("windows are counted from the first one", "halo_range", "if (first < 0) first = 0;\n    }", "}"),
     ("with halos the largest box is looked for", "longest_range", "layout_halo(layout, dim) ? layout_split(layout, dim) : 1", "1"))
seed(unit("ir", "layout"),
     ("a halo that changes a part is not idle", "halo_is_idle", "end - begin != own_end - own_begin || ", ""))
seed(unit("proof", "layout"),
     ("a slice goes to some of the ranks that have what it is of", "pin_within", "rank / b->digit.stride % b->digit.size == b->value", "false"),
     ("what has halos is no source", "conversion_check", "if (own_halos(from))", "if (false)"))
seed(unit("proof", "operators"),
     ("a rank has all that its windows see", "windows_check", "if (there) continue;", "continue;"),
     ("an operand's part follows from that of the windows", "windows_check", "if (!set_subtract(&letter, &own, &rest))", "if (false)"),
     ("a part of what is padded needs what is within it", "cut_reach", "begin += pads ? -first : first;", "begin += pads ? 1 - first : first;"),
     ("a part of a slice needs up to its last element", "cut_reach", "end += pads ? -first : first;", "end += pads ? -first - 1 : first - 1;"),
     ("what lies in a part of what is joined counts the operands before it", "cut_reach", "k < operand", "k < 0"),
     ("nothing is made with halos", "halos_belong", "if (own_halos(out[k]))", "if (false)"))
seed(unit("ir", "adjoint"),
     ("the gradient of a difference's second operand is negated", "adjoint_sub",
      "emit1(graph, node, OP_neg, sum, 1, 1, NULL, grad_name(graph, node, 1))", "sum"),
     ("the gradient of a transpose is the inverse permutation", "adjoint_transpose",
      "attr[0].ints[perm->ints[d] < 0 ? perm->ints[d] + perm->n : perm->ints[d]] = d", "attr[0].ints[d] = perm->ints[d]"),
     ("a minimum's gradient goes to the smaller operand", "adjoint_of_larger", "turned ? other : i", "i"),
     ("a gradient's factors are those of its operator", "map_part", "theirs[d];", "own[d];"))
seed(unit("ir", "softmax"),
     ("softmax's gradient subtracts the sum of products", "split_softmax_grad", "OP_sum, product", "OP_sum, dy"),
     ("a row's own number is not split as its columns are", "reduction_along", "true, .i = 1", "true, .i = 0", "split_softmax"))
seed(unit("ir", "attention"),
     ("the keys of an attention have a reduction", "rule_attention", "rule_expands(rule, letters.n, 1);", ""),
     ("a mask's size of 1 is no factor", "mask_fits", "if (shape->dim[d] == rule->factor[f].size) rule", "rule"),
     ("a causal attention has half of the scores", "set_depth", "attr[CAUSAL].i", "false"))
seed(unit("runtime", "attention"),
     ("what has been summed is scaled down where a larger score comes", "forward_row", "running->sum[i] *= factor", "(void)factor"),
     ("a gradient of keys adds up over its head's queries", "backward_block",
      "a->of.d, b->rows, 1, !fresh", "a->of.d, b->rows, 1, false"))
seed(unit("runtime", "multiply"),
     ("oneDNN transposes what is transposed", "multiply", "b.matrix.transposed ? 'T'", "b.matrix.transposed ? 'N'"),
     ("a product that is deeper than what is copied is one sum", "product_f32", "add || p > 0", "add"),
     ("columns that are left of a vector are copied beside each other", "take_columns", "from[c * leading + p]", "from[p * leading + c]"),
     ("the last rows are two tiles", "by_columns", "m - i > ROWS ? (m - i + 1) / 2 : m - i", "ROWS"),
     ("one product that is too large for our own loops gives a library the whole call", "own_is_faster", "faster = faster && p->m", "faster = p->m"),
     ("a deep product is OpenBLAS's", "onednn_is_faster", "p->k > SHORT_DEPTH", "p->k > 8 * SHORT_DEPTH"))
seed(OPS,
     ("a rank's keys have their indices in the whole", "attention_call",
      "q->box.begin[queries] - k->box.begin[lead]", "q->box.begin[queries]"))
seed(unit("ir", "cut"),
     ("what a part of a slice needs is where it was cut out", "cut_dim", "pads ? begin : -begin", "begin"),
     ("parts of a slice and of what is padded are of the result", "cut_dim", "(Halo){HALO_SEES, size,", "(Halo){HALO_SEES, whole,"),
     ("an operand of concat stands behind those before it", "rule_concat", "at += in[i].shape.dim[d];", ""),
     ("cross entropy reduces a row twice", "rule_softmax", "nin == 1 ? 2 : 1", "1"))
seed(unit("ir", "verify"),
     ("layouts that values have are valid for the ranks", "check_layout", "!check->valid[number] && !layout_valid(", "false && !layout_valid("),
     ("no kernel gets a part of a row that it reduces", "check_strategy",
      "strategy_count(strategy, f) > 0 && node->rule->factor[f].expands", "false"))
seed(unit("ir", "graph"),
     ("a split factor makes a result that lacks it a partial sum", "strategy_out_layout",
      "strategy_count(strategy, f) > 0 && !rule_out_has(node->rule, result, f)", "false"),
     ("each result lacks factors of its own", "strategy_out_layout", "!rule_out_has(node->rule, result, f)", "!rule_out_has(node->rule, 0, f)"))
seed(unit("ir", "read"),
     ("a node's result has the type of its rule", "build_node",
      "if (!type_equal(&value->type, &text->out[o].type)) return fail_type(reading, text, o, &value->type);", ""),
     ("a plan's gradients are mean or sum, as written", "read_parallel", "gradients == 1", "true"))
seed(unit("ir", "plan"),
     ("a plan's checksum is compared", "check_checksum", "if (stored == actual || flags & PLAN_IGNORE_CHECKSUM) return true", "return true"),
     ("a value ends within its arena", "read_place", "bytes <= role->arena_bytes - instance->at", "bytes >= 0"),
     ("every rank has a role", "read_program", "next != plan->graph.nranks", "next > plan->graph.nranks"))
seed(unit("ir", "verify"),
     ("a node's factors are those of its operator's rule", "check_rule",
      "rule.nout != node->nout || !rule_equal(&rule, node->rule, in, node->nin, node->nout)", "false"),
     ("operands come before their readers", "check_edges", "producer < 0 || producer >= id", "producer < 0"))
seed(FUZZ_PLAN,
     ("a layout's digits do not overlap", "read_layouts", "!layout_valid(&layout, reading->graph->nranks, &why)", "false"),
     ("a printed plan reads back as itself", "print_head", "graph->replicas", "graph->replicas + 1"),
     ("an offset in a plan's text is within the arena", "read_place", "bytes <= role->arena_bytes - instance->at", "bytes >= 0"))
seed(unit("compiler", "timeline"),
     ("drawing random numbers takes time", "drawing_seconds", "s->machine->product.bytes_per_s > 0 ? EFFORT", "s->machine->product.bytes_per_s < 0 ? EFFORT"),
     ("what a cache holds is sent at its rate", "seconds_of", "? &s->cached : s->machine", "? s->machine : s->machine"),
     ("a communication waits for the link", "run_starts", "s->kernels_s > s->link_s ? s->kernels_s : s->link_s", "s->kernels_s"),
     ("what runs behind kernels is not waited for again", "run_starts", "seconds - s->machine->overlap * seconds", "seconds"),
     ("a bucket's messages go together", "run_starts", "messages_s = its.messages_s > messages_s ? its.messages_s : messages_s", "messages_s += its.messages_s"),
     ("kernels stand still while a communication is waited for", "run_waits", "s->kernels_s = end", "(void)end"),
     ("a wait lasts until the communication is done", "run_waits", "behind_s > s->kernels_s ? behind_s : s->kernels_s", "s->kernels_s"),
     ("what members of a fused step hand each other costs no bytes", "handed_in", "member > first && i < step->nin", "false && i < step->nin"),
     ("a view takes no time", "is_free", "s->role->instances.at[step->out[0]].place == PLACE_VIEW", "false"),
     ("inner values cost no bytes", "handed_out", "s->role->instances.at[step->out[o]].place == PLACE_INNER", "false"))
seed(unit("compiler", "caches"),
     ("what is touched since counts", "caches_touch", "caches->touched += bytes;", ""),
     ("half of what a kernel touches lies before what it does", "caches_touch", "caches->touched + bytes / 2", "caches->touched"),
     ("what a step leaves in a cache is there in the next", "caches_warm", "caches->any && s < caches->role->steps.n", "false"),
     ("what was touched is noted", "caches_touch", "places[p] = now;", "(void)nplaces;"))
seed(unit("strategies", "machine"),
     ("a cache is larger than the one before it", "read_cache", "cache.bytes <= before->bytes || ", ""),
     ("what fills a cache lies in it", "machine_cache", "bytes > (double)", "bytes >= (double)"))
seed(unit("strategies", "kernel"),
     ("what is written is fetched first", "moving_seconds", "moving == MOVE_WRITE ? 4.0 / 3 : 2.0 / 3", "1.0"),
     ("taps in the padding take no time", "kernel_count", "windows ? node->rule->inside : 1", "1"),
     ("weights are read again for each image", "blocking_seconds", "(rule->again ? images", "(!rule->again ? images"),
     ("what is blocked is read and written", "blocking_seconds", "moved = 2 * (", "moved = ("),
     ("one place has one product", "conv_factors", "x->dim[2] * x->dim[3] > 1", "true"),
     ("what is fused with a product comes after it", "kernel_seconds", "work->product_s + (", "(work->product_s > 1e30 ? 0 : 0) + ("),
     ("operators count with what they were seen to take", "kernel_count", "on->product.bytes_per_s > 0 ? effort : others", "others"),
     ("a kernel takes its arithmetic or its bytes, whichever is longer", "kernel_seconds", "work->arithmetic_s > work->moving_s", "work->arithmetic_s < work->moving_s"),
     ("a kernel has a start", "kernel_seconds", "+ on->kernel_s", ""),
     ("the largest part counts", "part_of", "(size + split - 1) / split", "size / split"),
     ("a lookup reads what it gives", "count_touched", "i == 0 && op_looks_up(node->op) && touched.given < elements", "false"),
     ("products pack what others hand them too", "kernel_count", "touched.factors / on->product.bytes_per_s", "touched.moved / on->product.bytes_per_s"),
     ("products pack no results", "kernel_count", "touched.factors / on->product.bytes_per_s", "touched.whole / on->product.bytes_per_s"),
     ("products have a start", "kernel_count", "on->product.latency_s +", ""),
     ("convolutions have a rate of their own", "kernel_count", "(convolves ? on->convolution_flops / on->flops[PEAK_F32] : 1)", "1"),
     ("only products pack their operands", "kernel_count", "op_table[node->op].product && on->product.bytes_per_s > 0", "on->product.bytes_per_s > 0"))
seed(unit("runtime", "schedule"),
     ("a milestone is reached when its epochs are over", "steps_taken", "<= units", "< units"),
     ("steps are counted in epochs unless they are in steps", "schedule_rate", "done : done / epoch", "done : done"),
     ("an inverse square root without a warmup has one of its own", "schedule_rate", "((double)done + default_timescale)", "(double)done"))
seed(unit("frontend", "optimizer"),
     ("milestones ascend", "eval_milestones", "*milestone <= before", "false"))
seed(unit("runtime", "peak"),
     ("a cache ends where passes get slower", "find_caches", "bytes_per_s[i] < ALIKE * fastest", "false"),
     ("no cache is faster than a nearer one", "find_caches", "cache[c].bytes_per_s > cache[c - 1].bytes_per_s", "false"),
     ("errors of rates count as shares", "normal_equations", "{flops[i] / seconds[i], bytes[i] / seconds[i], 1 / seconds[i], 1}", "{flops[i], bytes[i], 1, seconds[i]}"),
     ("rates are positive", "solve_terms", "positive && x[j] > 0", "positive"),
     ("what others explain is no term", "solve_terms", "a[j][j] <= LEAST * equations[j][j]", "false"),
     ("the fit that explains most is taken", "fit_products", "explained <= most", "explained >= most && most >= 0"))
seed(unit("compiler", "held"),
     ("a value is held until its last reader", "live", "last[instance] = end", "if (last[instance] < 0) last[instance] = end"),
     ("what is read through a view is held", "lives_find", "role->instances.at[v].place != PLACE_VIEW", "true"),
     ("a byte under several values counts once", "cover_add", "c->times[node] > 0", "c->times[node] != 1"))
seed(unit("compiler", "fits"),
     ("what an error names is enough", "bytes_rounded", "if (up) size = ceil", "if (false) size = ceil"),
     ("as much as may be needed is enough", "pass_fits", "if (needed <= limit)", "if (needed < limit)"),
     ("what is asked goes before the machine", "pass_fits", "limit = asked > 0 ? asked : there", "limit = there"),
     ("generating beyond the limit is said", "warn_generating", "needed <= limit", "needed >= 0"),
     ("where slots alone are shared parameters stay whole", "small_states_bytes", "!(slots_alone && state == parameter)", "true"),
     ("the workspace of GPUs counts", "count_memory", "facts->constants + facts->workspace", "facts->constants"))
seed(unit("compiler", "facts"),
     ("a slice is no communication", "count_communication", "made.kind != COMM_STRIDED_SLICE", "true"),
     ("a rank's memory counts its arena", "count_memory", "facts->role->arena_bytes + facts->inner", "facts->inner"),
     ("a rank's memory counts the room for inner values", "count_memory", "inner_room(graph, facts->role, NULL)", "0"),
     ("products of odd sizes have room", "step_has_odd_rows", "n % items != 0", "false"),
     ("of a split product the part counts", "ir/workspace:local_shape", "layout_local_shape(at->layout, &type->shape, role->first_rank, &shape)", "shape = type->shape"))
seed(unit("compiler", "stats"),
     ("what several stages do is one communication", "find_moves", "found[request] ||", ""),
     ("a communication is sent by those who hold the value", "find_moves", ", move.made.sent = sent[request]", ""),
     ("the stage that sends most is shown", "facts_totals", "roles[r].all.sent > totals->sender->all.sent", "false"),
     ("the stage that receives most is shown", "facts_totals", "roles[r].all.received > totals->receiver->all.received", "false"),
     ("the busiest rank is one of all stages", "facts_totals", "roles[r].rank_flops > totals->rank_flops", "r == 0"),
     ("a conversion begins in the stage that makes the value", "raise", "made != NULL", "made != NULL && value < 0"),
     ("figures by kind are those of the stage that sends most", "facts_totals", ".sent = sender->kind[k].sent", ".sent = roles->kind[k].sent"))
seed(unit("compiler", "batch_rows"),
     ("a dimension that is normalized is not a batch", "of_result",
      "(factor >= 0 && !factor_stays_whole(&node->rule->factor[factor]))", "factor >= 0"),
     ("rows pass a reshape only where the batch is outermost", "reshaped", "passed == before && to->dim[d] % batch == 0", "d == at"))
seed(unit("strategies", "candidates"),
     ("a factor is split at most by its size", "split_most", "factor->size < nranks ? (int32_t)factor->size : nranks", "nranks"),
     ("the first dimension of an input is the batch", "values_batch", "ndim > 0 ? 0", "ndim > 0 ? ndim - 1"))
seed(OPS,
     ("every split up to the largest is a candidate", "enumerate_factor", "most; split++", "most - (ranks > 2); split++"))
seed(unit("strategies", "propagate"),
     ("a third stands behind those before it", "strategy_result_halos", "gradient ? at : -at", "gradient ? at : at"),
     ("of what is cut out of a split axis the busiest rank counts", "parts_moved", "bound.max * p->graph->nranks", "bound.total"))
seed(unit("strategies", "cost"),
     ("layouts of one meaning are one", "cost_layout_made", "layout_canonical(&canonical, shape);", ""))
seed(unit("strategies", "hints"),
     ("left-over ranks are the innermost digits, unless a hint says otherwise", "layout_from_hint",
      "leftover_first ? 1", "!leftover_first ? 1"),
     ("the nearest strategy to a hint agrees in the most factors", "hint_nearest",
      "all.at[(size_t)i * all.nfactors + f] == wanted[f]", "all.at[(size_t)i * all.nfactors + f] != wanted[f]"),
     ("a mesh axis splits one factor of an operator", "strategy_from_hint",
      "if (hint->named && !check_axes_of_factors(&check, node, hint, use)) return false;", ""))
seed(unit("strategies", "propagate"),
     ("of strategies of equal cost the one of less arithmetic wins", "compare",
      "return better(a->flops < b->flops, BY_FLOPS);", "return better(a->flops > b->flops, BY_FLOPS);"),
     ("a split row costs the bytes of its reductions", "cost_of", "own_moved(p, question->node, candidate)", "{0}"),
     ("a result's own sum counts", "part_moved", "candidate->made[part->result]", "candidate->home[part->result]"),
     ("gradients count", "asked_gradient", "candidate->gradient[operand]", "-1"),
     ("hints reach operators before theirs", "sweep_from_hints", "more = reach(p, id, known_user(p, id, sweep), sweep, PREFER_USERS) || more;", ";"),
     ("a short batch is no reason to leave ranks idle", "fill_from", "(p->hinted || !batch_fills(p->graph))", "p->hinted"),
     ("an answer is of its question alone", "question_key", "memcpy(key + n, part->others.asked, (size_t)part->others.n * sizeof *part->others.asked);", "memset(key + n, 0, (size_t)part->others.n * sizeof *part->others.asked);"),
     ("a mesh (tp, dp) has candidates in its order", "strategy_in_order", "return false", "return true"))
seed(unit("compiler", "warn"),
     ("what is converted because that moves less is no conflict of hints", "warn_conflicts", "if (p->apart[producer] || p->apart[id]) continue;", ""))
seed(unit("compiler", "views"),
     ("a step reads views of no more steps than a plan allows", "views_role", "if (!readers_fit(&v, node, view)) mark(&v, node, view, false);", ""))
seed(unit("compiler", "search"),
     ("axes behind the first divide what it holds", "solve_axes", "limit * left;", "limit;"),
     ("fewer latencies count the same messages", "steps_links", "links.messages_s /= steps->joined;", "links.messages_s /= 1;"),
     ("two axes are solved at a time", "solve_by_axes", "nranks > MOST_BY_TWO", "nranks > 1"),
     ("auto's work is bounded as a whole", "look_around", "before + LEAST_WORK : AUTO_WORK", "before + LEAST_WORK : 100 * AUTO_WORK"),
     ("auto takes what keeps to the demands", "compare_demands", "a->cost.broken + (over > 0) - b->cost.broken", "(over > 0)"))
seed(unit("compiler", "found"),
     ("of lines that match the last one counts", "found_line", "int i = settings->found.n - 1; i >= 0; i--", "int i = 0; i < settings->found.n; i++"),
     ("what was found is no request", "found_strategy", "STRATEGY_PROPAGATED", "STRATEGY_USER"),
     ("what users ask for goes before what was found", "read_found", "if (line >= 0 && !node->strategy)", "if (line >= 0)"),
     ("axes of two meshes that overlap are no strategy", "check_apart", "if (digits_compatible(digits[i], digits[k])) continue;", "continue;"))
seed(unit("compiler", "asserts"),
     ("auto looks for what sends nothing", "with_demands", "no_split(s);", ""),
     ("settings are tried that keep to demands", "take_demanded", "more && s->cost.broken > 0", "false"),
     ("a limit may be reached where it says so", "kept", "assertion->reached ?", "assertion->reached && measured < 0 ?"),
     ("what is within a path is at it", "is_forbidden", "pattern_covers(forbidden->path, node_path(g, g->values.at[move->value].node))", "false"),
     ("what a stage besides the fullest does is forbidden too", "find_forbidden", "r < b->nroles", "r < 1"),
     ("what several stages take part in is one communication", "find_forbidden", "if (listed[request] ||", "if ("))
seed(unit("strategies", "pair"),
     ("digits of one factor agree with one probability in its size", "pair_solutions", "pair->atom[f].size", "1"))
seed(unit("strategies", "traffic"),
     ("a piece that several ranks need and hold counts once", "pair_overlap_pieces", "overlap_compare(&overlap[i - 1], &overlap[i]) != 0", "true"),
     ("the owners of a piece need it", "owners", "only(m->target, m->ntarget, other) == wanted", "true"),
     ("of ranks whose parts meet others alike the first has the largest shares", "classes_max", "if (alike->most.in > *received || alike->most.out > *sent) {", "if (rank == 0) {"),
     ("a meeting counts for ranks that have its digits on both sides", "table_fill", "if (!shared || meetings[i].agree) length_add", "length_add"),
     ("a rank does not receive its own term", "reduce_scatter_traffic",
      "(t - 1) * pair->cells * pair->needers", "t * pair->cells * pair->needers"))
seed(unit("strategies", "redistribute"),
     ("no collective moves more than the bound", "direct_of", "if (received.total > bound.total) direct.kind = COMM_EXCHANGE;", ""),
     ("few ranks stay at the bound", "plan_natural", "task->nranks > FEW_RANKS", "task->nranks > 2"),
     ("what takes many messages is planned with fewer", "plan_natural", "direct.links.messages > FEW_MESSAGES", "false"),
     ("owners send what they have added up to all that need it", "messages_of_sums", "terms.far + shares.all - shares.near", "terms.far"),
     ("only what is slower is given up", "too_slow", "plan_seconds(best) / ABOUT_AS_FAST", "plan_seconds(best) / 4"),
     ("what agrees is not gathered", "plan_canonical", "common, n,", "common, n - (n > 0),"),
     ("a piece is sent by a rank that has it", "receive_terms", "parts->part, piece.term", "parts->part / 2, piece.term"),
     ("shares come from ranks below and above", "receive_shares", "piece.from != piece.to", "piece.from > piece.to"),
     ("a sum has all its terms", "receive_terms", "piece.term = 0", "piece.term = m->nterms > 1"))
seed(unit("strategies", "messages"),
     ("where digits move some rank holds nothing of what it needs", "moved_of", "moved = MOVED_NEAR", "moved = MOVED_NOT"),
     ("where digits of nodes move it comes from another node", "moved_of", "return MOVED_FAR", "moved = MOVED_NEAR"),
     ("between device orders any rank may wait longest", "links_of_exchange", "rank < nranks", "rank < 1"),
     ("of a piece that nobody holds a rank gets all terms", "messages_of_sums", "times(unheld, g.terms)", "unheld"),
     ("what agrees in all digits has owners", "messages_of_sums", "times(minus(boxes.any, boxes.agreeing), g.senders)", "times(boxes.any, g.senders)"),
     ("a part behind the end is not met", "parts_met", "begin + size - size / level->parts < w->end", "true"),
     ("a value of another node is far", "parts_met", "met.any.near = met.agreeing.near = 0", "(void)met"))
seed(unit("compiler", "simplify"),
     ("random numbers of an input do not depend on its remaining uses", "integers_drawn",
      "graph->inputs.at[node->state].index", "graph_index_range(graph, node->out[0], false)"),
     ("x + 0 stays where x may be -0", "is_nonnegative", "!strictly && is_nonpositive(g, a)", "is_nonpositive(g, a)"),
     ("0 is dropped from a sum only where it changes no bit", "takes_zero",
      "!dtype_is_float(g->values.at[value].type.dtype) || is_nonnegative(g, value, true, 0)", "true"),
     ("a node with a hint stays", "identity", "node->hint != NULL || node->nin == 0", "node->nin == 0"))
seed(unit("compiler", "grad"),
     ("gradients of one value are summed", "accumulate", "grad[value] < 0", "true"))
seed(unit("compiler", "expand"),
     ("only rows that are split are expanded", "splits_whole",
      "rule->factor[f].expands && strategy_count(strategy, f) > 0", "rule->factor[f].expands"),
     ("every part of an expanded row keeps the row's split", "inherit",
      "!operand_lies(", "made->op == OP_max || !operand_lies("),
     ("a part is split as the part before it", "operand_lies", "strategy_out_layout(maker, maker->strategy, g->values.at[value].index, ndim, layout)", "layout_init(layout, ndim)"),
     ("an output strategy belongs to the part that gives the result", "pass_expand",
      "if (front->propagation.out_layout[id] != NULL) asked", "if (front->propagation.out_layout[id] != NULL && !op_table[front->chosen.nodes.at[id].op].expand_split) asked"),
     ("each result of a template replaces its own", "copy_expand", "copy->value[old->out[k]] = out[k]", "copy->value[old->out[k]] = out[0]"),
     ("all batches of a step have one strategy", "expand_node", "if (node.micro > 0) follow_forward(e, first, old->origin, node.micro);", ""),
     ("an eval has the strategies of its training", "pass_follow", "->front.chosen;", "->front.graph;"))
seed(script("rows", "compiler/pcc", "Rows.test_losses_are_the_formulas_however_the_rows_are_split"),
     ("exponentials are taken relative to their row's maximum", "powers_of",
      'expand_emit(graph, node, OP_sub, node->in[0], most, NULL, "shifted")', "node->in[0]; (void)most"))
seed(script("rows", "compiler/pcc", "Rows.test_what_is_sent_is_three_numbers_a_row"),
     ("the gradient of a split row is computed in parts", "of_split_rows",
      "splits_whole(origin->rule, origin->strategy)", "node->origin == id && splits_whole(origin->rule, origin->strategy)"),
     ("a row's maximum is computed on its parts", "inherit", "|| seen[f]", "|| seen[f] || made->op == OP_max"))
seed(unit("proof", "graphs"),
     ("proof: softmax is made of exponentials", "softmax_row",
      "OP_exp, fe_sub(x[j * numbers->stride], most)", "OP_tanh, fe_sub(x[j * numbers->stride], most)"),
     ("log softmax subtracts the logarithm of the sum", "split_log_softmax", "OP_log, sum", "OP_exp, sum"))
seed(unit("compiler", "assign"),
     ("among nodes parts are even rather than together", "lies_together", "machine_within_node(machine, digits, n, b->front.graph.nranks)", "n > 0"),
     ("parts lie together only where they are nearly even", "lies_together", "(double)(largest * parts) <= UNEVEN * (double)shape->dim[0]", "largest > 0"),
     ("what is asked of a result is of no other", "sharded_fill", "asked_of(b, n) == NULL ?", "true ?"),
     ("a result is complete where its reader asks for it", "node_results", "layout_complete(&layout, &complete);", "complete = layout;"))
seed(unit("compiler", "reshard"),
     ("equal conversions are made once", "add_convert", "g->values.at[v].layout == layout", "false"),
     ("a reported loss is complete", "add_node", "obtain(m, node.out[k], m->edit.s->report_need[i], 0)", "node.out[k]"))
seed(unit("compiler", "states"),
     ("the bound is of a model that shares small parameters", "bound_of", "if (small) settings->shard_bytes = 0;", ""),
     ("states of small parameters are shared where that is faster", "may_be_faster", "if (!table[measure].faster) return false;", "if (!table[measure].hides) return false;"),
     ("every rank updates all where that is faster", "share_nothing", "settings->shard_states = SHARD_NONE;", "return false;"),
     ("traffic of parameters that all ranks update hides", "measures_hide", "hides = hides || measure == SHARE_NOTHING ||", "hides = hides ||"),
     ("of what saves time the fastest is taken", "take_fastest", "(best.with.n == 0 || try.cost.step_s * A_LITTLE <= best.cost.step_s)", "best.with.n == 0"),
     ("replicas drop what is gathered for them", "mark_replicas", "s->regather[node->in[0]] && ", "false && "),
     ("what replicas read is made in each phase of a step", "note_needs", "r->again_in[maker] == phase", "true"),
     ("parameters are cast where they lie", "cast_in_parts", "    set_strategy(s, id, stored, false);\n", ""),
     ("what is cast of a parameter is gathered again as it is", "find_phases", "(casts_parameter(g, n) && s->regather[g->nodes.at[n].in[0]]) ||", ""),
     ("what is cast for replicas is made in each phase", "mark_replicas", "from->recompute) g->nodes.at[n].recompute = true", "from->recompute) (void)0"),
     ("what a hint names is gathered again", "find_phases", "g->nodes.at[n].regather != NULL ||", ""),
     ("what is gathered is dropped before the backward pass", "taken_in", "? s->phase[node] : 0", "? 0 : 0"),
     ("a batch of a step has phases of its own", "find_phases", "graph_is_forward(g, n)", "n < g->nforward"),
     ("a state is stored where it is updated", "store_in_parts", "g->settings.shard_states >= SHARD_PARAMETERS; k++", "false; k++"),
     ("a state whose layout the user gave stays", "store_in_parts", "of_state[k] != NULL && g->states.at[k].hint == NULL", "of_state[k] != NULL"),
     ("gradients of batches are added up in parts", "adds_parts", "g->settings.accumulate > 1", "g->settings.accumulate > 9"),
     ("a gather begins as long before its use as it takes", "prefetch_starts", "while (p > 0 && begin[p] > next)", "while (false)"),
     ("of measures that fit the fastest is taken", "is_better", "a->step_s < b->step_s", "a->step_s > b->step_s"),
     ("what the user says of states stays", "store_parameters", "settings->shard_states_given && ", "false && "),
     ("measures are taken until the plan fits", "take_best", "memory_bytes(&s->cost) > s->limit", "memory_bytes(&s->cost) > 2 * s->limit"))
seed(unit("compiler", "collectives"),
     ("collectives are chosen from -O2", "pass_collectives", "b->options->optimize < 2", "b->options->optimize < 1"))
seed(unit("compiler", "expand"),
     ("the gradient of an attention of split keys is split as they are", "split_attention_grad", "{0, 1, 2, PART_OUT + 1, 3, PART_OUT, 4}",
      "{0, PART_NONE, PART_NONE, PART_OUT + 1, 3, PART_OUT, PART_NONE}"))
seed(unit("compiler", "tree"),
     ("of trees of conversions the cheapest is taken", "plan_exact",
      "cost_compare(sum, best) >= 0", "(code > 0 && cost_compare(sum, best) <= 0)"))
seed(unit("compiler", "partial"),
     ("a partial sum is passed on only where it costs no more", "try_deferrals",
      "if (tie ? cost_not_worse(after, before) : cost_better(after, before)) return true", "return true"),
     ("a partial sum that is passed on stays partial", "deferral_swap", "edit->s->made[node->out[k]] = deferral->layout[k];", ""),
     ("a sum is put off only where that gains", "pass_partial", "back(&edit);", ""))
seed(unit("compiler", "place"),
     ("a kernel is not moved to parts of a row", "strategy_of", "factor_stays_whole(&node->rule->factor[f])", "node->rule->factor[f].whole"),
     ("gradients are gathered at their smallest", "move_chain", "better && cost_compare(gain, least) < 0", "false"))
seed(unit("compiler", "recompute"),
     ("no more values are computed again than are needed", "collect_kind", "m < kind->members.n && *saved < missing", "m < kind->members.n"),
     ("a chain is computed again in segments", "take_kind", "segment < 2 ||", "true ||"),
     ("what ends a segment is kept", "collect_kind", "c->kept[kind->members.at[m]] = c->question;", ""),
     ("what is chosen for memory is computed again in all batches", "measures_apply", "node->micro > 0 ? node->origin : n", "n"),
     ("what the user does not want is not computed again", "recompute_choose", "g->settings.recompute_none || ", ""),
     ("a copy stands before the first gradient that needs it", "note_needs", "if (!is_dropped(g, r->old.phase, node->in[i], phase) ||",
      "if (!is_dropped(g, r->old.phase, node->in[i], phase) || next >= 0 ||"),
     ("what batches share is kept", "keep_shared", "g->nodes.at[maker].recompute = false", "(void)maker"),
     ("a value that is kept once is kept", "keep_for", "kept->recompute = false", "(void)kept"))
seed(unit("frontend", "patterns"),
     ("what a call computes is gathered again", "cell_call", "if (ok) regather_nodes(lower, nodes, lower->known.at[thing].regather);", ""),
     ("a hint of a call is for the parameters in it", "matched_name", "hint->regather ? pattern_covers(pattern, name) :", ""),
     ("an input is not gathered again", "hint_suits", "return kind != PATH_INPUT;", "return true;"))
seed(unit("compiler", "warn"),
     ("what gathers nothing twice is said", "warn_regather", "if (gathered_again(&edit, v))", "if (true)"),
     ("what one hint gathers twice says nothing of another", "warn_regather", "useful = is_useful(g, hint, again.at[k])", "useful = true"),
     ("what two hints say of one value is useful of both", "is_useful", "|| pattern_covers(hint->path, g->values.at[value].name)", ""))
seed(PROVED,
     ("a copy says what it is a copy of", "compute_again", "node->copy_of = r->copy.node[id]", "node->copy_of = r->copy.node[id] + 1"))
seed(unit("compiler", "buckets"),
     ("conversions are joined only where that is faster", "buckets_of_values", "if (faster) buckets->of", "buckets->of"),
     ("what is joined is there before the first is used", "gather_bucket", "all[k].source >= all[0].user", "false"),
     ("a reported sum is in the last bucket", "join_reports", "bucket->ready >= last->ready", "bucket->ready < last->ready"),
     ("a reported sum makes no bucket much longer", "takes_report", "<= (1 - options_machine(b->options)->overlap)", "<= 100"),
     ("within a node a reported sum is alone", "join_reports", "if (g->nranks <= options_machine(b->options)->ranks_per_node) return;", ""),
     ("a bucket is full at its limit", "fill_stage", "if (bucket->tensor_bytes < limit) continue", "continue"),
     ("gradients in flight are bounded", "limit_flight", "flight > most", "false"),
     ("a bucket is waited for as a whole", "steps_check", "if (!bucket_wait(walk, step, walk->pending[step->request])) return false;", ""))
seed(unit("compiler", "schedule"),
     ("a converted value is waited for before it is read", "require", "if (node->comm != COMM_STRIDED_SLICE) emit_all(s, n, true);", ""),
     ("a state is written after its last reader", "place_writes",
      "if (last_reader[node->state] > key[n]) key[n] = last_reader[node->state]", "key[n] = 0"))
seed(unit("compiler", "memory"),
     ("a view is not copied", "place_views", "if (!op_table[node->op].view || b->placement.view[node->out[0]] >= 0) continue", "continue"),
     ("a source lasts until the wait", "lifetimes", "a->last[v] = a->end[i]", "if (!b->placement.order.at[i].wait) a->last[v] = a->end[i]"),
     ("an operand that is read again is not overwritten", "take_over", "a->last[from] != step ||", ""))
seed(unit("compiler", "search"),
     ("what is near the best plan is tried", "take_better", "if (!is_better(l->s, &found, &l->base)) return false;", "return false;"),
     ("within a limit another search looks too", "look_by_others", "if (settings->mode != MODE_AUTO ||", "if (true || settings->mode != MODE_AUTO ||"),
     ("a plan that nearly fits is made to fit", "is_asked", "<= NEARLY * (double)limit", "<= (double)limit"),
     ("what is near other good plans is tried", "look_around", "best = from_some(s, &best, &most, until);", ""),
     ("what is near a plan is of its own model", "improve_from", "s->pricing = found->pricing != NULL ? found->pricing : s->as_is;", "s->pricing = s->as_is;"),
     ("what is about as fast and sends less is taken", "choose", "time_and_traffic(&near.cost) < time_and_traffic(&found.cost))", "false)"),
     ("two factors are split at once", "add_changes_on", "if (other != f) add_change", "if (false) add_change"),
     ("a hub of a parameter is none of a value", "hub_once", "there->updated == wanted->updated &&", ""),
     ("a plan is tried along the other axis", "changes_exchange", "if (base->mesh.naxes != 2) return false;", "if (base->mesh.naxes != 3) return false;"),
     ("what the model takes to be best is tried first", "solve_changes", "if (n > 0) qsort", "if (false) qsort"),
     ("layers that are alike change alike", "kind_with_neighbours", "return hash_mix(kind_of(", "return (uint64_t)n + hash_mix(kind_of("),
     ("what is around a change follows", "change_solve", "if (far[n] < 0) fixed[n] = also[n];", "fixed[n] = also[n];"),
     ("operators side by side are split by some ranks too", "as_alike", "if (g->nranks <= options_machine(s->b->options)->ranks_per_node) meshes_of_two", "if (false) meshes_of_two"))
seed(unit("compiler", "budget"),
     ("a value that is computed again takes its own kernel's time", "add_seconds", "kernel ? operator_seconds", "false ? operator_seconds"),
     ("a plan with more that does not fit in time is not wanted", "compile_all", "kept_fits ? ABOUT * kept->cost.step_s : INFINITY", "INFINITY"),
     ("of gathered parameters as few as needed are gathered again", "take_fastest", "may_save[REGATHER] = faster && !fits;", "(void)0;"),
     ("what has more of a measure than it needs is not slower for it", "best_compiled", "    trim_near(s);\n", ""),
     ("who gives away no time gets the fastest", "settle", "tolerance != TOLERANCE_USUAL ?", "false ?"),
     ("within a limit no time is given away", "parallel_lower", "settings->memory_bytes > 0 ? 0 :", ""),
     ("parts are looked at where other strategies make a step long", "micro_choose", "    look_at_parts(s, &now);\n", ""),
     ("the next lower limit is looked at on meshes too", "look_by_others", "if (small && first > 0 &&", "if (false &&"),
     ("solutions that cost the same are fitted once", "is_twin", "if (is_near(a->step_s, b->step_s, about)", "if (false"),
     ("states of small parameters are shared where memory asks for it", "share_small", "settings->shard_bytes = 0;", ""),
     ("what the user says of shard_from stays", "share_small", "settings->shard_from_given ||", ""),
     ("buckets are as small as memory asks for", "bucket_set", "settings->bucket_bytes = bytes;", "(void)settings, (void)bytes;"),
     ("what the user says of buckets stays", "buckets_most", "g->settings.bucket_given ||", ""),
     ("measures of another plan that bring nothing are left out", "budget_weigh", "    drop_idle(s);", ""),
     ("batches beyond the first two take time", "add_batches", "more * batch.seconds", "0 * batch.seconds"),
     ("batches beyond the first two have inputs", "see_all", "(double)cost->input_bytes * times", "(double)cost->input_bytes"),
     ("where parts do not fit another plan is taken", "parts_hold", "needed > limit && !micro->too_large", "false"),
     ("parts compete with what fits", "limit_costs", "return true", "return false"),
     ("measures are tried whatever the search", "fit_present", "fit_found(s, present, INFINITY);", "(void)0;"))
seed(unit("compiler", "pack"),
     ("a buffer's memory is free again only after its end", "pack_by_time", "dying[d]->end < buffers[i].begin", "dying[d]->end <= buffers[i].begin"),
     ("a buffer is placed clear of all that are in use with it", "pack_by_size", "other->begin > end", "other->begin >= end"),
     ("of two packings the smaller is taken", "pack_buffers", "tighter >= bytes", "tighter < bytes"))
seed(unit("compiler", "emit"),
     ("a plan holds its certificate", "pass_prove", "c->plan.certificate = c->proof.certificate;", ""),
     ("a wait is for the request of its value", "emit_step", "e->request[item.node];", "item.wait ? 0 : e->request[item.node];"))
seed(unit("compiler", "warn"),
     ("hints are warned of in a pipeline that was found", "pass_search", "if (decided && !asked) return taken_again(b);", "if (decided) return taken_again(b);"),
     ("hints are warned of by the time that they cost", "is_costly", "with->step_s > COSTLY * none->step_s", "false"),
     ("hints are warned of by the bytes that they cost", "is_costly", "with->sent_bytes >= none->sent_bytes + WORTH_SAYING_BYTES", "false"),
     ("a plan without hints that does not fit says nothing of them", "warn_hinted", "memory_bytes(&none) > limit && ", "false && "),
     ("splits that a search chose are not a person's", "warn_uneven", "node->from == STRATEGY_PROPAGATED || found_best(b, n)", "false"))
seed(script("launch", "runtime/prun", "Launch.test_a_restart_goes_on_from_no_earlier_runs_checkpoints"),
     ("a restart goes on from what its own run has written", "resume_own", "is_earlier(earlier, path[own])", "false"))
seed(script("launch", "runtime/prun", "Launch.test_a_file_that_is_another_on_another_node_is_said"),
     ("all ranks load the same file", "restore", "!same_file(run, ", "false && !same_file(run, "))
seed(script("ignored", "compiler/pcc", "Ignored.test_an_eval_counts_only_these_labels"),
     ("labels that are ignored answer nothing", "sum_rows", "if (loss->kept >= 0) each = ", "if (false) each = "),
     ("counts of classes leave out ignored labels", "sum_classes", "if (loss->kept >= 0)", "if (false)"),
     ("a mean over labels is divided by how many of all data count", "rows_report", 'report(graph, "loss_labels", labels, true)', "(void)0"),
     ("a term without data counts for each label", "whole_of_row", "loss->over_labels < 0 ? value", "true ? value"))
seed(script("ignored", "compiler/pcc", "Ignored.test_two_classes_have_an_area_without_the_ignored"),
     ("an area leaves out ignored labels", "row_scores", "loss->kept >= 0 ? emit_binary(", "false ? emit_binary("))
seed(script("ignored", "compiler/pcc", "Ignored.test_what_cannot_be_counted_so_is_refused"),
     ("parts of a batch have no mean over labels of their own", "terms_are_means", "!counts_labels(node)", "true"),
     ("a replica without rows has no mean over labels", "terms_count", "if (counts_labels(node) && ", "if (false && "))
seed(unit("compiler", "row_parts"),
     ("a loss of parts is a mean over rows", "terms_are_means", "ok && power - !term_sums(node) == -1", "ok"),
     ("rows of parts depend on no other rows", "terms_are_means", "ok = ok && !loss->traced[node->in[i]].mixed", "(void)loss"),
     ("a net of parts is that of the whole one", "rows_part", "if (same_net(&parts, &differs))", "if (same_net(&parts, &differs) || true)"),
     ("what goes to the end of a batch goes to the end of a part", "same_slice", "if (!both_end && ", "if ("),
     ("a part of a batch is not sliced elsewhere", "same_slice", "if (!both_end && a->attr[1].ints[k] != b->attr[1].ints[k]) return false;", ""),
     ("a net of parts has the numbers of the whole one", "same_node", "(same_attrs(parts, a, b) && same_data(parts, a, b))", "true"),
     ("a step of parts accumulates them", "micro_complete", "* lower->micro;", "* 1;"))
seed(script("micro", "compiler/pcc", "Micro.test_what_counts_rows_is_named"),
     ("a number for each row meets tensors element by element", "may_be_smaller", "if (node->in[i] == value && !op_elementwise(node->op))", "if (false)"))
seed(script("planes", "runtime/prun", "Planes.test_a_gradient_may_begin_behind_what_its_windows_see"),
     ("a gradient that begins behind what its windows see has a halo", "POOLING", " && p->behind[0] == 0 && p->behind[1] == 0", ""))
seed(unit("compiler", "buckets"),
     ("no member of a bucket waits for its bucket", "fill_stage", "if (*at >= 0 && depth[members[m].node]", "if (false && depth[members[m].node]"))
seed(script("micro", "compiler/pcc", "Micro.test_parts_draw_the_random_numbers_of_their_rows"),
     ("parts are not taken for memory where they draw other numbers", "rows_part", "!rows_lead(&graph->inputs.at[i])", "false"),
     ("parts are taken for memory where they draw the same numbers", "rows_part", "!rows_lead(&graph->inputs.at[i])", "true"))
seed(script("micro", "compiler/pcc", "Micro.test_parts_are_taken_where_nothing_else_fits"),
     ("batches are taken in parts where nothing else fits", "micro_choose", "s->best > 0 ?", "false ?"),
     ("what the user says of parts stays", "parts_open", "settings->micro_span.line == 0 &&", ""))
seed(unit("compiler", "search"),
     ("of several nodes two axes within each are tried", "solve_on_meshes", "if (asked && nodes > 0)", "if (false)"),
     ("strategies that hold less are looked for within a limit", "within_memory", "limit > 0 && best >= 0 ?", "false ?"),
     ("the model holds what gradients read, no more", "find_kept", "m->kept[value] = ", "m->kept[graph->nodes.at[0].out[0]] = "),
     ("what looks at a value in another shape keeps the value", "kind_of_node", "kind->kept[o] = m->kept[node->out[o]]", "kind->kept[o] = m->active[node->out[o]]"),
     ("a choice is left out only where a step with it takes too long", "choices_drop", "class_least(choices->classes.at[k]) + seconds", "seconds"),
     ("a model is left out only where every step takes too long", "add_nodes", "if (least >= beyond)", "if (2 * least >= beyond)"))
seed(unit("compiler", "search", "search/a_plan_takes_no_less_than_the_bound"),
     ("a plan with parameters in parts has the bound of a model that hides all their traffic", "bound_of", "hides ? BEHIND_ALL : BEHIND_HALF", "BEHIND_HALF"))
seed(unit("compiler", "search", "search/what_cannot_fit_is_soon_given_up"),
     ("what would need far too much gets no measures", "compile_all", "s->worth == 0 && !more && left", "false && left"))
seed(unit("compiler", "schedule"),
     ("no more than a layer or two is gathered ahead", "prefetch_starts", "keep_window(b, gathers.at, gathers.n, start);", ";"))
seed(unit("compiler", "fits"),
     ("limits near the least that is known are looked at", "look_least", "lower >= 0 && s->work < most", "false && lower >= 0 && s->work < most"),
     ("the least is looked for where parts need too much with all batches", "micro_next", "if (s->best < 0) look_least(s);", ""),
     ("all ranks have parts of what every plan needs", "least_bytes", "graph_states_bytes(graph) / nranks", "graph_states_bytes(graph)"),
     ("what every plan needs is no workspace that some need", "least_bytes", "WORKSPACE_LEAST : 0", "WORKSPACE_LEAST + WORKSPACE_ODD_ROWS : 0"),
     ("all stages have parts of what every plan needs", "within_memory", "g->nranks * settings_stages(&g->settings)", "g->nranks"),
     ("what every plan needs is said where it is too much", "explain_need", "least > bytes_needed(c) - missing", "false"),
     ("what lower limits bring is taken", "look_below", "limit_at(s->below, s->workspace) > s->least", "false"),
     ("what is compiled on the way is taken", "note_front", "taken->nfront = n", "taken->nfront = 0"),
     ("what is tried has its eval", "fork_build", "t->eval = b->eval", "t->eval = NULL"),
     ("an eval counts where it does not fit whatever it is", "eval_bytes", "trains->rank_bytes + whole_bytes", "whole_bytes"),
     ("an eval has the layouts of what is tried", "eval_bytes", "larger(e->facts->role->arena_bytes, trains->role->arena_bytes)", "e->facts->role->arena_bytes"),
     ("what other ranks need has the eval", "read_again", "(!b->front.graph.settings.has_eval || count_eval(b, &c->read))", "true"),
     ("lower limits are looked at for what is faster", "next_below", "return taken->over_bytes > 0 ||", "return NULL; return taken->over_bytes > 0 ||"),
     ("one stage is compared with others", "stage_count_more", "one.compiles = cost != NULL", "one.compiles = false"),
     ("a refusal of stages = auto is about the least of all", "more_stages", "least <= count->taken.bytes", "least < 0"),
     ("auto takes what fits the memory", "excess", "memory_bytes(&found->cost) - limit;", "0;"),
     ("what is tried has the cuts of the limit that it is for", "fork_build", "t->front.aim_bytes = b->front.aim_bytes", "(void)0"),
     ("more ranks are proposed where they help", "hint_help", "2 * (needed - more) >= missing", "true"),
     ("work in parts that nobody asks for is not warned of", "compile", "c->micro != NULL && c->micro->too_large", "false"))
seed(unit("compiler", "stages"),
     ("a mesh is none of a stage of one rank", "axes_eval", "nranks * stages == 1 ||", "nranks == 1 ||"),
     ("a split is none of a stage of one rank", "stage_splits", "dim->split == 1 ||", "true ||"),
     ("a pipeline has no bound", "finish", "piped ? 0 : bound_of", "bound_of"),
     ("pipelines that cannot fit are left out", "may_fit", "others->over_bytes == 0 || rest < 0", "true"))
seed(unit("compiler", "hands", "hands/a_batch_too_small_for_several_nodes_is_split_within_one"),
     ("a small batch is split within a node", "batch_splits", "near > 1 &&", "false &&"))
seed(unit("compiler", "hands", "hands/ranks_share_the_updates_of_large_parameters_alone"),
     ("all ranks update small parameters where that is faster", "shard_from_choose", "== 0 ||", ">= 0 ||"))
seed(unit("compiler", "hands", "hands/a_table_of_two_lookups_is_updated_by_rows"),
     ("a table that is updated by rows has no sum of gradients", "hub_make", "hub->by_rows ? 0 :", "false ? 0 :"))
seed(unit("compiler", "tables", "tables/columns_lie_where_their_tables_are"),
     ("what lies on one rank is not taken as it lies by others", "redistribute", "pin_equal(&from->pin, &to->pin) && layout_same", "layout_same"))
seed(unit("compiler", "asserts"),
     ("what is asserted is no limit that the search keeps to", "explain_need", "limit > 0 && limit <= bytes_needed(c) - missing", "true"))
seed(ERRORS,
     ("a setting that is found is said once", "found_setting", "if (in == block) {", "if (false) {"))
seed(unit("compiler", "fits", "fits/stages_are_cut_again_for_what_is_missing"),
     ("stages are cut for memory", "cut_choose", "settings->stages < 2 ||", "true ||"))
seed(unit("compiler", "search", "search/work_is_bounded"),
     ("what is computed of parameters alone stands beside nothing", "sides_find", "node_is_leaf(node) || !varies[n]", "node_is_leaf(node)"))
seed(unit("compiler", "random_search"),
     ("auto takes no longer than the batch split beside hints", "all_solutions", "batch_splits(s);", ""),
     ("auto takes no longer than propagation", "all_solutions", 'vec_push(&s->arena, &s->found, ((Found){.how = "sharding_propagation"}));', ""),
     ("of plans about as fast the best in time and traffic is taken", "best_within", "time_and_traffic(cost) < time_and_traffic(&s->found.at[best].cost)", "false"))
seed(unit("compiler", "pairs"),
     ("the second of a pair sums over what the first made", "pairs_find", "f.made[node->in[product.operand]] >> product.summed & 1", "f.made[node->in[product.operand]] != 0"),
     ("a first product has a second", "pairs_find", "if (!second[n] && !(f.summed", "if (false && !(f.summed"),
     ("nothing is sent between the two of a pair", "across", "node->rule->factor[factor].reductions == 0", "true"))
seed(unit("compiler", "hands", "hands/*one_pair_by_hand"),
     ("pairs are tried with each number of groups of rows", "solve_with_pairs", "if (each ||", "if ("))
seed(unit("compiler", "hands", "hands/*pairs_by_hand"),
     ("pairs are tried with their rows among nodes", "solve_with_pairs", "s->fixed = strategies_of_pairs", "(void)strategies_of_pairs"))
seed(unit("compiler", "pipeline"),
     ("merged reshapes have one rule", "merge", "node->rule = &signature->rule;", ""))
seed(CLI,
     ("what would be more has a plus", "row_bytes", "then > now ? '+' : '-'", "then < now ? '+' : '-'"),
     ("an edited plan has no certificate", "renew", "plan->certificate = NULL;", ""),
     ("pcc check proves the plan", "check",
      "proof_check(&plan, &how, &proof, &error)", "true"),
     ("pcc proves what it writes", "pass_prove", "if (!c->options->prove) return true", "return true"))
seed(DUMPS,
     ("a sum that all need is an AllReduce", "plan_canonical", "COMM_ALL_REDUCE", "COMM_EXCHANGE"))
seed(unit("ir", "plan"),
     ("a certificate holds for one text", "read_certificate",
      "plan->certificate_bound && of != actual && !(flags & PLAN_IGNORE_CHECKSUM)", "false"))
seed(unit("proof", "settings"),
     ("updates are of the optimizer in the header", "update_agrees", "node->op != update_op[settings->optimizer]", "false"),
     ("updates have the numbers of the header", "numbers_agree", "a >= 0 && node->attr[a].f != said[i].number", "false"),
     ("a number is scaled for the parameters of its pattern", "scaled", "pattern_matches(settings->scales.at[i].path, parameter, NULL)", "false"),
     ("momentum looks ahead as the header says", "numbers_agree", "(node->attr[nesterov].i != 0) != settings->nesterov", "false"),
     ("every parameter is clipped to the header's norm", "clips_agree",
      'node->attr[op_attr(OP_clip, "norm")].f != clip', 'false'),
     ("the norm that is reported is of all gradients", "norms_agree",
      "root->op != OP_sqrt || !sums_squares(graph, root->in[0], gradients, all)", "root->op != OP_sqrt"),
     ("a norm has each gradient once", "squares_in", "left[node->in[0]]-- > 0", "left[node->in[0]] > 0"),
     ("the replicas' norms are of all their gradients", "norms_agree",
      "root->op != OP_replica_sum || !sums_squares(graph, root->in[0], gradients, all)", "root->op != OP_replica_sum"),
     ("every report of the header is known", "reports_agree",
      "if (k == NKNOWN) return differ(", "if (k == NKNOWN) continue; if (false) return differ("),
     ("an eval has an end", "eval_agrees", "settings->data != DATA_FILES && settings->steps == 0 && graph->inputs.n > 0", "false"),
     ("a slot belongs to its parameter", "update_agrees", "s->parameter != parameter", "false"),
     ("a step has the batches of the header", "batches_agree", "if (n != k) return differ(", "if (false) return differ("),
     ("a mean is over the batches of the header", "batches_agree", "return !mean", "return true"),
     ("a bucket keeps to its limit", "buckets_agree", "members > 1 && sum - most >= graph->settings.bucket_bytes", "false"))
seed(unit("proof", "copies"),
     ("a copy takes what its original takes", "same_value", "a->index == b->index", "true"),
     ("a copy is the same operator", "same_operator", "copy->op == original->op && ", ""),
     ("a copy has the same attributes", "same_operator", "attr_equal(&copy->attr[a], &original->attr[a])", "true"))
seed(unit("proof", "layout"),
     ("owners of a piece keep the same term", "find_near", "v->term[r] == v->term[rank]", "true"),
     ("groups of a reduction are kept apart", "comm_layouts", "(kind != COMM_ALL_REDUCE && kind != COMM_REDUCE_SCATTER)", "kind < NCOMMS"),
     ("a term's holder has the term's summed digits", "holder",
      "number_of(m->summed, m->nsummed, term) - only(m->summed, m->nsummed, at)", "number_of(m->summed, m->nsummed, term)"),
     ("a term comes from its own part", "receive_terms", "parts->part, piece.term", "parts->part / 2, piece.term"),
     ("owners of shares hold a term", "owners",
      "in_target && in_source && digit_of(d, rank) != digit_of(d, part)", "in_target || in_source"),
     ("shares are in the order of their owners", "receive_shares", "ranks_at(&own, i)", "ranks_at(&own, own.count - 1 - i)"),
     ("a group's members are in order", "group_members", "digits, n, i", "digits, n, count - 1 - i"),
     ("a sender sends to every receiver", "send_terms", "receiver == rank", "receiver <= rank"),
     ("uneven parts meet without a gap", "divide", "part : rest", "part : 0"),
     ("of uneven parts the first are one longer", "divide", "*begin + each + (part < rest)", "*begin + each + (part >= parts - rest)"),
     ("a piece stays in its box", "parts_settle", "end > p->within.end[dim]", "end > p->within.end[dim] + 1"),
     ("the proof's boundaries are those of boxes", "part_range", "v <= longer", "v < longer - 1"),
     ("sets of digits do not overlap", "set_add", "if (at < set->n && (high > set->low[at] || set->low[at] % high)) return false;", ""),
     ("a gather's source is within its target", "pattern_check", "!removed->n && up", "!removed->n"),
     ("a conversion is partial over digits of its source alone", "removed_digits", "!set_subtract(&a, &b, &rest)", "(set_subtract(&a, &b, &rest), false)"))
seed(unit("proof", "operators"),
     ("only linear operators take partial operands", "kernel_check", "if (!legal) return fail(", "if (false) return fail("),
     ("a product has at most one partial operand", "kernel_check",
      "(letters->linear == LINEAR_IN_ONE && npartial == 1)", "letters->linear == LINEAR_IN_ONE"),
     ("partial operands of a sum are partial over the same digits", "kernel_check", "!set_equal(&terms[i], &terms[which])", "false"),
     ("a maximum is not a partial sum", "kernel_check",
      "r != REDUCE_SUM && r != (int)letters->reduction && layout_count(out[k], out[k]->ndim + r)", "false"),
     ("a repeated dimension stays whole", "kernel_check",
      'if (layout_count(layout, d)) return fail(why, n, "a dimension that must be whole is split");', ""),
     ("a result is a sum over the indices that it lacks itself", "kernel_check", "set_add_set(&expected, &summed[k])", "set_add_set(&expected, &summed[0])"),
     ("a digit splits one index", "kernel_check", "!set_add_list(&all, layout, d)", "set_add_list(&all, layout, d), false"),
     ("a reshape keeps its elements on their ranks", "reshape_check", "if (ni != nj || memcmp(", "if (false && memcmp("))
seed(unit("proof", "steps"),
     ("a value is made once", "define", "walk->defined[i] != NEVER", "false"),
     ("values share a place only in place of their last operand", "memory_check",
      "!(in_place[i] && same && defined[other] < step && last[other] == step + fused_length(role, step) - 1)", "!same"),
     ("only elementwise results stand in place", "proof:goes_by_element", "letters.flat || (element && (same || !reads_it))", "true"),
     ("only operators with views make views", "is_view", "1 || !letters->view", "1"),
     ("a view is made only by ranks with a slice", "is_view", "has_slices(result->layout, to) &&", ""),
     ("a view stands at its operand", "is_view",
      "if (operand->place != result->place || operand->at != result->at || operand->version != result->version) return false;", ""),
     ("an old version is not read after it is overwritten", "use", "instance->version == 0 && overwritten >= 0", "false"),
     ("a source is still there at the wait", "steps_check", "if (!use(walk, start->in[0], walk->step)) return false;", ""),
     ("every request is waited for", "steps_check", "walk->pending[r] >= 0", "false"),
     ("a write stores its own operand", "write_step", "step->state || node->in[0] != instance->value", "step->state"))
seed(unit("compiler", "fuse"),
     ("what a later member reads keeps its memory", "take_over_fused", "goes_by_element(a, step_node(a, k), from) : !reads(step_node(a, k), from)",
      "goes_by_element(a, step_node(a, k), from) : true"),
     ("members of a fused step have one shape", "takes_element", "!alike(f, node->out[0]) ||", ""),
     ("a fused step ends in a sum over trailing dimensions", "takes_sum", "d == from->type.shape.ndim - 1 || ", ""),
     ("what a fused sum keeps lies together", "takes_sum", "++changes > 2", "++changes > 3"),
     ("a kernel is moved before waits that it does not need", "is_passable", "item->wait || ", ""),
     ("a kernel is not moved before what hides behind it", "is_passable", "(item->bucket > 0 && !graph_is_forward(g, source))", "true"),
     ("a kernel is not moved before what it needs", "needs_passed", "if (is_passed(f, node->in[i]) &&", "if (false && is_passed(f, node->in[i]) &&"))
seed(unit("proof", "fused"),
     ("an inner value is read in its fused step", "proof:use", "instance->place == PLACE_INNER && walk->defined[i] != walk->first", "false"),
     ("what a later member reads is not overwritten", "proof:may_overwrite", "s > walk->step && here", "false"),
     ("members that overwrite an operand go element by element", "proof:may_overwrite", "found && !goes_by_element(walk, &role->steps.at[s], operand, here)", "false"),
     ("results of a fused step do not overlap", "memory_check", "defined[other] < step", "true"),
     ("a reader looks where an inner value is read", "check_inner", "made[step->in[i]] != step->fused", "false"),
     ("an inner value is not reported", "read_role", "if (place == PLACE_INNER || place == PLACE_VIEW)", "if (place == PLACE_VIEW)"),
     ("fused steps are numbered in their order", "read_fused", "before ? before : last + 1", "1"),
     ("a fused step has no more members than a run has room for", "read_fused", "members < MAX_FUSED", "true"))
seed(unit("proof", "views"),
     ("what a view lies in is there as long as the view is read", "proof:use", "if (!use(walk, (int)instance->at, until)) return false;", ""),
     ("a step stores nothing over what it reads a view of", "overwrites", "some && all && !viewed", "some && all"),
     ("a view is of the operand that it is made of", "check_views", "result->at != step->in[0]", "false"),
     ("only operators that place elements have views", "check_views", "!op_table[step->op].places ||", ""),
     ("a view is made once", "check_views", "if (made[step->out[o]])", "if (false)"),
     ("a view is read after it is made", "check_views", "if (!made[step->in[i]])", "if (false)"),
     ("all results of a step are views, or none", "check_views", "nviews == 0 || nviews == step->nout ||", "true ||"),
     ("a view is not reported", "read_role", "place == PLACE_INNER || place == PLACE_VIEW)", "place == PLACE_INNER)"))
seed(unit("compiler", "views"),
     ("what a view lies in keeps its memory until the view is read", "lifetimes", "v >= 0; v = b->placement.view[v]", "v >= 0; v = -1"),
     ("all that read a view read it by strides", "all_read", "if (!is_read(v, r / MAX_IN, r % MAX_IN, at)) return false;", ""),
     ("a product that reads a view is the product of its copy", "gemm_same_digits", "a->b.transposed == b->b.transposed &&", ""),
     ("a view makes no product many", "gemm_same_digits", "a->m == b->m &&", ""),
     ("elementwise operators read views along their runs", "runs_are_whole", "at->stride[last] == 1", "true"),
     ("a view of a small part keeps no large tensor alive", "is_worth", "2 * bytes >= bytes_of(v, node->in[0])", "true"),
     ("a product is written by strides where it is the product of its copy", "takes_transpose", "f->uses[node->in[0]] > 1", "false"))
seed(unit("runtime", "functions"),
     ("a block with a number far from 0 is not computed as one without", "NEAR_LOOP", "> BITS_OF(limit)", "> BITS_OF((T)INFINITY)"),
     ("a block with such a number is computed anew from its operand, where it lies over it too", "NEAR_LOOP", "if (at[k] == to)", "if (at[k] == NULL)"),
     ("the tail of the normal distribution has what the rounding of the square takes", "bell_parts_f32", "fma_f32(x, x, whole * 1.38671875f)", "x * x + whole * 1.38671875f", "clip_scale"))
seed(unit("runtime", "views"),
     ("prun stores nothing over what a step reads a view of", "fit_result", "base != operand && overlap(m->executor, m->cursor, result, base)", "false"),
     ("copies of views are made where the backend has no kernel", "run_apart", "i < action->nviews", "i < 0"),
     ("copies of what one step reads do not overlap", "load_views", "used = results_room(graph, role, step, used, all->to);", "results_room(graph, role, step, used, all->to);"),
     ("memory counts the room for copies of views", "inner_room", "k < nviews; k++", "k < 0; k++"),
     ("results in a transpose go where its strides say", "view_operand", "call->rule->out[0], &in->local, call->rule->in[0]", "call->rule->in[0], &in->local, call->rule->in[0]"))
seed(unit("runtime", "fused"),
     ("prun looks where a fused step's results lie", "runtime:may_overwrite", "k > member ? here : found && !goes_by_element(m, &m->step[k], operand)", "false"),
     ("prun lets no results of a fused step overlap", "fit_result", "stores(m, k, o) && overlap(m->executor, m->cursor, result, m->step[k].out[o])", "false"),
     ("nothing is read through a view of what the step has overwritten", "chain_build", " || reads_overwritten(chain)", ""),
     ("what a backend declines runs member by member", "fuse_step", "return error->text[0] ? -1 : 0", "return error->text[0] ? -1 : 1"),
     ("memory counts the room for inner values", "executor_memory", "+ inner_room(own, role, NULL)", ""))
seed(PROVED,
     ("a term's holder agrees with its receiver", "holder", "at += part - only(m->source, m->nsource, at)", "at = part"),
     ("a term's holder has the source part", "holder", "at += part - only(m->source, m->nsource, at)", "(void)part"),
     ("every term is added once", "receive_terms", "parts->part, piece.term", "parts->part, piece.term ? piece.term - 1 : 0"),
     ("owners of shares hold a term", "owners",
      "if (count > 0) *ranks = (Ranks){.count = count, .list = m->list}; return; } *ranks = (Ranks){0};",
      "if (count > 0) *ranks = (Ranks){.count = count, .list = m->list}; return; } needers(m, rank, ranks); if (part >= 0) return;"),
     ("shares are in the order of their owners", "receive_shares", "ranks_at(&own, i)", "ranks_at(&own, own.count - 1 - i)"),
     ("a group's members are in order", "group_members", "digits, n, i", "digits, n, count - 1 - i"),
     ("uneven parts meet without a gap", "divide", "part : rest", "part : rest - (rest > 1)"),
     ("of uneven parts the first are the longer", "divide",
      "part * each + (part < rest ? part : rest); *end = *begin + each + (part < rest)",
      "part * each + (part > parts - rest ? part - (parts - rest) : 0); *end = *begin + each + (part >= parts - rest)"),
     ("groups of a collective are kept apart", "comm_layouts",
      "void comm_layouts(CommKind kind, int nranks, Layout *from, Layout *to) {",
      "void comm_layouts(CommKind kind, int nranks, Layout *from, Layout *to) { kind = COMM_EXCHANGE;"))
seed(PROVED,
     ("an AllReduce sums over the digits that are partial", "plan_canonical",
      "if (!add_step(task, most, plan, COMM_ALL_REDUCE, &next, NULL))",
      "Layout more = next; with_list(&more, 0, layout_list(&more, 0), layout_count(&more, 0) - (layout_count(&more, 0) > 0), &next); $0"),
     ("a sum is no gather", "plan_canonical", "COMM_ALL_REDUCE", "COMM_ALL_GATHER"),
     ("an exchange of splits is no gather", "collective_of", "COMM_ALL_TO_ALL", "COMM_ALL_GATHER"),
     ("a conversion without bytes is a slice", "direct_of", "direct.links.messages == 0 && traffic_exchange(from, to, task->shape, task->nranks) == 0", "direct.links.messages < 2"))
seed(PROVED,
     ("columns of a product come from its second operand", "rule_matmul",
      "(int8_t)fk; rule->in[1][dim_n] = (int8_t)fn",
      "(int8_t)(ka == n && nbatch == 0 ? fn : fk); rule->in[1][dim_n] = (int8_t)(ka == n && nbatch == 0 ? fk : fn)"),
     ("a transposition moves factors with its dimensions", "rule_transpose",
      "rule, (int)from", "rule, in[0].shape.dim[0] == in[0].shape.dim[ndim - 1] ? ndim - 1 - (int)from : (int)from"),
     ("a reshape splits only by what divides its factors", "rule_reshape",
      "rule->factor[f].divides = !single", "rule->factor[f].divides = false"),
     ("a sum is linear in both operands together only", "BINARY_OP(add)", "LINEAR_JOINT", "LINEAR_EACH", "rule_infer"),
     ("a product is linear in one operand at a time", "BINARY_OP(mul)", "LINEAR_EACH", "LINEAR_JOINT", "rule_infer"),
     ("a square is not linear", "UNARY_OP_X(square)", ".flops = 1", ".flops = 1, .linear = LINEAR_JOINT", "rule_infer"),
     ("a split factor makes a result that lacks it a partial sum", "strategy_out_layout",
      "strategy_count(strategy, f) > 0 && !rule_out_has(node->rule, result, f)", "false"),
     ("a partial operand is converted", "obtain_canonical", ".layout == layout ?", ".layout == layout || layout_is_partial(m->spmd->graph.values.at[value].layout) ?"),
     ("a conversion begins at its source's layout", "convert_by", "g->values.at[value].layout, to", "to, to"),
     ("a conversion makes its own target", "obtain_planned",
      "if (tree->wanted.at[i].layout == layout) return make(m, tree, root, i)", "return make(m, tree, root, 0)"))
seed(PROVED,
     ("a converted value is waited for before it is read", "require", "if (node->comm != COMM_STRIDED_SLICE) emit_all(s, n, true);", ""),
     ("a source lasts until the wait", "lifetimes", "a->last[v] = a->end[i]", "if (!b->placement.order.at[i].wait) a->last[v] = a->end[i]"),
     ("an operand that is read again is not overwritten", "take_over", "a->last[from] != step ||", ""))
seed(PROVED,
     ("only a division by 1 is dropped", "neutral", "is_constant(g, b, 1)", "(is_constant(g, b, 1) || is_constant(g, b, 2))"),
     ("only a factor of 1 is dropped", "neutral", "is_constant(g, a, 1)", "is_constant(g, a, 2)"),
     ("only inverse transpositions cancel", "inverse",
      "if (permutation(inner, ndim, permutation(node, ndim, i)) != i) return -1", "(void)permutation(inner, ndim, i)"),
     ("a negation is not dropped", "inverse",
      "if (inner->op != node->op || inner->hint != NULL) return -1",
      "if (node->op == OP_neg) return node->in[0]; if (inner->op != node->op || inner->hint != NULL) return -1"),
     ("softmax's gradient subtracts the row's sum", "split_softmax_grad", "OP_sub, dy", "OP_add, dy"),
     ("softmax divides by the row's sum", "split_softmax", "OP_div, powers", "OP_mul, powers"),
     ("a row is shifted by its maximum", "powers_of", "node, OP_max", "node, OP_sum"),
     ("mean squared error multiplies differences", "expand_mse", "graph, OP_mul", "graph, OP_add"))
seed(script("states", "compiler/pcc", "States.test_a_state_takes_the_mean_over_accumulated_batches"),
     ("a state takes the mean of its batches", "mean_writes", "1.0 / k", "1.0"),
     ("each batch of a step counts in what is written", "add_writes", "copy[first[i]]", "first[i]"))
seed(script("states", "runtime/prun", "States.test_what_is_dropped_does_not_depend_on_ranks_or_strategies"),
     ("random numbers are of the whole tensor's index", "numbers_fill", "numbers_at(&numbers, index) + (uint64_t)first", "numbers_at(&numbers, index)"))
seed(script("functions", "compiler/pcc", "Functions.test_labels_that_are_ignored_and_smoothing"),
     ("labels that are ignored lose nothing", "expand_cross_entropy", "OP_not_equal", "OP_equal"),
     ("smoothing takes of the label what it gives to all, where classes are split too", "split_cross_entropy_rows", "number, NULL, 1 - s", "number, NULL, 1"))
seed(script("classes", "runtime/prun", "Classes.test_losses_are_the_formulas_however_rows_and_classes_are_split"),
     ("the gradient of split classes is that of this rank's", "loss_run", "x->box.begin[last]", "0"))
seed(unit("proof", "operators"),
     ("proof: classes of which a loss is computed are whole", "class_loss_letters", "d < x.ndim - 1 || gradient ?", "true ?"))
seed(unit("ir", "adjoint"),
     ("the gradient of a row's loss has the row's sum", "adjoint_cross_entropy_rows", "forward.out[2]}", "forward.out[1]}"))
seed(unit("proof", "semantics"),
     ("what is given a number a row is not computed element by element", "op_elementwise", "op_table[op].in_place && !op_table[op].by_rows", "op_table[op].in_place"))
seed(PROVED,
     ("gradients of one value are summed", "accumulate", "grad[value] < 0", "true"),
     ("every operand gets its gradient", "backward",
      "grads->active[node.in[i]]", "grads->active[node.in[i]] && !(i == 1 && node.op == OP_sub)"),
     ("gradients by products and by others are both summed", "complete", "if (others >= 0) accumulate(g, grads->sum, value, others);", ""),
     ("the gradient begins with 1", "backward_once", "scale, 1)", "scale, 2)"),
     ("a product's gradient has its operand's order", "product_grad",
      "int value = graph_emit_gradient(graph, node, OP_einsum",
      "if (dy_first && other_type->shape.ndim == 2 && other_type->shape.dim[0] == other_type->shape.dim[1]) { "
      "char *letters = (char *)attr[0].text, letter = letters[3]; letters[3] = letters[4], letters[4] = letter; "
      "part[0] = part[1] = PART_NONE; } $0"),
     ("the gradient of a transpose is the inverse permutation", "adjoint_transpose",
      "attr[0].ints[perm->ints[d] < 0 ? perm->ints[d] + perm->n : perm->ints[d]] = d; dx[0] = emit1(graph, node, OP_transpose, dy[0], PART_OUT, 0,",
      "attr[0].ints[d] = perm->ints[d]; dx[0] = emit1(graph, node, OP_transpose, dy[0], PART_NONE, PART_NONE,"),
     ("the gradient of a mean is divided by its count", "adjoint_mean", "OP_mean_grad", "OP_sum_grad"),
     ("the gradient of a divisor has the quotient as a factor", "adjoint_div",
      "emit2(graph, node, OP_mul, scaled, PART_OUT, y, PART_OUT, PART_OUT, grad_name(graph, node, 1))", "scaled"),
     ("the gradient of a divisor is negative", "adjoint_div",
      "emit1(graph, node, OP_neg, unbroadcast(graph, node, product, 1), 1, 1, NULL, grad_name(graph, node, 1))",
      "unbroadcast(graph, node, product, 1)"),
     ("the gradient of a difference's second operand is negated", "adjoint_sub",
      "emit1(graph, node, OP_neg, sum, 1, 1, NULL, grad_name(graph, node, 1))", "sum"),
     ("the gradient of exp is a product with its result", "adjoint_exp", "node, OP_mul", "node, OP_relu_grad"),
     ("every function has its own gradient", "adjoint_of_result", "(OpCode)op_table[graph->nodes.at[node].op].gradient", "OP_tanh_grad"),
     ("gradients of parts are joined in their order", "adjoint_split", "in[o] = dy[o] >= 0", "in[forward.nout - 1 - o] = dy[o] >= 0"))
seed(MUTANTS,
     ("a value is readable after its wait", "use", "walk->readable[i] >= walk->step", "walk->defined[i] >= walk->step"),
     ("a step reads its node's operands", "kernel_step", "instance->value != node->in[k]", "false"),
     ("a step makes its node's results", "kernel_step", "instance->value != node->out[k]", "false"),
     ("a leaf stands at its state", "leaf_check", "node->op != OP_input || node->state != instance->at", "false"),
     ("a leaf has its state's version", "leaf_check", "node->state != instance->at || node->version != instance->version", "false"),
     ("a conversion keeps the value", "conversion_step", "from->value != to->value", "false"),
     ("a conversion is shown to be right", "conversion_step",
      "if (shown_before(shown, step->comm, from->layout, to->layout, &alike)) return true", "return true"),
     ("a report is complete", "report_check", "layout_is_partial(own->layout)", "false"),
     ("a report is its own value", "report_check", "own->value != value", "false"),
     ("live values do not overlap", "memory_check", "at < nlive && live[at].begin < range.end", "false"),
     ("a kernel's operands are split alike", "kernel_check",
      "!own_list_same(where[letter], list[letter], layout, d, letters->size[letter])", "false"),
     ("a kernel's result is partial as its operands and letters say", "kernel_check", "!set_equal(&result, &expected)", "false"),
     ("a collective has the layouts of its kind", "pattern_check",
      'if (!ok) snprintf(why, n, "the layouts are not those of %s"', 'ok = true; if (!ok) snprintf(why, n, "the layouts are not those of %s"'))
seed(unit("ops", "kernels", "kernels/products*"),
     ("a product adds up its pieces", "multiply_tile", "m, n, g->k, 1, i > 0, out", "m, n, g->k, 1, false, out"),
     ("a matrix has its own leading dimension", "matrix_of", "rows == 1 || row_stride < columns ? columns : row_stride", "columns"),
     ("what BLAS cannot do is done by a plain loop", "run_whole",
      "!reference_einsum(call, error)", "false"))
seed(unit("ops", "kernels", "kernels/planes*"),
     ("a tap's gradient is 0 where it sees nothing", "onednn_convolve", "if (c->partial && c->op == OP_conv2d_grad_w) memset(of->w->data, 0, (size_t)operand_bytes(of->w));", ""),
     ("what no tap sees has the gradient 0", "tiles_part", "if (result == X && c->partial) clear_unseen(r, k, group);", ""),
     ("a tile's sums are added to those before it", "sums_part", "if (r->first > 0) add_floats", "if (false) add_floats"),
     ("sums of tiles at the same time are added up", "blocks_part", "n < c->together", "n < 1"),
     ("a kernel's gradient begins with the first tap that sees something", "view", "at[0].first_tap * p->window[1].size + at[1].first_tap", "0"),
     ("the last tile may have fewer images", "tile_at", "i == c->tiles - 1 && c->rest.run ? &c->rest : &c->tile", "&c->tile"),
     ("a window sees the first of the elements that tie", "POOLING", "(row[l] > best[l])", "(row[l] >= best[l])"))
seed(unit("ops", "kernels", "kernels/e*"),
     ("a small product adds up its pieces", "multiply_tile", "tiny_f64(g, m, n, a, b, i > 0, out)", "tiny_f64(g, m, n, a, b, false, out)"))
seed(unit("ops", "kernels", "kernels/movements*"),
     ("a transposed tile is read across", "COPY", "in[i + j * in_stride]", "in[j + i * in_stride]"))
seed(unit("runtime", "kernels"),
     ("sums of f32 are added in f64", "SUM", "lane[l] += (Acc)x[i + l]", "lane[l] = (Acc)(T)(lane[l] + (Acc)x[i + l])"),
     ("momentum steps by its slot", "MOMENTUM", "momentum * slot : slot", "momentum * slot : g[i]"),
     ("the slot is updated before the parameter", "MOMENTUM", "momentum * v[i] + (decay == 0 ? g[i] : g[i] + decay * w[i])", "v[i]"))
seed(unit("runtime", "chain", "chain/elementwise*"),
     ("a block may begin anywhere in what is kept of an operand", "cpu_chain_block", "first % cpu->period[from]", "0"),
     ("what is kept of an operand goes on for a block", "cpu_chain_begin", "(cpu->period[l] + cpu->block) * bytes", "cpu->period[l] * bytes"))
seed(unit("runtime", "chain", "chain/*sum*"),
     ("rows that follow each other again are added up", "PIECE_SUM", "t < sum->times", "t + 1 < sum->times"),
     ("a span's columns are added up in a fused step too", "PIECE_SUM", "acc += sums[r * n + i]", "acc += sums[r * n]"))
seed(unit("ops", "kernels", "kernels/reductions*"),
     ("all columns of a span are added up", "REDUCE", "for (int64_t i = 0; i < span; i++)", "for (int64_t i = 1; i < span; i++)"),
     ("a mean over replicas is divided in place too", "kernel_replica_sum", "one && !call->attr[0].i", "one"))
seed(OPS,
     ("a mean divides by the global count", "nest_reduce", "(double)in->global.dim[d]", "(double)in->local.dim[d]"),
     ("a mean's gradient divides by the global count", "runtime/cpu:kernel_mean_grad",
      "(double)shape_elements(&out->global) / (double)shape_elements(&dy->global)",
      "(double)shape_elements(&out->local) / (double)shape_elements(&dy->local)"),
     ("every replica has its own slice", "operand_slice",
      "slice * shape_elements(&operand->local)", "0 * slice * shape_elements(&operand->local)"),
     ("a slice begins at its own element", "convert_begin", "out->begin[d] - in->begin[d]", "0"),
     ("gradients of copied sources are not summed", "strategy_from_origin",
      "strategy_follow(strategy, f, origin, node->origin_factor[f]);", "(void)origin;"),
     ("a partial operand is converted", "obtain_canonical", ".layout == layout ?", ".layout == layout || layout_is_partial(m->spmd->graph.values.at[value].layout) ?"))
seed(DIFFERENCES,
     ("the gradient of a divisor has the quotient as a factor", "adjoint_div",
      "emit2(graph, node, OP_mul, scaled, PART_OUT, y, PART_OUT, PART_OUT, grad_name(graph, node, 1))", "scaled"),
     ("the gradient of exp is a product with its result", "adjoint_exp", "node, OP_mul", "node, OP_relu_grad"))
seed(unit("ir", "rule"),
     ("what a table's other rows are takes no FLOPs", "points_of", "!rule->factor[f].looked_up", "true"),
     ("an update of rows computes each that comes", "table_update", "shape_elements(index)", "0"))
seed(unit("runtime", "data"),
     ("many random numbers may begin within a block", "numbers", "block + skipped", "block"),
     ("vectors of random numbers count beyond 32 bits", "uniform_avx2", "_mm256_srli_epi64(x[v][0], 32)", "_mm256_setzero_si256()"))
seed(unit("runtime", "state"),
     ("initial values do not depend on the split", "fill_box", "fill, first", "fill, 0"))
seed(unit("runtime", "threads", "threads/products"),
     ("a product's tiles do not depend on the threads", "einsum_with",
      "product_run(&product, call_pool(call))",
      "product.rows = 1 + product.rows / pool_threads(call_pool(call)); product_run(&product, call_pool(call))"))
seed(unit("ir", "pool"),
     ("each item is some thread's", "take_items", "atomic_fetch_add(&items->next, 1)", "atomic_fetch_add(&items->next, 2)"),
     ("the parts of a loop cover it", "run_part", "begin + size + (part < rest)", "begin + size"),
     ("a range of a loop is run once", "take_range", "return atomic_compare_exchange_strong_explicit(...)", "return true"),
     ("a range that no worker has begun is the caller's", "pool_run", "int i = pool->parts - 1; i > 0; i--", "int i = 0; i > 0; i--"))
seed(unit("runtime", "exec"),
     ("a deadlock is an error", "run_actions", "report_deadlock(executor, error)", "true"))
seed(INTEGERS,
     ("sums of integers over ranks wrap around", "ADD_WRAPPING",
      "(uint32_t)(a) + (uint32_t)(b)",
      "(int64_t)(a) + (b) > INT32_MAX ? INT32_MAX : (int64_t)(a) + (b) < INT32_MIN ? INT32_MIN : (int64_t)(a) + (b)"),
     ("a maximum of i64 is exact", "COMBINE(combine_i64_max)",
      "COMBINE(combine_i64_max, int64_t, MAXIMUM)",
      "#define ROUNDED(a, b) ((double)(a) >= (double)(b) ? (a) : (b))\nCOMBINE(combine_i64_max, int64_t, ROUNDED)"))
seed(unit("runtime", "kernels"),
     ("sums of i32 wrap around", "REDUCE(i32)", "(int32_t)acc", "(int32_t)(acc >> 31 ? INT32_MAX : acc)"))
seed(unit("ops", "kernels", "kernels/unary*"),
     ("a cast to i32 wraps around", "integer_cast", "x[0]", "(int64_t)x[0] > INT32_MAX ? INT32_MAX : x[0]"))
seed(unit("runtime", "verify"),
     ("--verify moves constants that are added up", "disturber_set", "move_constants(disturber, executor);", ""),
     ("--verify's tolerance is of rounding only", "compare", "double tolerance = (8 +", "double tolerance = 1e6 * (8 +"),
     ("--verify takes a step again where a kink is crossed", "compare_step", "seed == MORE_TRIES", "seed == 0"),
     ("--verify begins each step with the states that it compares", "set_reference",
      "!executor_set_state(verifier->reference, verifier->state[i], moved, error)",
      "verifier->nsteps == 0 && !executor_set_state(verifier->reference, verifier->state[i], moved, error)"))
seed(unit("runtime", "comm_local"),
     ("sent bytes are counted once", "group_move",
      "counters[peer->rank].sent_bytes += peer->moved_bytes", "counters[peer->rank].sent_bytes += 2 * peer->moved_bytes"),
     ("a rank waits until its group has started", "runtime/comm:local_wait",
      "if (request->rank[r].group == rank->group && !request->rank[r].started) return COMM_PENDING;", ""),
     ("the first term of a sum is copied, not added", "pulls_execute", "pull->add || s > 0", "true"))
seed(unit("runtime", "comm_piece"),
     ("a share begins where it begins within its run", "walk_init", "piece->first % walk->unit", "0"),
     ("terms are added one after another", "COMBINE", "OP(OP(a[i], b[i]), c[i]), d[i]", "OP(a[i], b[i]), OP(c[i], d[i])"))
seed(script("ranks", "runtime/prun", "Orphans.test_shared_memory_of_killed_jobs_is_removed_by_the_next"),
     ("only memory of ended jobs is removed", "is_over", "if (marks->at.at[i].job == job && marks->at.at[i].fd < 0) return false;", ""))
seed(unit("runtime", "comm_heap"),
     ("freed neighbours become one block", "heap_free", "heap_merge(heap, i - 1);", ""))
seed(unit("runtime", "checksum"),
     ("a box's checksum is compared", "checksums_compare", "if (found != written) *damaged = element;", ""),
     ("a header's checksum is compared", "checksums_open", "header != file->header_checksum", "false"),
     ("parts of a check cover all boxes", "checksums_compare", "element % parts != part", "element % parts != part || part == 1"),
     ("a box has the number of its digits", "box_number",
      "number * layout->digit[i].size + digit_of(layout->digit[i], position)", "number + digit_of(layout->digit[i], position)"))
seed(commtest("kinds", "shared"),
     ("two uses in a row have two slots", "source_base", "request->epoch", "~request->epoch"),
     ("received bytes are counted", "round_execute", "job->counters.received_bytes += peer->moved_bytes;", ""))
seed(commtest("kinds", "messages"),
     ("bytes in messages are counted once", "messages_send",
      "job->message_bytes += p->walk.count * bytes", "job->message_bytes += 2 * p->walk.count * bytes"),
     ("parts of a message stand one behind the other", "sent_add",
      "sent->transfer, .message_bytes = message->bytes", "sent->transfer, .message_bytes = 0"))
seed(commtest("sweep", "messages", 4),
     ("terms are added in the order of ranks", "COMBINE", "OP(OP(a[i], b[i]), c[i]), d[i]", "OP(a[i], b[i]), OP(c[i], d[i])"))
seed(script("manual", "compiler/pcc", "Manual.test_messages_and_their_gradient"),
     ("a message comes from the rank that sends it", "received", "row[r] = from[r]", "row[r] = sent->to[r]"))
seed(script("manual", "compiler/pcc", "Manual.test_every_call_and_its_gradient"),
     ("each rank has its own part of what is divided", "over_group", "(halves ? place : 0)", "0"))
seed(ERRORS,
     ("a message that nobody sends is an error", "matched", "source >= 0 && sent->to[source] != r", "false"))
seed(script("reference", "compiler/pcc", "OneFlow.test_mean_of_gradients_gives_oneflows_losses_to_the_last_digit"),
     ("gradients are averaged where the net says so", "graph_replicate", "graph->settings.gradients_mean", "0"))
seed(script("reference", "runtime/prun", "Quickstart.test_losses_on_8_ranks_with_the_hint"),
     ("momentum has the net's factor", "kernel_momentum", 'attribute(call, "momentum")', "0"))
seed(script("loss_scale", "compiler/pcc", "LossScale.test_as_grad_scaler_on_any_ranks"),
     ("gradients are divided by the scale that they were multiplied by", "loss_scale_begin", "number(g, F32, 1), s->old_scale", "number(g, F32, 1), number(g, F32, 65536)"))
seed(script("updates", "runtime/prun", "Updates.test_every_optimizer_computes_what_pytorch_does"),
     ("nesterov looks ahead", "MOMENTUM", "+ momentum * slot : slot", "+ momentum * v[i] : slot"),
     ("lamb's decay is part of its direction", "kernel_lamb_step", '.shrink = attribute(call, "weight_decay")', ".shrink = 0"),
     ("lamb's rate is the ratio of its norms", "kernel_lamb", "sqrt(of_w) / sqrt(of_u)", "of_w / of_u"),
     ("adafactor's step grows with its parameter", "kernel_adafactor", 'fmax(attribute(call, "eps2"), of_w)', 'attribute(call, "eps2")'),
     ("lion's slot has a share of its own", "LION", "slot = beta2 * m[i] + rest2 * g[i]", "slot = beta1 * m[i] + rest1 * g[i]"))
seed(script("updates", "compiler/pcc", "Updates.test_every_optimizer_computes_what_pytorch_does"),
     ("adafactor's estimate is over the mean of its rows", "adafactor_direction", "at_least(a, mean_along(a, rows, -2), eps1)", "number(a, 1)"),
     ("an average begins as the parameter", "average", "number(a, 1), number", "number(a, 0.5), number"),
     ("of several patterns the last holds", "settings_scale", "            factor = settings->scales.at[i].factor;", "            return settings->scales.at[i].factor;"))
seed(script("functions", "compiler/pcc", "Functions.test_conv1d_and_operators_that_cells_have_the_names_of"),
     ("a call that fits an operator alone is the operator's", "cell_called", "!fits_cell(cell, call)", "false"),
     ("a cell's parameter without a default is given", "fits_cell", "|| (given == 0 && !entry->value)", ""))
seed(script("functions", "compiler/pcc", "Functions.test_cells_refuse_numbers_that_mean_nothing"),
     ("what a cell requires holds", "require_lower", "if (holds) return true;", "return true;"),
     ("behind what does not hold nothing is looked at", "statements_lower", "statement->kind == STATEMENT_REQUIRE", "false"))
seed(script("einsum", "compiler/pcc", "Einsum.test_pairs_are_in_the_order_of_the_fewest_multiplications"),
     ("pairs are in the cheapest order", "find_order", "cost >= order->cost[set]", "cost < order->cost[set]"))
seed(script("einsum", "compiler/pcc", "Einsum.test_values_and_gradients"),
     ("joined dimensions are in one order in both factors", "contract", "p.ninner = append(e, shared & ~kept, a, p.inner)",
      "p.ninner = append(e, shared & ~kept, a, p.inner), p.ninner -= p.ninner > 1"),
     ("joined dimensions are those of the result", "matrix_product", "(p->nrows == 1 && p->ncolumns == 1) ||", "true ||"))
seed(script("samples", "runtime/prun", "Verify.test_another_momentum_makes_a_state_differ_once_there_is_velocity"),
     ("--verify compares every state", "compare_outcome", "i < graph->states.n", "i < 0"))
seed(script("samples", "runtime/prun", "Samples.test_quickstart_computes_on_all_ranks_what_it_does_on_one"),
     ("what prun sends is what pcc predicted", "executor_sent_bytes",
      "executor->comm->counters[driven].sent_bytes - executor->gathers->bytes[driven]", "executor->comm->counters[driven].sent_bytes / 2"))
seed(script("same", "compiler/pcc", "Same.test_every_sample_compiles_to_the_same_bytes_and_dumps_again"),
     ("a plan depends on the net and the options only", "options_line",
      '"mode=%s search=%s -O%d redistribution=%s%s"', '"%p mode=%s search=%s -O%d redistribution=%s%s", (void *)c'))
seed(script("same", "compiler/pcc", "Same.test_the_hash_is_of_the_net_and_not_of_ranks_strategies_or_level"),
     ("a net's hash does not depend on the mode", "print_settings",
      'if (!printing->net) { text_printf(text, "parallel mode=%s search="', 'if (true) { text_printf(text, "parallel mode=%s search="'))
seed(script("checksums", "runtime/prun", "Checksums.test_only_what_is_taken_has_to_be_intact"),
     ("a checkpoint's boxes are compared", "compare_boxes", "ok && first >= 0", "false"),
     ("the boxes of an optimizer's states are compared too", "compare_boxes",
      "own < 0 && i < n; i++", "own < 0 && 2 * i < n; i++"))
seed(script("changes", "runtime/prun", "Changes.test_an_eval_is_standardized_by_the_rows_of_training_which_the_saved_file_keeps",
            "Changes.test_training_agrees_with_one_rank_and_a_resumed_one_keeps_its_means"),
     ("rows are standardized by those of training alone", "data_find_figures", "row[k] = data->part ? data->part[k] : k", "row[k] = k"),
     ("an eval's rows are standardized by those of training", "data_share_figures", "data->known[i] = of->known[k]", "data->known[i] = of->known[k == 0]"),
     ("a mean is that of fields that are there", "find_row", "if (isnan(number)) continue", "if (isnan(number)) { finding->seen[k]++; continue; }"),
     ("means that a file has hold", "load", "ok = ok && comm_agree(comm, figures_load(&file, executor, error), error)", "ok = ok && true"))
seed(script("eval", "runtime/prun", "Evaluation.test_the_area_under_a_curve_counts_pairs_of_rows_and_halves_of_equal_ones"),
     ("equal scores of two classes count half", "metric_area", "of_0[up_to] <= of_1[i]", "of_0[up_to] < of_1[i]"),
     ("rows that fill up a batch have no score", "add_scores", "element_at(part.data, part.type->dtype, i + 2) > 0", "i >= 0"),
     ("a replica's scores are added once", "gather_scores", "i >= counts[p] ||", "i > counts[p] ||"))
seed(script("eval", "compiler/pcc", "Evaluation.test_a_penalty_is_what_no_data_goes_into_once_on_any_ranks"),
     ("a penalty that is taken off counts below 0", "join_terms", 'return graph_emit(graph, OP_neg, &in[1], 1, NULL, "loss.penalty", node->span);', "return in[1];"),
     ("what multiplies a loss multiplies its penalty", "loss_penalty", 'graph_emit(loss->graph, node.op, in, node.nin, NULL, "loss.penalty", node.span)', "in[scales && !loss->depends[node.in[0]]]"),
     ("a penalty that is a state is the one before the update", "copy_reported", "from->op == OP_read", "false"))
seed(script("launch", "runtime/prun", "Launch.test_another_number_of_ranks_than_the_plans_is_said_before_any_is_waited_for", "Launch.test_local_ranks_are_those_of_a_launch"),
     ("ranks are compared with the plan's before any is waited for", "launch_fits", "needs == nranks", "true"),
     ("local ranks are those of a launch", "nodes_find", "comm->launch_rank < 0", "true"))
seed(unit("runtime", "print"),
     ("numbers next to 0 have fewer digits", "shortest_digits", "number < (single ? (double)FLT_MIN : DBL_MIN)", "false"))
seed(unit("runtime", "sampler"),
     ("uneven = pad fills the shares of an epoch up", "sampler_even", "sampler->rows + sampler->world - odd", "sampler->rows + odd"))
seed(script("pictures", "runtime/prun", "Pictures.test_random_parts_and_flips_are_the_same_on_any_ranks_and_others_in_each_epoch"),
     ("parts of pictures are others in each epoch", "change_picture", "(uint64_t)epoch * (uint64_t)pictures->count + (uint64_t)row", "(uint64_t)row"),
     ("parts of pictures are by the row, not by the place in a batch", "rows_read_whole", "rows_read(rows, row[i], epoch,", "rows_read(rows, row[i], epoch * n + i,"),
     ("a picture that is ready is that of the row", "pictures_read", "pictures->ready_row == row", "pictures->ready_row >= 0"))
seed(script("pictures", "runtime/prun", "Pictures.test_a_picture_that_is_damaged_is_named"),
     ("pictures are looked at before training", "open_pictures", "rows->pictures && pictures_look(rows->pictures, error)", "rows->pictures != NULL"),
     ("what libjpeg warns of is damage", "jpeg_warns", "level < 0", "level < -1"),
     ("a name of a picture that leads nowhere is named", "names_in", "!there && !folders", "false"))
seed(script("pictures", "runtime/prun", "Pictures.test_a_label_out_of_range_is_said_before_training"),
     ("labels of pictures are looked at before training", "pictures_look", " || !label_fits(pictures, row, label, error)", ""))
seed(script("changes", "runtime/prun", "Changes.test_an_infinite_number_has_no_mean_and_is_named"),
     ("an infinite number that has no mean is named", "rows_find_figures", "finding.infinite_row >= 0", "false"))
seed(script("data", "runtime/prun", "Data.test_what_is_wrong_with_a_file_is_said_once"),
     ("integers of files are looked at before training", "look_at_integers", "!rows->map || ", "true || "))
seed(unit("runtime", "wordpiece"),
     ("a vocabulary is UTF-8", "read_vocabulary", "!text_is_utf8(line, bytes)", "false"))
seed(script("pictures", "runtime/prun", "Pictures.test_folders_are_classes_and_pngs_of_all_kinds_are_pixels", "Pictures.test_cifar10_of_several_files"),
     ("classes are in the order of their names", "names_in", "qsort(names->at, (size_t)names->n, sizeof *names->at, by_name)", "(void)by_name"),
     ("a byte's number is of its channel", "read_bytes", "(channel + 1) * each - first < n ? (channel + 1) * each - first : n", "n"))
seed(script("changes", "runtime/prun", "Changes.test_classes_that_are_found_are_those_of_training_everywhere"),
     ("classes that training found are a file's", "load_input", "input->file.find_classes ||", "false ||"),
     ("found classes are in order", "find_record", "strcmp(found->name[middle], name) < 0", "strcmp(found->name[middle], name) > 0"))
seed(script("data", "runtime/prun", "Data.test_texts_are_bytes_or_characters_of_an_alphabet", "Data.test_a_text_that_several_inputs_read_is_tokenized_once"),
     ("a text of several inputs is tokenized once", "same_texts", "b->tokens == TOKENS_IDS", "false"),
     ("the places behind a text's characters hold none of them", "tokens_encode", "tokens->kind == TOKENIZER_CHARACTERS ? tokens->nletters : 0", "0"))
seed(script("data", "runtime/prun", "Data.test_noise_beside_files_is_of_the_row_and_the_epoch"),
     ("noise beside files is another in each epoch", "run_beside_files", "data->sampler.epoch * data->whole + ", ""),
     ("noise beside files is of the row", "run_beside_files", "row_of_file(data, step, place)", "step * data->batch + place"))
seed(script("states", "runtime/prun", "States.test_a_row_of_a_file_has_the_same_mask_whichever_rank_has_it"),
     ("random numbers of a row are by its place in the epoch", "numbers_begin", "numbers->world = data->sampler.world", "numbers->world = 1"),
     ("random numbers of replicas are those of one rank's rows", "numbers_begin", "numbers->replica_rows = rows", "numbers->replica_rows = 0"),
     ("a row's random numbers are a run of them", "numbers_begin", "shape->dim[numbers->row_dim] / rows", "1"))
seed(script("states", "compiler/pcc", "States.test_a_row_of_a_file_has_the_same_mask_whichever_rank_has_it"),
     ("random numbers have rows where the value has them whose shape they have", "batch_rows_trace", "graph->inputs.at[node->state].kind == INPUT_RANDOM", "false"),
     ("rows of one are followed too", "batch_rows_trace", "if (batch > 1) continue;", "if (batch > 1) continue; result->at = leads ? first : -1;"))
seed(unit("runtime", "rows"),
     ("neighbours are counted from the first row that is used", "read_run", "row += rows->file.first;", ""),
     ("a row that is no neighbour is read for itself", "rows_read_whole", "row[i + run] == row[i] + run", "row[i + run] > row[i]"),
     ("numbers that are changed do not lie in the file as they are", "is_plain", "file->change.scale == 0 && ", ""))
seed(script("data", "runtime/prun", "Data.test_rows_are_split_alike_on_all_ranks_and_an_eval_has_the_rest"),
     ("what was parsed early is found by its row", "table_take_early", "(row[i] - first) * bytes", "i * bytes"))
seed(script("log", "runtime/prun", "Log.test_losses_that_go_elsewhere_leave_the_progress_line"),
     ("losses that go elsewhere leave the progress line", "pause_for_losses", "!run->log->apart", "true"))
seed(script("launch", "runtime/prun", "Launch.test_ranks_that_do_not_come_are_named"),
     ("node 0 says that the address is none of its own", "put_wrong_address", "else if (!own)", "else if (false)"))
seed(script("log", "runtime/prun", "Log.test_lines_that_count_from_0", "Log.test_the_rate_of_the_step_that_comes_next"),
     ("lines count from 0 where they are asked to", "numbered_less", "run->plan.graph.settings.log_from_zero", "0"),
     ("the next rate is the next step's", "executor_next_rate", "executor->schedule_ahead + 1", "executor->schedule_ahead"))
seed(script("pictures", "runtime/prun", "Pictures.test_an_eval_has_the_classes_of_training"),
     ("an eval's pictures have the classes of training", "class_number", "strlen(name) == n && memcmp(at, name, n) == 0", "number == label"),
     ("classes of pictures are kept with the parameters", "load_input", "input->file.format == FILE_PICTURES", "false"))
seed(script("weights", "runtime/prun", "Weights.test_a_transposed_matrix_is_loaded_on_any_split"),
     ("a transposed matrix is transposed on any split", "tensors_read_transposed", "c * rows + r", "r * columns + c"))
seed(unit("compiler", "eval"),
     ("a parameter of the eval is the training's", "take_states",
      "graph->nodes.at[n].state = number[graph->nodes.at[n].state]", "(void)number"))
seed(script("checksums", "runtime/prun", "Checksums.test_latest_passes_over_what_a_disk_has_changed"),
     ("--resume latest passes over a damaged checkpoint", "load_latest", "damaged && !next.last", "false"))
seed(script("best", "runtime/prun", "Best.test_the_best_stays_and_is_restored", "Best.test_training_ends_where_nothing_gets_better",
            "Best.test_a_run_that_goes_on_knows_the_best", "Best.test_what_is_better_is_the_metrics_own"),
     ("of a loss less is better", "see", "watched->value - figure", "figure - watched->value"),
     ("of a perplexity less is better", "metric_rises", "metric <= METRIC_AUC", "metric <= METRIC_PERPLEXITY"),
     ("the best checkpoint is not deleted", "checkpoint_prune", "steps[i] != best && ", ""),
     ("patience counts what is better by enough", "see", "gain > watch->delta", "gain > 0"),
     ("a checkpoint knows the best before it", "describe_watched", "!watched->metric", "true"))
seed(script("data", "runtime/prun", "Data.test_numbers_of_either_byte_order_and_width_are_the_same"),
     ("what is copied lies in the file as in memory", "stored_is_native", "stored.big_endian == (low == 0) &&", "true &&"))
seed(script("plot", "runtime/prun", "Plot.test_points_stand_where_their_numbers_are"),
     ("points stand where their numbers are", "place", "(range[1] - range[0]) * length", "range[1] * length + 1"))
seed(script("slices", "runtime/prun", "Slices.test_a_set_that_is_not_whole_is_passed_over_or_an_error", "Slices.test_each_rank_writes_its_slices_and_any_ranks_go_on_from_them"),
     ("files of ranks are of one save", "open_ranks", "strcmp(own, of) == 0", "true"),
     ("slices make up the whole", "find_slices", "return elements == shape_elements(&tensor.shape)", "return true"),
     ("slices are compared with their checksums", "slices_compare", "element >= 0", "false"))
seed(script("killed", "runtime/prun", "Killed.test_a_rank_that_stops_is_named_after_the_timeout", "Killed.test_a_rank_that_stops_is_ended_where_there_is_no_launcher"),
     ("the first rank that answers says it", "hang_first", "job->silent[first]", "true"))
seed(script("launch", "runtime/prun", "Launch.test_a_job_of_slurm_is_one_process_without_srun"),
     ("a batch script is no step of srun", "is_slurm_step", "number < 0xfffffff0ul", "number < 0ul"))
seed(script("launch", "runtime/prun", "Launch.test_a_rank_that_is_killed_while_all_save_ends_the_ranks_of_other_nodes_too"),
     ("a rank that has lost another one ends the job", "job_broken", "place->broken = 1", "place->broken = 0", "collect_all_gather"))
seed(script("launch", "runtime/prun", "Launch.test_two_launches_at_one_port_that_nothing_tells_apart_are_named",
            "Launch.test_a_launch_at_a_port_where_another_one_meets_gets_no_rank_of_it"),
     ("ranks of a node are of one launch", "find_rival", "is_other(", "!is_other("),
     ("a job has its name", "refuse", "strcmp(hello->job, meeting->job) != 0", "false"))
seed(script("launch", "runtime/prun", "Launch.test_who_has_connected_when_the_meeting_ends_hears_that_it_was_said_why"),
     ("who has connected hears why the meeting ends", "host_meeting", "if (!ok) answer_unheard(", "if (false) answer_unheard("))
seed(script("launch", "runtime/prun", "Launch.test_a_node_that_has_ended_before_the_job_began_may_come_again"),
     ("who has ended is not there", "drop_gone", "got > 0 || ", "got >= 0 || "))
seed(script("launch", "runtime/prun", "Launch.test_ranks_beyond_the_plan_are_not_needed"),
     ("a job goes on with the ranks of a plan that are there", "enough", "meeting->fewer[i] <= there", "meeting->fewer[i] < there - 1"))
seed(script("stop", "runtime/prun",
            "Stop.test_the_first_operator_is_named", "Stop.test_states_stay_as_they_were_where_ranks_share_the_loss",
            "Stop.test_a_gradient_that_is_not_finite_is_found_by_the_parameter",
            "Stop.test_a_checkpoint_is_there_before_its_evaluation"),
     ("a step whose loss is nan updates nothing", "run_calls", "cursor->withholds && is_update(call->call.op)", "false"),
     ("the loss is looked at before the updates", "guard_cursor",
      "if (cursor->guard < first || cursor->actions.at[cursor->guard].kind != ACTION_WAIT) return", "return"),
     ("a state with nan is not saved", "check_finite", "return at < 0", "return true"))
seed(unit("compiler", "search"),
     ("a gradient's conversion costs", "forth_and_back", "column.back < 0", "column.back < 0 || row.back >= 0"),
     ("hints stay", "apply_chosen", "|| node->from == STRATEGY_USER", ""),
     ("a parameter costs the sum of its gradient", "parameter_seconds", "exposed * (move.bytes_s", "0 * exposed * (move.bytes_s"),
     ("the kernels of gradients count", "kernels_seconds", "k < index->first_gradient[node + 1]", "k < 0"),
     ("of plans that are about as fast bytes count", "time_and_traffic", "((double)cost->sent_bytes + 1)", "1"))
seed(unit("proof", "steps"),
     ("a claim about layouts that does not hold is refused", "conversions_check", "if (!claim->holds)", "if (false)"))
seed(unit("proof", "pattern"),
     ("each pattern is run once", "mark_first", "!seen_before(&all->chosen, &all->arena, key)", "false"),
     ("a pattern that does not hold is refused", "pattern_plan", "!all.patterns.at[k]->holds", "false"))
seed(unit("proof", "numeric"),
     ("what owners share is passed on in another round", "take_piece", "piece->round > m->round;", "false;"))
seed(unit("ir", "box"),
     ("a receiver that has nothing of one dimension is sent nothing", "position_meets", "both->end[d] <= both->begin[d]", "false"),
     ("receivers follow each other digit by digit", "number_behind", "number -= (digits[i].size - 1) * digits[i].stride;", ""))
seed(unit("strategies", "steps"),
     ("what is counted for a smaller shape is as much more", "smaller_shape", "times *= size / smaller->dim[d]", "times *= 1"),
     ("only even dimensions are made smaller", "smaller_shape", "size % a == 0 && size % b == 0", "size % b == 0"),
     ("sums are made smaller where each rank has an even share", "smaller_shape", "if (shares != 0 ||", "if ("))
seed(unit("compiler", "moves", "moves/threads*"),
     ("what has been planned alone is not planned again", "moves_plan", "if (move->most < most)", "if (true)"))
seed(unit("search", "solve"),
     ("choices are left out that cost too much, no others", "spot_drop", "if (cost - least <= room)", "if (cost - least <= 0.5 * room)"),
     ("nothing is looked for where all costs too much", "core_drop", "!(room > 0)", "!(room > 1)"))
seed(unit("search", "dominance"),
     ("a choice is replaced by one that costs no more whatever the neighbours choose", "rows_excess", "*one_more = most[0]", "*one_more = least[0]"),
     ("of a row that another is compared with what is left over counts too", "rows_excess", "for (; j < n; j++)", "for (; false;)"),
     ("a choice that holds more bytes replaces none", "choices_prune", "spot->bytes[a] <= spot->bytes[b]", "true"),
     ("what a spot with one choice costs its neighbours is counted", "spot_decide", "table_sum(core->tables, other->cost, table_row(core->tables, spot->links.at[i].table, 0))",
      "other->cost"),
     ("a spot that holds bytes is not eliminated", "drain", "spot->bytes == NULL && spot->links.n <= 2", "spot->links.n <= 2"),
     ("an eliminated spot's own costs count", "table_series", "cost->at[c] + from->at[i * n + c]", "from->at[i * n + c]"),
     ("a neighbour's choice is found among those that it had", "core_expand", "record->near_origin[k][i] != result", "core->spot[record->near[k]].origin[i] != result"),
     ("the least bytes of all others leave the room that there is", "take_least", "core->room[time] -= held", "(void)held"),
     ("a time with fewer spots counts where it has less room", "drop_idle",
      "forward && time + 1 < n && !ends[time + 1] && core->room[time] >= core->room[time + 1]", "forward && time + 1 < n && !ends[time + 1]"),
     ("a time counts where spots end that the next one lacks", "drop_idle", "!ends[time + 1] &&", ""))
seed(unit("search", "core"),
     ("spots out of a block keep their bytes", "sub_room", "core->room[time] + change", "core->room[time]"),
     ("links of a block to what is out of it cost", "sub_spot", "if (place[link->to] < 0)", "if (false)"),
     ("links out of a block cost once", "sub_constant", "link->to > v && place[link->to] < 0", "place[link->to] < 0"),
     ("bytes over the room are counted at the fullest time", "core_over", "held - core->room[time] > over", "held - core->room[time] > 0"))
seed(unit("search", "neighbourhood"),
     ("a better solution is where the next block begins", "neighbourhood_search", "known = blocks_contract(&b, regret); idle = 0", "idle = 0"))
seed(unit("search", "eliminate"),
     ("a link out of the block costs by what is chosen there", "block_gather", "choice[link->to]", "0"),
     ("tables are equal only over the same spots", "bucket_key", "vec_push(&e->arena, &e->keys, d)", "(void)d"),
     ("tables are equal only with the same costs of the spot", "bucket_key", "vec_push(&e->arena, &e->keys, bucket->cost_id)", "(void)0"),
     ("what equal layers have in common is made once", "eliminate_plan", "bucket->same = e->keys.at[other + 1]", "(void)other"),
     ("the last factor counts too", "bucket_minimise", "begin[nscope + 1] = nreaders", "begin[nscope + 1] = nreaders - (nreaders > 1)"))
seed(unit("search", "dual"),
     ("the room at a price is no cost", "room_paid", "paid += d->price[time] * (double)d->core->room[time]", "(void)time"),
     ("a message is what the sender's least choices cost", "send", "cost < out[j] ? cost : out[j]", "cost > out[j] || isinf(out[j]) ? cost : out[j]"),
     ("a spot's costs are shared by the chains through it", "dual_create", "chains ? 1.0 / chains : 1", "1"),
     ("regrets are above the bound that is returned", "dual_regret", "return bound", "return bound * 1.01 + 1"),
     ("prices rise where choices exceed the room", "prices_move", "sign * d->step[time]", "-sign * d->step[time]"))
seed(unit("search", "solve"),
     ("only what costs more than the best is left out", "cutoff", "s->cost * (1 - ROUNDING)", "s->cost * 0.9"),
     ("what costs as much as is wanted at the most is left out, and no more", "cutoff", "s->problem->most : INFINITY", "0.9 * s->problem->most : INFINITY"),
     ("a branch that was not searched to its end excludes nothing", "stage_branch", "whole = false", "(void)whole"),
     ("the bound is the best solution's cost only when all was searched", "search_problem", "if (whole) *bound", "*bound"),
     ("the least peak is looked for down to the byte", "search_nearest", "low + 1 < high", "low + 2 < high"),
     ("a time's last variable has left it", "problem_peak", "time < end", "time < end - 1"))
seed(script("generate", "compiler/pcc", "Generated.test_attention_written_in_other_ways", "Generated.test_what_a_place_would_know_of_those_behind_it_is_refused"),
     ("a mask hides the next place too", "look_behind", "index[seen] <= index[own]", "index[seen] <= index[own] + 1"),
     ("scores that are weighed are very negative behind a place", "seen_taken", "operand_behind(d, node, 0, roles).what == BEHIND_LOW || not_causal(d, node, \"weighs", "true || not_causal(d, node, \"weighs"),
     ("attention without a mask is not causal", "attention_at", "roles->seen >= 0 && !causal", "false && !causal"),
     ("causal attention sees the places up to its own", "attention_at", "OP_less_equal", "OP_greater_equal"),
     ("a place's angle turns its pairs one way", "rope_at", "side == 0 ? OP_sub : OP_add", "OP_add"),
     ("what goes over the places is refused", "own_stays", "dim < 0 ||", "false &&"))
seed(unit("runtime", "stop"),
     ("handlers run on a stack of their own", "stop_open", "SA_RESTART | SA_ONSTACK", "SA_RESTART"))
seed(script("generate", "runtime/prun", "Generated.test_prompts_of_any_length_are_read_in_steps_of_any_size"),
     ("places of a prompt follow each other", "number_at", "executor->place + i", "executor->place"),
     ("behind a step of a prompt come the places that it has not read", "read_places", "*place = begin + g->chunk < last", "*place = begin + g->chunk + 1 < last"))
seed(script("generate", "runtime/prun", "Generated.test_several_prompts_are_each_as_alone"),
     ("a line of JSON has what follows the prompt", "say_end", "token + nprompt, n - nprompt", "token, n"),
     ("a line of prompts may end in a carriage return", "read_lines", "text[end - 1] == '\\r'", "false"))
seed(script("weights", "runtime/prun", "Weights.test_a_parameter_is_put_together_of_numbered_pieces"),
     ("a rank reads the pieces of its own part", "read_elements", "match->piece[k]", "match->piece[k - box->begin[0]]"),
     ("all pieces of a parameter are taken", "taken_tensors", "k < match_ntensors(&matches[i])", "k < (matches[i].tensor >= 0)"),
     ("pieces have one shape", "shape_of_pieces", "return (Shape){0};", "break;"))
seed(script("weights", "runtime/prun", "Weights.test_a_model_in_several_files_is_loaded_by_its_index"),
     ("of an index each file is opened once", "volume_open", "strcmp(index->volumes.at[i]->path, path) == 0", "true"),
     ("an index names files beside it", "read_entry", "strchr(name, '/')", "false"))
seed(unit("runtime", "generate"),
     ("of equal logits the first are among the most likely", "token_draw", "ties-- <= 0", "ties-- < 0"),
     ("the most likely token is the first of those that tie", "token_draw", "logits[i] > logits[most]", "logits[i] >= logits[most]"),
     ("a logit that is no number is seen", "token_draw", "if (isnan(logits[i])) return -1;", ""))
seed(script("generate", "compiler/pcc", "Generated.test_a_plan_says_what_generates"),
     ("a plan generates from one token", "text_agrees", "ntokens == 1 && nplaces <= 1", "true"),
     ("a prompt is of the text that is generated", "prompt_agrees", "places->index.end != of->index.end", "false"),
     ("what generates reports its logits", "generate_agrees", "strcmp(report->name, \"logits\") != 0", "false"))
seed(script("updates", "runtime/prun", "Updates.test_tables_by_the_rows_that_occur_are_what_pytorch_computes"),
     ("a row gets the sum of all that its indices say", "ROW_SUM", "sum[c] += g[c]", "sum[c] = g[c]"),
     ("indices of rows that another rank has are left out", "named_find", "index_within(index, i, begin, rows)", "index_within(index, i, 0, rows)"))
seed(script("layers", "compiler/pcc", "Tables.test_rows_are_updated_alone_where_the_whole_gradient_would_do_the_same"),
     ("of a table with fewer rows than are looked up the whole gradient is made", "updates_rows", "rows <= g->states.at[state].type.shape.dim[0]", "rows > 0"))
seed(script("layers", "compiler/pcc", "Tables.test_replicas_exchange_the_rows_that_occur"),
     ("rows of replicas have their share of the mean", "row_gradient_of_replicas", "1.0 / (double)replicas", "1.0"),
     ("where gradients are summed so are their rows", "row_gradient_of_replicas", '!sum->attr[op_attr(OP_replica_sum, "mean")].i', "false"))
seed(script("layers", "compiler/pcc", "Tables.test_a_table_is_not_updated_over_its_gradient"),
     ("a table's update may overwrite the table and its slots alone", "is_table", "if (step->in[i] == operand) return false;", "if (step->in[i] == operand) return true;"))
seed(script("generate", "runtime/prun", "Generated.test_places_of_a_cache_may_be_split"),
     ("of a cache in parts each rank writes the places that it has", "put_lines", "index_within(run->index, k, run->begin, run->length)", "index_within(run->index, k, 0, run->length)"))
seed(script("generate", "compiler/pcc", "Generated.test_mode_data_parallel"),
     ("of a text that is generated there are no replicas", "replicas_lower", "mode_hides(graph->settings.mode) && !together", "mode_hides(graph->settings.mode)"))
seed(unit("compiler", "decode"),
     ("of a prompt nothing is computed for its logits", "live_nodes", "graph_nreports(g) == 0", "g->loss < 0"),
     ("a cache is written where it lies", "op_rows", "if (!op_table[op].in_place ||", "if (op_table[op].op_class == OP_CLASS_INTERNAL ||"))
seed(unit("proof", "operators"),
     ("rows that are put are whole along their axis", "put_letters", "if (d != axis) letters->in[1][d]", "letters->in[1][d]"))
seed(unit("ir", "gather"),
     ("a row is put for each index", "rule_put", "index->dim[0] == rows->dim[axis]", "index->dim[0] > 0"))
seed(unit("ir", "lookup"),
     ("the columns of a table are those of its gradient's rows", "table_update", "rule->in[g][index->ndim] = rule->in[0][1];", ""))
seed(unit("runtime", "rows"),
     ("a number of more digits than 64 bits hold is strtod's", "plain_number", "|| n > MOST_DIGITS", ""),
     ("only an integer that a double holds is exact", "plain_number", "digits <= EXACT && ", ""),
     ("only a power of ten that a double holds is exact", "plain_number", "power >= -MOST_TENS &&", "power >= -MOST_TENS - 1 &&"),
     ("digits behind the point are a power of ten", "plain_number", "power = point + 1 - end;", "power = point - end;"),
     ("digits behind the point count", "plain_number", "n -= power;", ""),
     ("what a long double has half way between two doubles is strtod's", "wide_number", "return (mantissa & BELOW) != HALF;", "return true;"),
     ("only a power of ten that a long double holds is exact", "wide_number", "if (power < -MOST_TENS || power > MOST_TENS) return false;", "if (power < -MOST_TENS) power = -MOST_TENS;"),
     ("a point stands between digits of one number", "short_number", "word = (word & before) | (word_at(at + 1) & ~before);", ""),
     ("nine digits are not read as eight", "short_number", " || n + behind > WORD_BYTES", ""),
     ("a short number may have an exponent", "short_number", "(others & (others - 1)) != 0 || ", ""),
     ("a field of digits and more is none", "csv_plain_numbers", "plain_number(begin, last, number + n) != end", "!plain_number(begin, last, number + n)"),
     ("the next field begins behind the separator", "csv_plain_numbers", "begin = end + 1", "begin = end"),
     ("parts of a block end where lines do", "read_block", "end[-1] != '\\n'", "false"),
     ("a part of a block begins with the row behind those before it", "read_block", "*row += chunk->nrows;", ""),
     ("a part of a block begins with the line behind those before it", "read_block", "lines->line + *nlines", "lines->line"),
     ("a line without fields is no row of a block", "count_lines", "chunk->nrows += !csv_is_empty(", "chunk->nrows += 1 || csv_is_empty("),
     ("each part of a block has its own place among the rows that are wanted", "read_record", "*next = first_wanted(wanted, row);", ""),
     ("a quote that is not closed is named where it is opened", "slow_record", "if (state == BEFORE) opened_line", "opened_line"),
     ("a block with quotes is read record by record", "stream_lines", "stream->block.quotes || ", ""),
     ("a file that is cut off while it is mapped is seen", "rows_check", "if (whole && map_is_sound(rows->map))", "if (true)"))
seed(unit("compiler", "expand", "expand/batch_norm_of_a_split_batch_reduces_numbers_a_channel"),
     ("a channel's mean is of every sample's part", "channel_mean", "i < planes->n * planes->s", "i < planes->s"))
seed(unit("compiler", "expand", "expand/batch_norm_of_split_channels_is_one_operator"),
     ("batch_norm's gradient takes the mean of dy off", "batch_norm_grad_kernel", "fe_add(dbias, fe_mul(normalised, dweight))", "fe_mul(normalised, dweight)"),
     ("the derivative of a variance is twice a mean of products", "batch_norm_tangent", "fe_mul(2, along)", "along"))
seed(unit("ir", "norm"),
     ("numbers of rows are f32 where rows have 16 bits", "result_types", "dtype_widened(in[0].dtype)", "in[0].dtype"),
     ("a norm's gradient takes a number for each row", "norm_grad_rule", "!shape_equal(&in[i].shape, &shape)", "false"))
seed(script("planes", "runtime/prun", "Planes.test_operators_are_pytorchs"),
     ("an average is over the divisor that is given", "average_divisor", "attr->given ? attr->i : 0", "0"))
seed(script("planes", "compiler/pcc", "Planes.test_statistics_of_16_bits_are_f32_as_pytorchs"),
     ("sums of a channel of 16 bits are f32", "split_batch_norm", "exact = dtype_widened(dtype)", "exact = dtype"),
     ("a channel's mean and variance are f32 where x has 16 bits, for the proof too", "is_wide", "node->op == OP_batch_norm ||", ""))
seed(script("formulas", "compiler/pcc", "Formulas.test_losses_in_16_bits_are_those_of_autocast"),
     ("an attention takes its operands in 16 bits", "type_for", "op_table[node->op].product;", "op_table[node->op].product && node->nout == 1;"),
     ("what is kept of a query is f32, for the proof too", "is_wide", "return !result && (k == 5 || k == 6);", "return false;"))
seed(script("formulas", "compiler/pcc", "Formulas.test_values_and_gradients_are_pytorchs"),
     ("an argument that is given twice does not fit a cell", "fits_cell", "given > 1 ||", ""))
seed(script("states", "compiler/pcc", "States.test_what_replicas_write_is_averaged_where_it_may_differ"),
     ("what all replicas have of a state is not averaged", "writes_of_replicas", "if (common >= 0)", "if (false)"))
seed(script("states", "compiler/pcc", "States.test_replicas_share_statistics_where_the_net_says_so"),
     ("statistics are of all replicas' rows where the net says so", "over_replicas", "return hidden ?", "return false ?"),
     ("of all replicas' rows each rank has its own", "decide_as_operands", "|| rule->factor[f].whole)", "|| factor_stays_whole(&rule->factor[f]))"))
seed(script("states", "compiler/pcc", "States.test_running_statistics_are_pytorchs_however_the_batch_is_split"),
     ("a running variance counts all replicas' rows", "together_define", "together ? lower->graph->replicas : 1", "1"))
seed(unit("ir", "adjoint"),
     ("a variance's gradient is of x less its mean", "adjoint_of_statistic", "OP_sub", "OP_add"))
seed(unit("ir", "norm"),
     ("batch_norm's channels may be split", "channel_factors", "if (d != CHANNEL)", "if (d > 0)"))

seed(script("lengths", "runtime/prun", "Lengths.test_processes_agree_on_the_length_of_a_step"),
     ("a step's text has room in the program that does it", "group_for", "lengths->places[k] >= tokens && ", ""),
     ("updates are counted over all lengths", "hand_over", "to->updates = from->updates;", ""))
seed(script("lengths", "compiler/pcc", "Lengths.test_a_plan_that_says_otherwise_is_refused"),
     ("a program for shorter texts has the inputs of the longest", "shorter_agrees", "strcmp(own->name, of->name) == 0 && own->kind", "own->kind"))
seed(script("report", "runtime/prun", "Report.test_the_plan_alone_has_its_communications"),
     ("what a rank keeps moves nothing", "count_piece", "if (piece->from == piece->to) return true;", ""),
     ("a stage receives nothing that lies on another one", "write_moved", "add_traffic(&columns, gets,", "add_traffic(&columns, true,"))
seed(unit("runtime", "lanes"),
     ("a step that was disturbed is not in the mean", "lanes_mean", "n < 3 ?", "n < 4 ?"))
seed(script("two_nodes", "runtime/prun", "TwoNodes.test_trace_and_report_have_one_clock"),
     ("a trace is on the clock of rank 0", "profile_write", "zero + ahead", "zero"))
seed(script("profile", "runtime/prun", "Profile.test_operations_of_strided_windows_are_counted_once"),
     ("what windows see is another size", "flops_of", "f < 0 || operand->global.dim[d] != call->rule->factor[f].size", "f < 0"))
seed(unit("compiler", "hands", "hands/a_few_tables_are_split_alike"),
     ("operators side by side are tried split alike", "as_alike", "if (largest < 0 ||", "if (true ||"))
seed(script("stages", "compiler/pcc", "Stages.test_a_state_is_written_where_it_lies_and_not_where_its_new_value_is_computed"),
     ("a new state lies in its storage where that is", "place_states", "b->placement.location[value].place == PLACE_ELSEWHERE", "false"))
seed(script("stages", "runtime/prun", "Stages.test_results_that_no_rank_of_a_stage_reads_are_left_out"),
     ("what nobody stores is no program", "chain_build", "chain->nsteps == 0 || ", ""))
seed(script("commands", "runtime/prun", "Reports.test_verbose_says_where_each_rank_runs_and_what_was_proved"),
     ("a quarter of the steps take less than the lower quartile", "report_time", "sorted[(n - 1) / 4]", "sorted[n - 1]"))
seed(script("calibrate", "runtime/prun", "Calibrate.test_all_ranks_in_one_process"),
     ("what is computed between messages is none of their latency", "probe_measure", "batch_s[n++] -= computing_s;", "n++;"))
