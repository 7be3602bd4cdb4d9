#!/usr/bin/env python3
"""Mode manual: what each communication gives every rank, and its gradient, against its definition in plain Python; over all ranks, an axis of the mesh and a declared group."""
import functools
import operator

import harness
from harness import Case

RANKS = 4
MESH = {"all": [[0, 1, 2, 3]], "rows": [[0, 2], [1, 3]], "columns": [[0, 1], [2, 3]], "three": [[3, 0, 1]]}  # over -> groups, in the order of their places
REDUCE = {"sum": sum, "mean": lambda column: sum(column) / len(column), "prod": lambda column: functools.reduce(operator.mul, column), "max": max, "min": min}
WIDTH = 12  # a value; 4 and 3 divide it


def definition(call, over, reduce="sum", root=0):
    """The communication as a function: the values of all ranks -> what each has then."""

    def apply(x):
        result = [list(value) for value in x] if call in ("all_reduce", "reduce", "broadcast") else [None] * RANKS
        for group in MESH[over]:
            of = [x[rank] for rank in group]
            at = group.index(root) if over in ("all", "three") else root
            total = [REDUCE[reduce](column) for column in zip(*of)]
            part = len(of[0]) // len(group)
            cut = lambda value, place: value[place * part:(place + 1) * part]
            for place, rank in enumerate(group):
                joined = [number for value in of for number in value]
                result[rank] = {"all_reduce": total, "reduce": total if place == at else [0] * len(total), "broadcast": of[at], "all_gather": joined,
                                "gather": joined if place == at else [0] * len(joined), "reduce_scatter": cut(total, place), "scatter": cut(of[at], place),
                                "all_to_all": [number for value in of for number in cut(value, place)]}[call]
        size = max(len(value) for value in result if value is not None)
        return [[0] * size if value is None else value for value in result]  # ranks of no group

    return apply


def gradient(function, weights):
    """Of the sum of all ranks' sum(weights * result) to each rank's value, for what is linear."""
    found = []
    for rank in range(RANKS):
        found.append([])
        for i in range(WIDTH):
            one = function([[float(r == rank and k == i) for k in range(WIDTH)] for r in range(RANKS)])
            found[rank].append(sum(w * y for rank_weights, value in zip(weights, one) for w, y in zip(rank_weights, value)))
    return found


def flat(lists):
    return [number for numbers in lists for number in numbers]


class Manual(Case):
    def trained(self, calls, more="", ranks=RANKS, how=None):
        """One step of a net that makes each call of a parameter of its own: name -> numbers of all states then. The loss weighs each result."""
        lines = []
        for name, (text, size) in calls.items():
            lines += ["param w_%s : f32[%d] = [%s];" % (name, WIDTH, ", ".join("rank * 3 + %d" % (i + 1) for i in range(WIDTH))),
                      "const c_%s : f32[%d] = [%s];" % (name, size, ", ".join("rank + %d" % (i % 5 - 2) for i in range(size))),
                      "state y_%s : f32[%d] = zeros;" % (name, size), text % {"x": "w_" + name, "y": "r_" + name}, "y_%s <- r_%s;" % (name, name)]
        loss = " + ".join("sum(c_%s * r_%s)" % (name, name) for name in calls)
        self.write("net.dsl", "net calls {\n%s\nloss %s;\n}\ntrain { optimizer = sgd(lr = 1.0); steps = 1; }\n"
                   "parallel { mode = manual; mesh (rows = 2, columns = 2); group (three = [3, 0, 1]); %s }\n" % ("\n".join(lines), loss, more))
        self.plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, "--replicas", RANKS)
        self.ok((how or self.local)(self.plan, ranks, "--save", self.path("out.safetensors")))
        return self.saved("out.safetensors")

    def test_every_call_and_its_gradient(self):
        value = [[float(rank * 3 + i + 1) for i in range(WIDTH)] for rank in range(RANKS)]
        calls, functions = {}, {}
        for over in MESH:
            where = "" if over == "all" else ", over = " + over
            for call in "all_reduce", "reduce", "broadcast", "all_gather", "gather", "reduce_scatter", "scatter", "all_to_all":
                root = (", root = 1", {"root": 1}) if call in ("reduce", "broadcast", "gather", "scatter") else ("", {})
                for reduce in REDUCE if call in ("all_reduce", "reduce_scatter") else ["sum"]:
                    name = "%s_%s_%s" % (call, reduce, over)
                    functions[name] = definition(call, over, reduce, **root[1])
                    word = ", " + reduce if "reduce" in call else ""
                    calls[name] = "%%(y)s = %s(%%(x)s%s%s%s);" % (call, word, where, root[0]), len(functions[name](value)[0])
        for ranks, how in (RANKS, self.local), (RANKS, self.mpi), (1, self.local):
            found = self.trained(calls, ranks=ranks, how=how)
            for name, function in functions.items():
                with self.subTest(name, ranks=ranks):
                    expected, size = function(value), calls[name][1]
                    self.assertClose(found["y_" + name], flat(expected), relative=1e-6)
                    if not any(word in name for word in ("prod", "max", "min")):
                        weights = [[rank + i % 5 - 2 for i in range(size)] for rank in range(RANKS)]
                        step = [before - after for before, after in zip(flat(value), found["w_" + name])]
                        self.assertClose(step, flat(gradient(function, weights)), absolute=1e-4)

    def test_messages_and_their_gradient(self):
        calls = {"ring": ("m = send(%(x)s, to = (rank + 1) %% nranks); %(y)s = recv(m, from = (rank + nranks - 1) %% nranks);", WIDTH),
                 "one": ("n = send(%(x)s, to = 3 * (rank == 1) - (rank != 1)); %(y)s = recv(n, from = 1 * (rank == 3) - (rank != 3));", WIDTH),
                 "wait": ("%(y)s = barrier(%(x)s);", WIDTH)}
        value = [[float(rank * 3 + i + 1) for i in range(WIDTH)] for rank in range(RANKS)]
        weights = [[rank + i % 5 - 2 for i in range(WIDTH)] for rank in range(RANKS)]
        none = [0.0] * WIDTH
        found = self.trained(calls)
        self.assertEqual(list(found["y_ring"]), flat([value[3], value[0], value[1], value[2]]))
        self.assertEqual(list(found["y_one"]), flat([none, none, none, value[1]]))
        self.assertEqual(list(found["y_wait"]), flat(value))
        step = lambda name: [before - after for before, after in zip(flat(value), found["w_" + name])]
        self.assertClose(step("ring"), flat([weights[1], weights[2], weights[3], weights[0]]), absolute=1e-4)
        self.assertClose(step("one"), flat([none, weights[3], none, none]), absolute=1e-4)
        self.assertIn(b"all_reduce", self.read("net.plan"), "the barrier waits for all")

    def test_messages_and_barriers_over_an_axis_and_a_group(self):
        """Over the axis rows ranks 0 and 2 are a group, 1 and 3 another; of the group three rank 2 is none."""
        value = [[float(rank * 3 + i + 1) for i in range(WIDTH)] for rank in range(RANKS)]
        none = [0.0] * WIDTH
        calls = {"turned": ("m = send(%(x)s, to = (rank < 2) - 0, over = rows); %(y)s = recv(m, from = (rank < 2) - 0, over = rows);", WIDTH),
                 "half": ("n = send(%(x)s, to = 1 - 2 * (rank > 1), over = rows); %(y)s = recv(n, from = (rank > 1) - 1, over = rows);", WIDTH),
                 "three": ("o = send(%(x)s, to = 3 * (rank == 1) - (rank != 1), over = three); %(y)s = recv(o, from = (rank == 3) - (rank != 3), over = three);", WIDTH),
                 "wait": ("%(y)s = barrier(%(x)s, over = columns);", WIDTH), "some": ("%(y)s = barrier(%(x)s, over = three);", WIDTH)}
        expected = {"turned": [value[2], value[3], value[0], value[1]], "half": [none, none, value[0], value[1]], "three": [none, none, none, value[1]], "wait": value, "some": value}
        for ranks, how in (RANKS, self.local), (RANKS, self.mpi), (1, self.local):
            found = self.trained(calls, ranks=ranks, how=how)
            for name, numbers in expected.items():
                with self.subTest(name, ranks=ranks):
                    self.assertEqual(list(found["y_" + name]), flat(numbers))
        weights = [[rank + i % 5 - 2 for i in range(WIDTH)] for rank in range(RANKS)]
        step = [before - after for before, after in zip(flat(value), found["w_half"])]
        self.assertClose(step, flat([weights[2], weights[3], none, none]), absolute=1e-4)
        for calls, words in (("m = send(x, to = 2, over = rows); y = recv(m, from = 0, over = rows);", "a place along the axis, from 0 to 1"),
                             ("m = send(x, to = 2 - 3 * (rank != 1), over = three); y = recv(m, from = -1, over = three);", "send: rank 2, the to of rank 1, is not in the group"),
                             ("m = send(x, to = 1, over = rows); y = recv(m, from = -1, over = rows);", "would wait for ever")):
            text = "net n { param w : f32[2] = ones; x = w * w; %s loss sum(y); } train { optimizer = sgd(lr = 0.1); steps = 1; } parallel { mode = manual; mesh (rows = 2, columns = 2); group (three = [3, 0, 1]); }" % calls
            self.assertFails(harness.run([harness.pcc, self.write("net.dsl", text), "--ranks", "4", "-o", self.path("net.plan")]), 1, words)

    def test_the_sample_gives_the_figures_of_its_comment(self):
        for ranks, how in (4, self.mpi), (2, self.local), (1, self.local):
            plan = self.compile(self.sample("collectives.dsl"), "net.plan", "--ranks", ranks, "--replicas", 4)
            self.ok(how(plan, ranks, "--save", self.path("out.safetensors")))
            found = self.saved("out.safetensors")
            four = lambda *value: list(value) * 4
            expected = {"total": four(10, 100), "average": four(2.5, 25), "product": four(24, 240000), "largest": four(4, 40), "smallest": four(1, 10),
                        "everyone": four(1, 10, 2, 20, 3, 30, 4, 40), "part": list(range(8)), "at_root": [0] * 6 + [10, 100], "sent": four(4, 40)}
            for name, numbers in expected.items():
                self.assertEqual(list(found[name]), numbers, name)
            for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all") if ranks > 1 else ():
                self.assertIn(("start %s " % kind).encode(), self.read("net.plan"), "each is the communication of its name")

    def test_data_parallel_by_hand_is_mode_data_parallel(self):
        """Rank 0's parameters for all ranks, and the sum of their gradients for it."""
        net = "net q { input x : f32[6, 3]; %s loss mean(square(x @ v)); } train { data = normal(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); steps = 4; } parallel { mode = %s; }"
        self.write("manual.dsl", net % ("param w : f32[3, 2] = [[1, 2], [3, 4], [5, 6]]; v = broadcast(w);", "manual"))
        self.write("ddp.dsl", net % ("param w : f32[3, 2] = [[1, 2], [3, 4], [5, 6]]; v = w;", "data_parallel; gradients = sum"))
        saved = {}
        for name in "manual", "ddp":
            plan = self.compile(name + ".dsl", name + ".plan", "--ranks", 4)
            self.ok(self.local(plan, 4, "--save", self.path(name)))
            saved[name] = self.saved(name)["w"]
        self.assertClose(saved["manual"][:6], saved["ddp"], relative=1e-6)
        self.assertEqual(list(saved["manual"][6:12]), [1, 2, 3, 4, 5, 6], "rank 1's own is not used")


if __name__ == "__main__":
    harness.main()
