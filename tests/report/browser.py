#!/usr/bin/env python3
"""The page of a report in a browser, headless: no error, nothing from outside, figures as --stats=json has them, bytes of each kind of conversion as pcc counts them, every control used.
usage: browser.py PCC PRUN SAMPLES [NET..]         these nets of those below, all where none is named
       browser.py PCC PRUN SAMPLES --times FILE    how long interactions with a page take. Exits with 77 where there is no Chromium."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

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
# Halos, and parts that are not equal.
WINDOWS = """import "nn.dsl";
net windows {
    input x : f32[2, 3, 19, 8];
    input t : f32[2, 4, 19, 8];
    k = conv2d(x, 4, 3, padding = 1) shard ((1, 1, 4, 1), (1, 1, 1, 1));
    loss mse(conv2d(relu(k), 4, 3, padding = 1) shard ((1, 1, 2, 1), (1, 1, 1, 1)), t);
}
train { optimizer = sgd(lr = 0.1); data = normal(seed = 1); steps = 2; }
"""
KINDS = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "exchange", "halo", "uneven"}


def elements(page):
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
    result = subprocess.run([CHROMIUM, "--headless=new", "--disable-gpu", *root, "--user-data-dir=" + os.path.join(folder, "profile"), "--window-size=%d,900" % width, "--enable-precise-memory-info", *clock,
                             "--host-resolver-rules=MAP * ~NOTFOUND", "--timeout=60000", "--dump-dom", "file://" + path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=200, check=False)
    found = re.search(r'<pre id="checks">(.*?)</pre>', result.stdout, re.S)
    if not found:
        return {"failed": ["the page did not come to its checks: " + html.unescape(result.stdout[-300:])], "done": 0, "kinds": [], "times": {}}
    return json.loads(html.unescape(found[1]))


def compile_net(pcc, folder, name, arguments):
    """The page of a net, and --stats=json of the same plan."""
    page = os.path.join(folder, name + ".html")
    plan = os.path.join(folder, name + ".plan")
    done = subprocess.run([pcc, *arguments, "-o", plan, "--report", page, "--stats=json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit("pcc %s: %s" % (" ".join(arguments), done.stderr))
    with open(page) as file:
        return file.read(), json.loads(done.stdout), plan


def main():
    pcc, prun, samples = sys.argv[1:4]
    if not CHROMIUM:
        print("there is no Chromium: skipped")
        sys.exit(77)
    failed, kinds = 0, set()

    def say(name, result):
        nonlocal failed
        kinds.update(result["kinds"])
        print("%-28s %5d checks, %d failed" % (name, result["done"], len(result["failed"])))
        for what in result["failed"][:12]:
            print("    " + what)
        failed += len(result["failed"]) + (result["done"] == 0)

    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[4:5] == ["--times"]:
            with open(sys.argv[5]) as file:
                page = file.read()
            result = opened(folder, page, 1366, {"stats": None, "other": None, "now": True}, real_clock=True)
            say(sys.argv[5], result)
            print({name: round(ms, 1) for name, ms in result["times"].items()}, "heap %.0f MB" % (result.get("heap", 0) / 1e6), result.get("elements"), "elements")
            return
        harmful = os.path.join(folder, "<b>&.dsl")
        windows = os.path.join(folder, "windows.dsl")
        with open(harmful, "w") as file:
            file.write(HARMFUL)
        with open(windows, "w") as file:
            file.write(WINDOWS)
        sample = lambda name: os.path.join(samples, name)
        nets = [
            ("quickstart", [sample("quickstart.dsl"), "--ranks", "8"], 1366),
            ("transformer", [sample("transformer.dsl"), "--ranks", "8", "--hints", sample("transformer_hints.dsl")], 2560),
            ("moe", [sample("moe_tiny.dsl"), "--ranks", "8", "--hints", sample("moe_tiny_hints.dsl")], 1366),
            ("dlrm-6-ranks", [sample("dlrm.dsl"), "--ranks", "6"], 1366),
            ("unet", [sample("unet_tiny.dsl"), "--ranks", "8"], 1366),
            ("windows", [windows, "--ranks", "4", "-I", samples], 1366),
            ("one-rank", [sample("evaluation.dsl"), "--ranks", "1"], 1366),
            ("collectives", [sample("collectives.dsl"), "--ranks", "4"], 1366),
            ("characters", [sample("characters.dsl"), "--ranks", "4"], 1366),
            ("harmful", [harmful, "--ranks", "6"], 1366),
        ]
        pages = {}
        wanted = sys.argv[4:] or [net[0] for net in nets]
        for name, arguments, width in [net for net in nets if net[0] in wanted]:
            page, stats, plan = compile_net(pcc, folder, name, arguments)
            pages[name] = page
            other = elements(pages["quickstart"])["plan"] if name != "quickstart" else None
            say(name, opened(folder, page, width, {"stats": stats, "other": other}))
            if name == "quickstart":
                run = subprocess.run([prun, "--ranks", "8", "--report", os.path.join(folder, name + ".html"), plan], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
                if run.returncode != 0:
                    sys.exit("prun: " + run.stderr)
                with open(os.path.join(folder, name + ".html")) as file:
                    say("quickstart, measured", opened(folder, file.read(), 1366, {"stats": stats, "other": None}))
                alone = os.path.join(folder, "alone.html")
                subprocess.run([prun, "--ranks", "8", "--report", alone, plan], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
                with open(alone) as file:
                    say("quickstart, of prun alone", opened(folder, file.read(), 1366, {"stats": None, "other": None}))
                other_plan, both = os.path.join(folder, "other.plan"), os.path.join(folder, "both.html")
                subprocess.run([pcc, *arguments, "-O0", "-o", other_plan], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
                subprocess.run([pcc, "--diff", plan, other_plan, "--report", both], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
                with open(both) as file:
                    say("two plans", opened(folder, file.read(), 1366, {"stats": None, "other": None}))
        broken = pages["quickstart"].replace('"received":{"total":', '"received":{"total":1', 1)
        _, stats, _ = compile_net(pcc, folder, "again", nets[0][1])
        seeded = opened(folder, broken, 1366, {"stats": stats, "other": None})
        if not any("received as --stats=json" in what for what in seeded["failed"]):
            print("a page with wrong bytes passed the checks")
            failed += 1
    if len(sys.argv) == 4 and KINDS - kinds:
        print("not covered: " + ", ".join(sorted(KINDS - kinds)))
        failed += 1
    sys.exit(1 if failed else 0)


main()
