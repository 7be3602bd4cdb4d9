#!/usr/bin/env python3
"""prun --plot: what --metrics has written as an SVG picture and as text, of both forms and several runs; what is no such file is named."""
import json
import re
import xml.etree.ElementTree

import harness
from harness import Case, run

NET = """net small(batch = 4) { input x : f32[batch, 4]; input y : i32[batch]; param w : f32[4, 3] = normal(0.3); loss cross_entropy(matmul(x, w), y); }
train { data = uniform(seed = 3); optimizer = sgd(lr = 0.1); epochs = 3; steps = 8; }
eval { data = uniform(seed = 4); steps = 2; metrics = loss, accuracy; }
"""
SVG = "{http://www.w3.org/2000/svg}"


def line(step, **numbers):
    return json.dumps({"epoch": 1, "step": step, "global_step": step, **numbers}) + "\n"


class Plot(Case):
    def plot(self, *words):
        return run([harness.prun, *words], cwd=self.folder)

    def picture(self, name):
        root = xml.etree.ElementTree.parse(self.path(name)).getroot()
        titles = [text.text for text in root.iter(SVG + "text") if text.get("font-weight") == "bold"]
        lines = [[tuple(map(float, point)) for point in re.findall(r"[ML]([\d.]+) ([\d.]+)", path.get("d"))] for path in root.iter(SVG + "path") if path.get("fill") == "none"]
        return root, titles, lines

    def test_both_forms_of_a_run_give_the_same_picture(self):
        self.write("net.dsl", NET)
        plan = self.compile("net.dsl", "net.plan")
        for name in "a.jsonl", "a.csv":
            self.ok(run([harness.prun, "--metrics", name, plan], cwd=self.folder))
            self.ok(self.plot("--plot=%s.svg" % name, name))
            _, titles, lines = self.picture(name + ".svg")
            self.assertEqual(titles, ["loss", "accuracy"], "lr is constant")
            self.assertEqual([len(points) for points in lines], [24, 3, 3])
        self.assertEqual(self.read("a.csv.svg"), self.read("a.jsonl.svg").replace(b"a.jsonl", b"a.csv"))

    def test_points_stand_where_their_numbers_are(self):
        """Losses 1, null, 0.5, 0 at steps 0, 10, 20, 40: straight lines over the whole panel; of what falls on one pixel the ends are drawn."""
        self.write("a<b>.jsonl", line(0, loss=1.0, lr=0.1) + line(10, loss=None) + line(20, loss=0.5, lr=0.2) + line(40, loss=0.0, lr=0.2) + '{"epoch": 1, "st')
        self.write("many.jsonl", "".join(line(step, loss=float(step % 2)) for step in range(40001)))
        self.ok(self.plot("--plot=p.svg", "a<b>.jsonl", "many.jsonl"))
        root, titles, (_, many, rate) = self.picture("p.svg")
        self.assertEqual((titles, len(rate)), (["loss", "lr"], 3))
        self.assertIn("a<b>.jsonl", [text.text for text in root.iter(SVG + "text")])
        self.ok(self.plot("--plot=q.svg", "a<b>.jsonl"))
        _, _, ((first, second, third), rate) = self.picture("q.svg")
        self.assertEqual((first[0], second[0], third[0]), (72, 406, 740))
        self.assertEqual((third[1] - first[1], second[1] - first[1]), (220, 110))
        self.assertLess(len(many), 4 * 700)
        self.assertEqual(len({y for _, y in many}), 2)

    def test_text_has_axes_and_a_symbol_for_each_line(self):
        self.write("a.jsonl", "".join(line(step, loss=float(100 - step)) for step in range(101)) + line(100, eval=True, loss=50.0, rows=4))
        result = self.ok(self.plot("--plot", "a.jsonl"))
        rows = [row[13:] for row in result.out.splitlines()[1:16]]
        self.assertEqual(set(rows[0]), {"*"})
        ends = [row.rindex("*") for row in rows]
        self.assertEqual(ends, sorted(ends), "it falls")
        self.assertEqual([row[:11].strip() for row in result.out.splitlines()[1:16:7]], ["100", "50", "0"])
        self.assertEqual(rows[7][-1], "o")
        self.assertRegex(result.out, r"(?m)^ +0 +100\n +\* a.jsonl\n +o a.jsonl, evaluations$")
        self.assertLessEqual(max(map(len, result.out.splitlines())), 80)

    def test_numbers_of_any_size_have_axes(self):
        for numbers in (0.0,), (1e-300, 2e-300), (1e299, -1e299), (5.0, 5.0000000000001), (1e-5, 3.0, 2e7):
            self.write("a.jsonl", "".join(line(i, loss=number) for i, number in enumerate(numbers)))
            self.ok(self.plot("--plot=p.svg", "a.jsonl"))
            _, _, lines = self.picture("p.svg")
            self.assertTrue(all(70 <= x <= 742 and 0 <= y <= 400 for points in lines for x, y in points), lines)
            self.assertIn("loss", self.ok(self.plot("--plot", "a.jsonl")).out)

    def test_what_cannot_be_drawn_is_said(self):
        self.write("text", "Hello\n")
        self.write("cut.csv", "epoch,step,global_step,eval,rows,loss\n1,1,1,0,,0.5\n1,2,2,0,\n")
        self.write("bad.jsonl", line(1, loss=0.5) + "{}\n")
        self.write("empty.jsonl", "")
        for words, code, said in ((["--plot", "text"], 3, "text:1: this is no line of --metrics"), (["--plot", "cut.csv"], 3, "cut.csv:3: this is no line"),
                                  (["--plot", "bad.jsonl"], 3, "bad.jsonl:2: this is no line"), (["--plot", "empty.jsonl"], 3, "empty.jsonl: there is nothing to draw"),
                                  (["--plot", "none"], 3, "none: cannot be opened: No such file"), (["--plot"], 2, "--plot draws files of --metrics: which"),
                                  (["--plot", "--eval", "text"], 2, "--plot draws what runs have written and runs nothing: leave out --eval")):
            self.assertFails(self.plot(*words), code, said)
        self.write("good.jsonl", line(1, loss=0.5))
        self.assertFails(self.plot("--plot=good.PNG", "good.jsonl"), 2, "--plot=good.PNG: the picture is SVG: --plot=FILE.svg")
        self.assertFails(self.plot("--plot=good.jsonl", "good.jsonl"), 2, "--plot=good.jsonl would overwrite the metrics that it draws")
        self.assertEqual(self.read("good.jsonl").decode(), line(1, loss=0.5))
        self.write("other.jsonl", line(1, loss=0.25))
        self.assertFails(self.plot("--plot=other.jsonl", "good.jsonl"), 2, "--plot=other.jsonl would overwrite a file that is no SVG: ")
        self.assertEqual(self.read("other.jsonl").decode(), line(1, loss=0.25))
        for _ in range(2):  # the second replaces a picture
            self.ok(self.plot("--plot=good.svg", "good.jsonl", "other.jsonl"))


if __name__ == "__main__":
    harness.main()
