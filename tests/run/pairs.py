"""Pages that show another library's programs beside ours: their programs and tables, as the tests run them."""
import os
import re
import sys

import harness

# Runs each of several programs by itself, in a process that has the library already: a line "== N", and what program N prints.
EACH = """import sys
for number, path in enumerate(sys.argv[1:]):
    print("==", number)
    exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__"})
"""


def peer():
    """The Python that has the peers."""
    return os.environ.get("PEER_PYTHON", "python3")


def has(*modules):
    if harness.run([peer(), "-c", "import " + ", ".join(modules)]).code == 0:
        return True
    print("no %s here" % ", ".join(modules), end=" ", file=sys.stderr)
    return False


def numbers(text, pattern=r"(?m)^(\S+)$"):
    return [float(number) for number in re.findall(pattern, text)]


class Page:
    def __init__(self, name):
        with open(os.path.join(harness.sources, "docs", name), encoding="utf-8") as file:
            self.text = file.read()

    def block(self, name):
        """The text between ```language NAME and ```."""
        return re.search(r"(?ms)^```\w+ %s\b[^\n]*\n(.*?)^```$" % re.escape(name), self.text)[1]

    def net(self, head):
        """The net that has this head."""
        return next(text for text in re.findall(r"(?ms)^```net[^\n]*\n(.*?)^```$", self.text) if head in text)

    def table(self, before):
        """The rows of the first table behind these words: of both columns the code, its pieces as lines."""
        rest = self.text[self.text.index(before):]
        rows = re.search(r"(?m)^\|---\|---\|\n((?:\|.*\n)+)", rest)[1].splitlines()
        return [tuple(re.findall(r"`([^`]+)`", cell) for cell in re.match(r"\| (.*?) \| (.*) \|$", row).groups()) for row in rows]


def place(program, line, *lines):
    """The program with others in place of the line that begins so, and indented as it is."""
    found = re.search(r"(?m)^( *)%s.*\n" % re.escape(line), program)
    assert found, "no line %r in the program" % line
    return program[:found.start()] + "".join(found[1] + each + "\n" for each in lines) + program[found.end():]


def drop(program, *lines):
    for line in lines:
        program = place(program, line)
    return program
