#!/usr/bin/env python3
"""The page of a report in a browser, headless: no error, nothing from outside, figures as --stats=json has them, bytes of each kind of conversion as pcc counts them, every control used.
usage: browser.py PCC PRUN MPIRUN|- SOURCES [unittest's arguments]
       browser.py --times FILE    how long interactions with a page take. Exits with 77 where there is no Chromium."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "run"))
import harness
from pages import STAGES, TABLES, WINDOWS, Pages

CHROMIUM = next((path for path in map(shutil.which, ["chromium", "chromium-browser", "google-chrome", "chrome"]) if path), None)
HERE = os.path.dirname(os.path.abspath(__file__))
# Before the page's scripts: what goes wrong is written down.
LISTEN = """<script>window.problems = []; addEventListener("error", (e) => problems.push("error: " + e.message));
document.addEventListener("securitypolicyviolation", (e) => problems.push("policy: " + e.violatedDirective + " " + e.blockedURI));
window.alert = () => problems.push("a name of the net ran as a script");</script>"""

# A name of a file that would end the element of the data, and a comment that would run, if they were written as they are.
HARMFUL = """# </script><script>alert(1)</script> <!-- <script> <b>bold</b> & "quoted"
net harmful(batch = 12) {
    input x : f32[batch, 7];
    input t : f32[batch, 3];
    param w : f32[7, 3] = normal(0.1);
    y = matmul(x, w) shard ((2, 3), (3, 1));  # </script>
    loss mse(y, t);
}
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }
"""
# Two batches of a step, and calls that are computed again.
AGAIN = """cell block(x, width) {
    param w : f32[width, width] = normal(0.1);
    return x + tanh(matmul(tanh(matmul(x, w)), w));
}
net again(batch = 16, dim = 8) {
    input x : f32[batch, dim];
    input t : f32[batch, dim];
    h = x;
    for i in 0..4 {
        h = block(h, dim) recompute;
    }
    loss mse(h, t);
}
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; accumulate = 2; }
"""
KINDS = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "exchange", "halo", "uneven"}


def data(page):
    """id -> the data of a page's elements, as they are written."""
    return {name: json.loads(text) for name, text in re.findall(r'<script type="application/json" id="(\w+)">([^<]*)</script>', page)}


def opened(folder, page, width, expected, real_clock=False):
    """What the checks in the page say."""
    script = open(os.path.join(HERE, "browser.js")).read()
    text = page.replace('<meta name="viewport"', LISTEN + '\n<meta name="viewport"', 1)
    data = json.dumps(expected).replace("<", "\\u003c")
    assert LISTEN in text and text.rstrip().endswith("</html>"), "the page has not the frame that the test knows"
    text = text.replace("</body>", "<script>const expected = %s;\n%s</script>\n</body>" % (data, script))
    path = os.path.join(folder, "checked.html")
    with open(path, "w") as file:
        file.write(text)
    clock = [] if real_clock else ["--virtual-time-budget=60000"]
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    result = subprocess.run([CHROMIUM, "--headless=new", "--disable-gpu", *root, "--user-data-dir=" + os.path.join(folder, "profile"), "--window-size=%d,%d" % (width, 900 if width < 2000 else 1440), "--enable-precise-memory-info", *clock,
                             "--host-resolver-rules=MAP * ~NOTFOUND", "--timeout=60000", "--dump-dom", "file://" + path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=200, check=False)
    found = re.search(r'<pre id="checks">(.*?)</pre>', result.stdout, re.S)
    if not found:
        return {"failed": ["the page did not come to its checks: " + html.unescape(result.stdout[-300:])], "done": 0, "kinds": [], "times": {}}
    return json.loads(html.unescape(found[1]))


class Browser(Pages):
    kinds = set()
    maxDiff = None

    def open(self, page, width=1366, stats=None, other=None):
        result = opened(self.folder, page, width, {"stats": stats, "other": other})
        self.kinds.update(result["kinds"])
        self.assertEqual("\n".join(result["failed"][:12]), "")
        self.assertGreater(result["done"], 150)

    def net(self, source, ranks, *options, width=1366):
        """The page of a net, beside that of the quick start."""
        other = data(self.page(self.sample("quickstart.dsl"), 8)[0])["plan"]
        page, stats = self.page(source, ranks, *options)
        self.open(page, width, stats, other)

    def test_quickstart(self):
        page, stats = self.page(self.sample("quickstart.dsl"), 8)
        self.open(page, stats=stats)
        broken = opened(self.folder, page.replace('"received":{"total":', '"received":{"total":1', 1), 1366, {"stats": stats, "other": None})
        self.assertTrue(any("received as --stats=json" in what for what in broken["failed"]), "a page with wrong bytes passes the checks")
        self.ok(self.local("net.plan", 8, "--report", "net.html"))
        self.open(self.read("net.html").decode(), stats=stats)
        self.ok(self.local("net.plan", 8, "--report", "alone.html"))
        self.open(self.read("alone.html").decode())

    def test_two_plans(self):
        self.compile(self.sample("quickstart.dsl"), "a.plan", "--ranks", 8)
        self.compile(self.sample("quickstart.dsl"), "b.plan", "--ranks", 8, "-O0")
        self.assertEqual(harness.run([harness.pcc, "--diff", "a.plan", "b.plan", "--report", "both.html"], cwd=self.folder).code, 1)
        self.open(self.read("both.html").decode())

    def test_stages(self):
        page, stats = self.page(self.write("stages.dsl", STAGES), 6)
        self.open(page, stats=stats)
        self.ok(self.local("net.plan", 6, "--report", "net.html"))
        self.open(self.read("net.html").decode(), 2560, stats)

    def test_tables(self):
        self.net(self.write("tables.dsl", TABLES), 4)

    def test_windows(self):
        self.net(self.write("windows.dsl", WINDOWS), 4)

    def test_recompute(self):
        self.net(self.write("again.dsl", AGAIN), 4)

    def test_flat(self):
        """Lines that are in no loop and no call: more than are drawn at once."""
        layers = "".join("    param w%d : f32[8, 8] = normal(0.1);\n    a%d = relu(matmul(%s, w%d));\n" % (i, i, "a%d" % (i - 1) if i else "x", i) for i in range(80))
        self.net(self.write("flat.dsl", "net flat(batch = 8) {\n    input x : f32[batch, 8];\n    input t : f32[batch, 8];\n%s    loss mse(a79, t);\n}\ntrain { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }\n" % layers), 4)

    def test_harmful(self):
        self.net(self.write("<b>&.dsl", HARMFUL), 6)

    def test_others(self):
        sample = self.sample
        for name, ranks, options, width in (
                ("transformer", 8, ["--hints", sample("transformer_hints.dsl")], 2560), ("moe_tiny", 8, ["--hints", sample("moe_tiny_hints.dsl")], 1366), ("dlrm", 6, [], 1366), ("dlrm", 8, ["--search", "auto"], 1366), ("evaluation", 4, ["--search", "auto"], 1366), ("unet_tiny", 8, [], 1366),
                ("evaluation", 1, [], 1366), ("llama_tiny", 4, [], 1366), ("collectives", 4, [], 1366), ("characters", 4, [], 1366), ("attention", 8, ["--search", "dynamic_programming", "--machine", "gpu8"], 1366)):
            with self.subTest(name):
                self.net(sample(name + ".dsl"), ranks, *options, width=width)
        self.net(self.write("windows.dsl", WINDOWS), 4)
        self.assertEqual(KINDS - self.kinds, set())


def times(path):
    with tempfile.TemporaryDirectory() as folder, open(path, encoding="utf-8") as file:
        result = opened(folder, file.read(), 1366, {"stats": None, "other": None, "now": True}, real_clock=True)
    print("%d checks, failed: %s" % (result["done"], result["failed"][:5]))
    print({name: round(ms, 1) for name, ms in result["times"].items()}, "heap %.0f MB" % (result.get("heap", 0) / 1e6), result.get("elements"), "elements")


if not CHROMIUM:
    print("there is no Chromium: skipped")
    sys.exit(77)
if sys.argv[1:2] == ["--times"]:
    times(sys.argv[2])
else:
    harness.main()
