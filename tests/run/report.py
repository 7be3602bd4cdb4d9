#!/usr/bin/env python3
"""pcc --report and prun --report: the page's data are JSON, say what --stats and the plan say, and what was measured; bytes follow from layouts. Nothing is lost where something fails."""
import json
import os
import re
import signal
import unittest

import harness
import lengths
from harness import run
from pages import STAGES, WINDOWS, Pages, elements

SAMPLES = ["quickstart.dsl", "quickstart_files.dsl", "transformer.dsl", "collectives.dsl", "ddp_toymodel.dsl", "evaluation.dsl", "llama_tiny.dsl", "moe_tiny.dsl", "unet_tiny.dsl", "dlrm.dsl",
           "characters.dsl", "vae.dsl", "reductions.dsl", "elementwise.dsl", "lstm.dsl", "bert_base.dsl"]
DEEP = """net deep(batch = 16, dim = 32, layers = 300) {
    input x : f32[batch, dim];
    input t : f32[batch, dim];
    h = x;
    for i in 0..layers {
        param w : f32[dim, dim] = normal(0.1);
        y = matmul(h, w);
        h = gelu(y);
    }
    loss mse(h, t);
}
hints { y.0 = ((2, 4), (4, 1)); }
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }
parallel { search = sharding_propagation; }
"""
KERNEL, LOCAL, START, WAIT, WRITE = range(5)

NET = """net small {
    input x  : f32[64, 96];
    input t  : f32[64, 16];
    param w1 : f32[96, 128] = normal(0.1);
    param w2 : f32[128, 16] = normal(0.1);
    a = matmul(x, w1) shard ((2, 1), (1, 2));
    h = relu(a);
    loss mse(matmul(h, w2), t);
}
train { optimizer = sgd(lr = 0.1); data = normal(seed = 1); epochs = %d; steps = %d; }
"""


# ---------------------------------------------------------------- layouts, by themselves


def part(begin, end, parts, number):
    each, rest = divmod(end - begin, parts)
    begin += number * each + min(number, rest)
    return begin, begin + each + (number < rest)


def pairs(digits):
    return list(zip(digits[::2], digits[1::2]))


def held(layout, shape, rank):
    """The box of a rank: (begin, end) of each dimension."""
    dims, _, halos = layout
    halo_of = {h[0]: h[1:] for h in halos}
    box = []
    for d, size in enumerate(shape):
        kind, of, stride, low, high = halo_of.get(d, (None, size, 0, 0, 0))
        begin, end = 0, of
        for s, t in pairs(dims[d]):
            begin, end = part(begin, end, s, rank // t % s)
        if kind is not None:
            some, first, last = begin < end, begin, end - 1
            if kind != 0:
                first, last = max(0, -((high - first) // stride)), (last + low) // stride
            if kind != 1 and some and first <= last:
                first, last = first * stride - low, last * stride + high
            first, last = max(first, 0), min(last, size - 1)
            begin, end = (first, last + 1) if some and first <= last else (0, 0)
        box.append((begin, end))
    return box


def atoms(size, stride):
    """A digit as digits of prime sizes."""
    while size > 1:
        prime = next(p for p in range(2, size + 1) if size % p == 0)
        yield prime, stride
        size, stride = size // prime, stride * prime


def number(digits, rank):
    """What these digits of a rank are, as one number of a mixed radix."""
    return tuple(rank // t % s for s, t in digits)


def received(kind, source, target, shape, nranks):
    """Elements that all ranks together receive: docs/redistribution.md."""
    partial = [{atom for digits in layout[1] for digit in pairs(digits) for atom in atoms(*digit)} for layout in (source, target)]
    summed, kept = partial[0] - partial[1], sorted(partial[1])
    used = [d for layout in (source, target) for digits in layout[0] + layout[1] for d in pairs(digits)]
    groups = {}
    for rank in range(nranks):
        rest = rank
        for s, t in used:
            rest -= rest // t % s * t
        groups.setdefault((number(kept, rank), rest if kind in ("all_reduce", "reduce_scatter") else None), []).append(rank)
    terms = 1
    for s, _ in summed:
        terms *= s
    total = 0
    for ranks in groups.values():
        has, wants = ([held(layout, shape, rank) for rank in ranks] for layout in (source, target))
        cuts = [sorted({edge for box in has + wants for edge in box[d]}) for d in range(len(shape))]

        def cells(d, corner, size):
            if d == len(shape):
                yield corner, size
                return
            for begin, end in zip(cuts[d], cuts[d][1:]):
                yield from cells(d + 1, corner + (begin,), size * (end - begin))

        inside = lambda box, corner: all(begin <= at < end for (begin, end), at in zip(box, corner))
        for corner, size in cells(0, (), 1):
            needers = [i for i in range(len(ranks)) if inside(wants[i], corner)]
            holders = [i for i in needers if inside(has[i], corner)]
            if not needers:
                continue
            if terms == 1:
                total += size * (len(needers) - len(holders))
            else:
                total += size * (terms - 1 + len(needers) - 1 + (0 if holders else 1))
    return total


class Report(Pages):
    def each(self):
        uneven = ["-D", "batch=15", "-D", "in_dim=30"]
        cases = [(self.sample(name), []) for name in SAMPLES] + [(self.sample("quickstart.dsl"), uneven), (self.sample("quickstart.dsl"), uneven + ["-O0"]), (self.write("windows.dsl", WINDOWS), [])]
        for name, options in cases:
            for ranks in (1, 4, 8):
                result = run(harness.compiling(name, *options, "--ranks", str(ranks), "-o", self.path("net.plan"), "--report", self.path("net.html"), "--stats=json", "--no-proof"),
                             cwd=self.folder)
                if "needs" in result.err and ranks < 8:  # it has a strategy for more ranks
                    continue
                self.ok(result)
                yield "%s %s on %d" % (name, " ".join(options), ranks), elements(self.read("net.html").decode())["plan"], json.loads(result.out)

    def check_sums(self, what, plan, stats):
        texts, role = plan["strings"], plan["programs"][0]["roles"][0]
        values = plan["programs"][0]["values"]
        moved = [c for c in stats["communications"] if c["kind"] != "strided_slice"]
        self.assertEqual([(texts[values[c[1]][0]], texts[c[4]], c[5]) + tuple(c[6:12]) for c in role["comms"]],
                         [(c["value"], c["kind"], c["bucket"], c["sent"]["total"], c["sent"]["max"], c["received"]["total"], c["received"]["max"], c["bound"]["total"], c["bound"]["max"])
                          for c in moved], what)
        self.assertEqual(sum(c[8] for c in role["comms"]), stats["totals"]["received"]["total"], what)
        for key in ("sent", "received", "bound"):
            self.assertEqual(role["totals"][key], stats["totals"][key], what)
        self.assertEqual(role["memory"], stats["memory"], what)
        self.assertEqual(role["flops"], stats["flops"], what)
        self.assertEqual(role["fullest"]["bytes"], stats["fullest"]["bytes"], what)
        predicted, events = stats["predicted"], role["events"]
        for key in ("step", "kernels", "communications", "exposed"):
            self.assertAlmostEqual(role["predicted"][key], predicted[key] * 1e9, delta=0.51, msg=what)
        waits = [e for e in events if role["steps"][e[0]][0] == WAIT]
        kernels = [e for e in events if e[2] == 0 and role["steps"][e[0]][0] != WAIT]
        self.assertAlmostEqual(sum(e[4] for e in kernels), role["predicted"]["kernels"], delta=len(events), msg=what)
        self.assertAlmostEqual(sum(e[4] for e in waits), role["predicted"]["exposed"], delta=len(events), msg=what)
        self.assertAlmostEqual(sum(c[13] for c in role["comms"]), role["predicted"]["exposed"], delta=len(events), msg=what)
        self.assertEqual(max(e[3] + e[4] for e in events), role["predicted"]["step"], what)
        for lane in 0, 1:
            end = 0
            for e in (e for e in events if e[2] == lane):
                self.assertGreaterEqual(e[3], end, what)
                end = e[3] + e[4]

    def check_numbers(self, what, plan):
        """Every number that names something names something."""
        texts, types, layouts, calls, hints = (len(plan[key]) for key in ("strings", "types", "layouts", "calls", "hints"))
        for program in plan["programs"]:
            nodes, values = program["nodes"], program["values"]
            for node, why in zip(nodes, program["why"], strict=True):
                self.assertTrue(node[0] < texts and node[1] < texts and all(v < len(values) for v in node[2] + node[3]) and node[8] < len(nodes), what)
                self.assertTrue(why[0] < texts and why[2] < hints and why[3] < layouts and why[4] < len(program["decisions"]) and why[5] < calls, what)
            for v, value in enumerate(values):
                self.assertTrue(value[0] < texts and value[1] < types and nodes[value[2]][3][value[3]] == v, what)
            for role in program["roles"]:
                instances, steps = role["instances"], role["steps"]
                taken = {}
                for s, step in enumerate(steps):
                    self.assertTrue(all(i < len(instances) for i in step[3] + step[4]) and step[2] < len(nodes), what)
                    for i in step[3] + step[4]:
                        taken.setdefault(i, []).append(s)
                for i, instance in enumerate(instances):
                    self.assertTrue(instance[0] < len(values) and instance[1] < layouts, what)
                    for s in taken.get(i, []):
                        self.assertTrue(instance[5] <= s <= instance[6], what)
                    shape = types and plan["types"][values[instance[0]][1]]
                    largest = max(self.elements(held(plan["layouts"][instance[1]], shape[2], rank)) for rank in range(plan["ranks"]))
                    self.assertEqual(instance[4], largest * {"f32": 4, "f64": 8, "i32": 4, "i64": 8, "bool": 1, "f16": 2, "bf16": 2}[shape[0]], what)

    @staticmethod
    def elements(box):
        n = 1
        for begin, end in box:
            n *= end - begin
        return n

    def check_pieces(self, what, plan, known, kinds):
        texts = plan["strings"]
        for program in plan["programs"]:
            for role in program["roles"]:
                for c in role["comms"]:
                    kind, source, target = texts[c[4]], *(plan["layouts"][role["instances"][i][1]] for i in c[2:4])
                    dtype, _, shape = plan["types"][program["values"][c[1]][1]]
                    key = json.dumps([kind, source, target, shape, plan["ranks"]])
                    if key not in known:
                        known[key] = received(kind, source, target, shape, plan["ranks"])
                    self.assertEqual(known[key] * {"f32": 4, "f64": 8, "i32": 4, "i64": 8, "bool": 1, "f16": 2, "bf16": 2}[dtype], c[8], "%s: %s" % (what, key))
                    kinds.add(kind)

    def test_samples(self):
        known, kinds, plans, halos = {}, set(), 0, 0
        for what, plan, stats in self.each():
            plans += 1
            halos += any(layout[2] for layout in plan["layouts"])
            self.check_sums(what, plan, stats)
            self.check_numbers(what, plan)
            self.check_pieces(what, plan, known, kinds)
            forward = {(s["name"], s["op"]): s["strategy"] for s in stats["strategies"]}
            texts, program = plan["strings"], plan["programs"][0]
            for node, why in zip(program["nodes"], program["why"]):
                said = forward.get((texts[node[1]], texts[node[0]]))
                if said is not None:
                    self.assertEqual(texts[why[0]], said, what)
        self.assertEqual(kinds, {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "exchange"})
        self.assertGreater(plans, 40)
        self.assertGreater(halos, 0)

    def test_calls_lead_to_lines(self):
        plan, _ = self.report(self.sample("transformer.dsl"), 4)
        texts, program = plan["strings"], plan["programs"][0]
        self.assertGreater(len(plan["calls"]), 3)
        for call in plan["calls"]:
            line = plan["files"][call[2]][1].splitlines()[call[3] - 1]
            self.assertTrue(line[call[4] - 1:].startswith(texts[call[0]]), line)
            if call[6] >= 0:
                self.assertTrue(texts[call[1]].startswith(texts[plan["calls"][call[6]][1]] + "."))
        for node, why in zip(program["nodes"], program["why"]):
            if why[5] >= 0 and node[9] == 0:
                self.assertTrue(texts[node[1]].startswith(texts[plan["calls"][why[5]][1]] + "."), texts[node[1]])
        self.assertTrue(any(why[5] >= 0 for node, why in zip(program["nodes"], program["why"]) if node[9] == 2))

    def test_reasons(self):
        source = self.write("net.dsl", harness.edited(self.sample("quickstart.dsl"), ("shard ((2, 4), (4, 1))", "shard ((2, 4), (4, 1)) -> (8, 1)")))
        plan, _ = self.report(source, 8)
        texts, program = plan["strings"], plan["programs"][0]
        by_name = {texts[node[1]]: (node, why) for node, why in zip(program["nodes"], program["why"])}
        hint = plan["hints"][by_name["h"][1][2]]
        self.assertEqual((texts[hint[9]], program["nodes"][hint[8]], hint[1], hint[5]), ("h", by_name["h"][0], 7, 7))
        self.assertEqual(plan["layouts"][by_name["h"][1][3]][0], [[8, 1], []])
        self.assertEqual([by_name[name][1][1] for name in ("h", "a", "w.grad", "new_w", "x")], [1, 2, 4, 8, 0])
        self.assertEqual(texts[by_name["w.grad"][1][0]], "((2, 4), (2, 1))")
        self.assertEqual([h[10:] for h in plan["hints"]], [[0, -1]])
        decision = program["decisions"][by_name["y"][1][4]]
        self.assertGreaterEqual(decision[3], len(decision[4]))
        self.assertEqual({len(each) for each in decision[4:]}, {len(decision[4])})
        self.assertEqual(decision[4][0], by_name["y"][1][0])
        self.assertEqual(texts[program["nodes"][decision[1]][1]], "h")

    def test_hints_of_inputs_and_states(self):
        source = self.write("net.dsl", harness.edited(self.sample("quickstart.dsl"), ("f32[in_dim, hidden_dim]  = normal(0.01)", "f32[in_dim, hidden_dim] = normal(0.01) shard (8, 1)"),
                                                      ("dataset = data_parallel", "dataset = auto"), ("f32[batch, in_dim]", "f32[batch, in_dim] shard (2, 4)")))
        plan, _ = self.report(source, 8)
        texts = plan["strings"]
        self.assertEqual([(texts[h[9]], h[1], h[10], h[11]) for h in plan["hints"]], [("h", 7, 0, -1), ("x", 2, 1, 0), ("w", 4, 2, 0)])

    def test_what_a_search_weighed(self):
        for name in "transformer.dsl", "gpt2.dsl":
            plan, stats = self.report(self.sample(name), 4, "--search", "dynamic_programming", "--no-proof")
            texts, program = plan["strings"], plan["programs"][0]
            searched = {n for n, why in enumerate(program["why"]) if why[1] == 7}
            self.assertEqual(plan["search"]["mesh"], stats["search"]["mesh"])
            self.assertGreater(len(searched), 20)
            self.assertLess(len(searched - {row[0] for row in program["weighed"]}), 0.1 * len(searched))
            alike = 0
            for node, count, alternatives, more in program["weighed"]:
                self.assertEqual(more[0], 0)
                self.assertEqual(more[1:], sorted(more[1:]))
                self.assertGreaterEqual(min(more), -1)  # what was taken is the best of the model
                self.assertTrue(1 <= len(alternatives) <= min(4, count))
                self.assertEqual(len({texts[text] for text in alternatives}), len(alternatives), [texts[text] for text in alternatives])
                alike += alternatives[0] == program["why"][node][0]  # later passes of -O2 change few
            self.assertGreater(alike, 0.9 * len(program["weighed"]))
        plan, stats = self.report(self.sample("gpt2.dsl"), 8, "--search", "dynamic_programming", "--no-proof")
        self.assertEqual(plan["search"]["mesh"], [2, 2, 2])
        self.assertGreater(len(plan["programs"][0]["weighed"]), 20)
        plan, _ = self.report(self.sample("quickstart.dsl"), 8)
        self.assertEqual(plan["programs"][0]["weighed"], [])

    def test_warnings_and_demands_are_data(self):
        source = self.write("net.dsl", harness.edited(self.sample("quickstart.dsl"), ("parallel {", "parallel {\n assert comm < 1 MiB;\n forbid all_to_all;")))
        plan, _ = self.report(source, 8, "-D", "batch=15")
        texts = plan["strings"]
        uneven = [w for w in plan["warnings"] if texts[w[0]] == "uneven"]
        self.assertTrue(uneven and any(w[6] for w in uneven), plan["warnings"])
        self.assertEqual([(texts[d[0]], texts[d[3]]) for d in plan["demands"]], [("comm <", "bytes"), ("no all_to_all", "")])
        self.assertEqual(plan["demands"][0][1:3], [plan["programs"][0]["roles"][0]["totals"]["sent_rank"], 1 << 20])

    def test_programs(self):
        plan, _ = self.report(self.sample("characters.dsl"), 2)
        self.assertEqual([program["name"] for program in plan["programs"]], ["train", "generate", "prompt"])
        self.assertTrue(plan["programs"][1]["states"])
        plan, _ = self.report(self.write("net.dsl", harness.edited(self.sample("evaluation.dsl"), ("matmul(h, w2)", "matmul(h, w2) shard ((1, 2), (2, 1))"))), 2)
        self.assertEqual([program["name"] for program in plan["programs"]], ["train", "eval"])
        self.assertIn(6, [why[1] for why in plan["programs"][1]["why"]])

    def test_same_bytes_each_time(self):
        pages = []
        for _ in range(2):
            self.report(self.sample("transformer.dsl"), 4)
            pages.append(self.read("net.html"))
        self.assertEqual(*pages)

    def test_names_are_harmless(self):
        source = self.write("a<script>b.dsl", harness.edited(self.sample("quickstart.dsl"), ("net quick", "# </script><script>alert(1)</script> \u00e9 \u2028\nnet quick")))
        plan, _ = self.report(source, 8)
        page = self.read("net.html").decode()
        self.assertIn("a<script>b.dsl", plan["strings"][plan["files"][0][0]])
        self.assertIn("<script>alert(1)</script> \u00e9 \u2028", plan["files"][0][1])
        self.assertNotIn("alert(1)</script>", page)
        self.assertNotIn("a<script>b", page)

    def test_without_source(self):
        plan, _ = self.report(self.sample("quickstart.dsl"), 8, "--report-without-source")
        self.assertEqual([text for _, text in plan["files"]], [None])
        self.assertNotIn("MindSpore", self.read("net.html").decode())

    def test_every_value_explained_at_once(self):
        """What is said of a value among thousands is what is said of it alone, but for the plans that are compiled to compare."""
        source = self.write("deep.dsl", DEEP)
        plan, _ = self.report(source, 8)
        names = [plan["strings"][value[0]] for value in plan["programs"][0]["values"]]
        self.assertGreater(len(names), 2000)
        explained = lambda some: self.ok(run([harness.pcc, source, "--ranks", 8, "--no-proof", *(word for name in some for word in ("--explain", name))], cwd=self.folder)).out
        of = lambda text: {part.split(":")[0]: part.split("\n  others ")[0].strip() for part in re.split(r"\n(?=\S)", text)}
        everything = explained(names)
        self.assertLess(everything.count("strategies compiled"), 4)
        self.assertIn("is compiled, as %d names" % len(names), everything)
        for name in ("y.0", "h.150.grad", "y.299", "w.200.grad"):
            alone = explained([name])
            self.assertIn(" strategies compiled" if "grad" not in name else "because", alone)
            self.assertEqual(of(alone)[name], of(everything)[name])
        self.assertIn("... 588 operators", explained(["h.299"]))

    def test_gpt2_is_below_a_megabyte(self):
        page, _ = self.page(self.sample("gpt2.dsl"), 8, "--hints", self.sample("gpt2_hints.dsl"))
        self.assertLess(len(page.encode()), 1000000)

    def test_two_plans(self):
        for name, ranks in (("quickstart.dsl", 8), ("transformer.dsl", 4), ("moe_tiny.dsl", 8), ("unet_tiny.dsl", 4), ("characters.dsl", 2), ("windows.dsl", 4)):
            source = self.sample(name) if name != "windows.dsl" else self.write(name, WINDOWS)
            plan, _ = self.report(source, ranks)
            os.rename(self.path("net.plan"), self.path("a.plan"))
            self.compile(source, "b.plan", "--ranks", ranks, "-O0")
            result = run([harness.pcc, "--diff", "--report", "both.html", "a.plan", "b.plan"], cwd=self.folder)
            self.assertEqual((result.code, result.err), (1, ""), str(result))
            both = elements(self.read("both.html").decode())
            self.assertEqual(list(both), ["plan", "other"])
            self.assertEqual([both[name]["file"] for name in both], ["a.plan", "b.plan"])
            for program, alone in zip(plan["programs"], both["plan"]["programs"], strict=True):
                for key in ("totals", "memory", "flops", "predicted", "fullest", "arena"):
                    self.assertEqual(program["roles"][0][key], alone["roles"][0][key], "%s: %s" % (name, key))
                for key, first in ("comms", 5), ("events", 0):
                    self.assertEqual([row[first:] for row in program["roles"][0][key]], [row[first:] for row in alone["roles"][0][key]], name)
            self.assertNotEqual(both["other"]["checksum"], both["plan"]["checksum"])
        result = run([harness.pcc, "--diff", "a.plan", "a.plan", "--report=both.html", "--machine", "gpu8"], cwd=self.folder)
        self.assertEqual((result.code, result.err), (0, ""), str(result))
        both = elements(self.read("both.html").decode())
        self.assertEqual(both["other"]["programs"][0]["roles"][0]["predicted"]["machine"], "gpu8")
        self.assertEqual([(both[name]["machine"]["name"], both[name]["files"][0][1]) for name in both], [("gpu8", None)] * 2)
        before = self.read("a.plan")
        for options, code, pattern in [(["--report", "a.plan"], 2, "pcc --diff: --report .*a.plan"), (["--report", "nowhere/both.html"], 3, "nowhere/both.html"), (["--report"], 2, "takes an argument"),
                                       (["--machine", "cpu"], 2, "add --report FILE"), (["--report", "x.html", "--machine", "none"], 3, "none")]:
            result = run([harness.pcc, "--diff", "a.plan", "b.plan", *options], cwd=self.folder)
            self.assertEqual((result.code, result.out), (code, ""), str(result))
            self.assertRegex(result.err, pattern)
        self.assertEqual(self.read("a.plan"), before)

    def test_stages(self):
        """Ranks of each stage run steps of their own: costs, layouts, pieces and measurements are theirs."""
        plan, stats = self.report(self.write("stages.dsl", STAGES), 6)
        program = plan["programs"][0]
        self.assertEqual([role["ranks"] for role in program["roles"]], [[0, 1], [2, 3], [4, 5]])
        self.assertEqual({tuple(layout[3]) for layout in plan["layouts"] if len(layout) > 3}, {(3, 2, 0), (3, 2, 1), (3, 2, 2)})
        self.assertEqual(len({role["predicted"]["step"] for role in program["roles"]}), 1)
        fullest = max(program["roles"], key=lambda role: role["memory"]["rank"])
        self.assertEqual((fullest["memory"], fullest), (stats["memory"], program["roles"][stats["most_memory"]]))
        for way, stage in ("sent", "sender"), ("received", "receiver"):
            self.assertEqual(program["roles"][stats["totals"][stage]]["totals"][way]["max"], stats["totals"][way]["max"])
            self.assertEqual(max(role["totals"][way]["max"] for role in program["roles"]), stats["totals"][way]["max"])
        self.assertEqual(max(role["flops"]["rank"] for role in program["roles"]), stats["flops"]["rank"])
        steps = [len(role["steps"]) for role in program["roles"]]
        self.assertGreater(len(set(steps)), 1)
        ways = [self.local] + ([self.mpi] if harness.mpirun else [])
        for way in ways:
            self.ok(way(self.path("net.plan"), 6, "--report", self.path("net.html")))
            measured = self.check_run(elements(self.read("net.html").decode()), self.path("net.plan"), 6, 30)
            self.assertEqual([lane["role"] for lane in measured["lanes"]], [0, 0, 1, 1, 2, 2])
            self.assertEqual({figure[0] for figure in measured["figures"]}, {0, 1, 2})

    def test_lengths(self):
        """Steps of a program for shorter texts are none of those that are measured."""
        self.write("d.csv", "text,label\n" + "".join('"%s",%d\n' % ("ab" * (10 if i % 24 < 8 else 2), i % 2) for i in range(192)))
        text = lengths.NET.replace("order = shuffle(seed = 0);", "").replace("rows = split(0.8, 0.2, seed = 3);", "rows = split(0.75, 0.25, seed = 3);").replace("epochs = 2", "epochs = 12")
        for word, by in ("IDS", lengths.LENGTHS), ("MASK", lengths.LENGTHS), ("MOST", "most"), ("OPTIMIZER", "optimizer = sgd(lr = 0.01);"), ("PREDICT", ""), ("PARALLEL", ""):
            text = text.replace(word, by)
        plan, _ = self.report(self.write("texts.dsl", text), 2)
        self.assertEqual([program["name"] for program in plan["programs"]][:3], ["train", "train_6", "train_12"])
        self.assertIn("steps by length: train ", self.ok(self.local("net.plan", 2, "--report", "net.html")).out)
        measured = elements(self.read("net.html").decode())["run"]
        self.assertGreater(measured["measured"], 2)
        self.assertTrue(all(lane["events"] for lane in measured["lanes"]))
        for _, _, _, mean, least, most, _ in measured["figures"]:
            self.assertTrue(least <= mean + 1 and mean <= most + 1, measured["figures"])

    def test_usage(self):
        source = self.write("net.dsl", NET % (1, 2))
        for options, code, pattern in [
                (["--report", source], 2, "pcc: --report .*net.dsl.*the net"),
                (["-o", "a.plan", "--report", "a.plan"], 2, "pcc: -o and --report both write a.plan"),
                (["--report", "nowhere/net.html"], 3, "pcc: .*nowhere/net.html"),
                (["--report-without-source"], 2, "pcc: .*add --report FILE"),
                (["--report", "-"], 2, "pcc: --report - names no file: /dev/stdout"), (["-o", "-"], 2, "pcc: -o - names no file"),
                (["--report", ""], 2, "pcc: --report names no file: its argument is empty"), (["-o", ""], 2, "pcc: -o names no file"),
                (["--report", "a.html", "--list-paths"], 2, "pcc: --list-paths compiles no plan: leave out --report")]:
            self.assertFails(run([harness.pcc, source, *options], cwd=self.folder), code, pattern)
        self.assertEqual(self.read("net.dsl").decode(), NET % (1, 2))
        self.ok(run([harness.pcc, source, "--report", "first.html", "--report", "last.html"], cwd=self.folder))  # as any option: the last one counts
        self.assertEqual([name for name in sorted(os.listdir(self.folder)) if name.endswith(".html")], ["last.html"])
        self.assertNotIn("-", os.listdir(self.folder))

    # ---------------------------------------------------------------- a run

    def check_run(self, page, plan, ranks, steps, shown=None):
        measured = page["run"]
        roles = page["plan"]["programs"][0]["roles"]
        self.assertEqual((measured["ranks"], measured["steps"], measured["checksum"]), (ranks, steps, page["plan"]["checksum"]))
        self.assertEqual([lane["rank"] for lane in measured["lanes"]], shown or list(range(ranks)))
        self.assertLessEqual(measured["step"]["least"], measured["step"]["median"])
        self.assertLessEqual(measured["step"]["median"], measured["step"]["most"])
        for lane in measured["lanes"]:
            role = roles[lane["role"]]
            self.assertTrue(role["ranks"][0] <= lane["rank"] <= role["ranks"][1])
            instances, at = role["instances"], role["steps"]
            runs = {s for s, step in enumerate(at) if not (step[0] == KERNEL and instances[step[4][0]][2] == 5) and step[0] != WRITE}
            computed = [e for e in lane["events"] if e[2] == 0]
            covered = {s for e in computed for s in range(e[0], e[0] + e[1])}
            self.assertLessEqual({s for s in runs if at[s][0] in (LOCAL, WAIT) and not at[s][6]}, covered)
            self.assertLessEqual({s for s in runs if at[s][0] == KERNEL}, covered)
            end = 0
            for e in sorted(computed, key=lambda e: e[3]):
                self.assertGreaterEqual(e[3], end)
                end = e[3] + e[4]
                self.assertTrue(0 <= e[5] <= e[4] + 1 and (e[5] == 0 or at[e[0]][0] == WAIT))
            self.assertEqual(len([e for e in lane["events"] if e[2] == 1]), len([e for e in computed if at[e[0]][0] == START]))
        for number, s, _, mean, least, most, late in measured["figures"]:
            self.assertTrue(least <= mean + 1 and mean <= most + 1 and late >= 0)
            longest = max([e[4] for l in measured["lanes"] for e in l["events"] if l["role"] == number and e[0] == s and e[2] == 0], default=0)
            self.assertLessEqual(max(longest, late), most + 100, "the step that is shown is one of those measured")
        tensors = [row[1] for row in measured["memory"]]
        self.assertEqual(len(tensors), ranks)
        for rank, taken in enumerate(tensors):
            role = next(role for role in roles if role["ranks"][0] <= rank <= role["ranks"][1])
            self.assertLessEqual(taken, role.get("memory", {"rank": taken})["rank"])
        return measured

    def test_into_the_plans_page(self):
        self.report(self.write("net.dsl", NET % (2, 6)), 4)
        before = self.read("net.html").decode()
        ways = [self.local] + ([self.mpi] if harness.mpirun else []) + [lambda plan, ranks, *options: run([harness.prun, "--nproc", ranks, *options, plan], cwd=self.folder)]
        for way in ways:
            result = self.ok(way(self.path("net.plan"), 4, "--report", self.path("net.html")))
            after = self.read("net.html").decode()
            page = elements(after)
            measured = self.check_run(page, self.path("net.plan"), 4, 12)
            self.assertEqual([row[1] for row in measured["curve"]["rows"]], result.losses())
            self.assertEqual(measured["curve"]["columns"], ["step", "loss", "lr", "seconds", "samples_per_s"])
            text = lambda page: re.search(r'id="plan">(.*?)</script>', page, re.S)[1]
            self.assertEqual(text(before), text(after))
            self.assertEqual(after.count('id="run">'), 1)
            self.assertGreater(measured["peaks"]["flops"], 1e6)
            self.assertEqual(result.texts(), self.ok(self.local(self.path("net.plan"), 4)).texts())

    def test_of_the_plan_alone(self):
        plan = self.compile(self.write("net.dsl", NET % (1, 40)), "net.plan", "--ranks", 4)
        for _ in range(2):
            self.ok(self.local(plan, 4, "--report", "run.html"))
            page = elements(self.read("run.html").decode())
            self.check_run(page, plan, 4, 40)
            self.assertNotIn("why", page["plan"]["programs"][0])
        self.report(self.path("net.dsl"), 4)
        alone, whole = page["plan"], elements(self.read("net.html").decode())["plan"]
        for key in ("net", "hash", "checksum", "ranks", "proof", "mesh", "settings"):
            self.assertEqual(alone[key], whole[key], key)
        self.assertEqual(alone["programs"][0]["roles"][0]["steps"][-1][0], whole["programs"][0]["roles"][0]["steps"][-1][0])
        self.assertEqual(len(alone["programs"][0]["nodes"]), len(whole["programs"][0]["nodes"]))

    def test_the_plan_alone_has_its_communications(self):
        """What prun counts piece by piece is what pcc's formulas say."""
        kinds = set()
        for name, source, ranks in (("quickstart", self.sample("quickstart.dsl"), 8), ("moe", self.sample("moe_tiny.dsl"), 4), ("windows", self.write("windows.dsl", WINDOWS), 4), ("stages", self.write("stages.dsl", STAGES), 6)):
            whole, _ = self.report(source, ranks)
            self.ok(self.local(self.path("net.plan"), ranks, "--report", self.path(name + ".html")))
            alone = elements(self.read(name + ".html").decode())["plan"]
            for program, other in zip(whole["programs"], alone["programs"], strict=True):
                for role, same in zip(program["roles"], other["roles"], strict=True):
                    said = lambda plan, role: [(*row[:4], plan["strings"][row[4]], *row[5:10]) for row in role["comms"]]
                    self.assertEqual(said(whole, role), said(alone, same), name)
                    kinds |= {whole["strings"][row[4]] for row in role["comms"]}
        self.assertGreater(len(kinds), 3)
        many = self.compile(self.write("net.dsl", NET % (1, 1)), "many.plan", "--ranks", 2048, "--no-proof")
        self.ok(self.local(many, 2048, "--report", self.path("many.html")))
        comms = elements(self.read("many.html").decode())["plan"]["programs"][0]["roles"][0]["comms"]
        self.assertEqual({len(row) for row in comms}, {6}, "of very many ranks bytes are not counted")

    def test_many_ranks_and_nodes(self):
        source = self.write("net.dsl", NET % (1, 4))
        plan = self.compile(source, "net.plan", "--ranks", 32)
        self.ok(self.local(plan, 32, "--report", "run.html"))
        self.assertEqual(len(elements(self.read("run.html").decode())["run"]["lanes"]), 16)
        plan = self.compile(source, "net.plan", "--ranks", 4)
        self.ok(self.mpi(plan, 4, "--report", "nodes.html", env={"PRUN_COMM": "nodes:2"}))
        page = elements(self.read("nodes.html").decode())
        measured = self.check_run(page, plan, 4, 4)
        self.assertEqual((measured["nodes"], [lane["node"] for lane in measured["lanes"]]), (2, [0, 0, 1, 1]))
        begins = [min(e[3] for e in lane["events"]) for lane in measured["lanes"]]
        self.assertLess(max(begins), 2e9)  # one clock: the machine's

    def test_one_rank(self):
        plan = self.compile(self.write("net.dsl", NET % (1, 3)), "net.plan", "--ranks", 1, "--mode", "stand_alone")
        self.ok(run([harness.prun, "--report", "run.html", plan], cwd=self.folder))
        self.check_run(elements(self.read("run.html").decode()), plan, 1, 3)

    def test_few_steps(self):
        plan = self.compile(self.write("net.dsl", NET % (1, 1)), "net.plan", "--ranks", 4)
        for ranks in (self.local, self.mpi):
            self.ok(ranks(plan, 4, "--report", "run.html"))
            measured = elements(self.read("run.html").decode())["run"]
            self.assertEqual((measured["measured"], measured["lanes"], measured["figures"]), (0, [], []))

    def test_trace_names_steps(self):
        plan = self.compile(self.write("net.dsl", NET % (1, 3)), "net.plan", "--ranks", 4)
        self.ok(self.local(plan, 4, "--report", "run.html", "--trace", "trace.json"))
        page = elements(self.read("run.html").decode())
        shown = {e[0] for lane in page["run"]["lanes"] for e in lane["events"]}
        traced = {e["args"]["plan_step"] for e in json.loads(self.read("trace.json"))["traceEvents"] if e["ph"] == "X"}
        self.assertEqual(shown, traced)

    def test_what_is_there_stays(self):
        plan = self.compile(self.write("net.dsl", NET % (1, 2)), "net.plan", "--ranks", 4)
        other = self.write("other.dsl", NET % (1, 3))
        self.report(other, 4)
        os.rename(self.path("net.html"), self.path("other.html"))
        plan = self.compile(self.path("net.dsl"), "net.plan", "--ranks", 4)
        self.write("notes.txt", "dear diary\n")
        self.report(self.path("net.dsl"), 4)
        whole = self.read("net.html").decode()
        self.write("broken.html", re.sub(r"\"rows\":(\d+)", r'"rows":\1,', whole, count=1))
        self.write("changed.html", re.sub(r'"checksum":"\w+"', '"checksum":"0"', whole, count=1))
        self.write("older.html", re.sub(r'"format":\d+', '"format":1', whole, count=1))
        for path, code, pattern in [("other.html", 2, "prun: --report other.html: it is the report of another plan"), ("notes.txt", 2, "prun: --report notes.txt: .*is no report"),
                                    ("broken.html", 2, "prun: --report broken.html: its data cannot be read"), ("changed.html", 2, "prun: --report changed.html: its data cannot be read: make it anew with pcc --report\n"), ("older.html", 2, "prun: --report older.html: its data have format 1, .* adds to format \d"),
                                    ("-", 2, "prun: --report - names no file"), ("", 2, "prun: --report names no file: its argument is empty"), (plan, 2, "prun: --report .*net.plan.*the plan"), ("nowhere/run.html", 3, "prun: --report nowhere/run.html: it cannot be written")]:
            before = self.read(os.path.basename(path)) if "nowhere" not in path and path not in ("", "-") else None
            for way in (self.local, self.mpi):
                result = way(plan, 4, "--report", path)
                self.assertEqual((result.code, result.out), (code, ""), str(result))
                self.assertRegex(result.err, pattern)
            if before is not None:
                self.assertEqual(self.read(os.path.basename(path)), before)
        self.assertEqual(run([harness.prun, "--ranks", 4, "--eval", "--report", "run.html", plan], cwd=self.folder).code, 2)

    def test_a_killed_run_leaves_the_page(self):
        self.report(self.write("net.dsl", NET % (1000, 1000)), 4)
        before = self.read("net.html")
        job = harness.started([harness.prun, "--ranks", 4, "--report", self.path("net.html"), self.path("net.plan")], self)
        harness.until(job, b"step: 30,")
        job.send_signal(signal.SIGKILL)
        job.wait()
        self.assertEqual(self.read("net.html"), before)
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".tmp")], [])

    def test_a_signal_ends_with_a_page(self):
        self.report(self.write("net.dsl", NET % (1000, 1000)), 4)
        job = harness.started([harness.prun, "--ranks", 4, "--report", self.path("net.html"), self.path("net.plan")], self)
        harness.until(job, b"step: 600,")
        job.send_signal(signal.SIGTERM)
        job.communicate()
        page = elements(self.read("net.html").decode())
        measured = self.check_run(page, None, 4, page["run"]["steps"])
        self.assertLess(measured["measured"], measured["steps"] / 8)


if __name__ == "__main__":
    harness.main()
