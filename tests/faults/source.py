"""The sources as top-level items with names, and patterns of code in them.

An item is a function, a table, a macro (`#define NAME`) or a macro's use at the top of
a file, named with its first argument: BINARY(tanh).
A pattern is C text: white space and comments between its words do not matter, `$1`..`$9` stand for a name or a place such as a->b[i].c (the same
text where the number repeats), and `...` for anything within a statement.
"""
import os
import re

TOKEN = re.compile(r"""\$[1-9]|\.\.\.|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\w+|\s+|.""", re.S)
SKIPPED = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.S)
PLACE = r"\w+(?:(?:->|\.)\w+|\[[^\[\]]*\])*"
ENDS_LINE, GOES_ON = re.compile(r"[ \t]*(\n|$)"), re.compile(r"\s*[{;,=)]")
ENDINGS = (".c", ".h", ".def", ".y", ".l")


def blank(text, strings=False):
    """The text with its comments (and strings) replaced by as many spaces."""
    return SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()) if strings or m.group().startswith("/") else m.group(), text)


def items(text):
    """(name, begin, end) of every item at the top of a source file."""
    bare, at, found = blank(text, strings=True), 0, []
    while True:
        at += re.compile(r"[\s;]*").match(bare, at).end() - at
        if at == len(bare):
            return found
        begin = at
        used = None
        if bare[at] == "#":
            at = re.compile(r"(?:[^\n\\]|\\.)*", re.S).match(bare, at).end()
            name = re.match(r"#\s*define\s+(\w+)", bare[begin:at])
        else:
            at = end_of_item(bare, at)
            head = re.sub(r"\bstruct\s*\{.*", "", bare[begin:at].split("=")[0].split("{")[0], flags=re.S)
            name = re.search(r"(\w+)\s*[(\[]", head) or re.search(r"(\w+)\W*$", head)
            used = re.match(r"([A-Z_0-9]+\(\w+).*\)$", bare[begin:at], re.S)
        if used or name:
            found.append((used.group(1) + ")" if used else name.group(1), begin, at))


def end_of_item(bare, at):
    depth = 0
    for match in re.compile(r"[(){}\[\];]").finditer(bare, at):
        c, at = match.group(), match.end()
        depth += (c in "({[") - (c in ")}]")
        if depth == 0:
            ends_line = ENDS_LINE.match(bare, at)
            if c == ";" or (ends_line and (c == "}" or (c == ")" and not GOES_ON.match(bare, at)))):
                return at
    return len(bare)


def words(pattern):
    return [t for t in TOKEN.findall(pattern) if not t.isspace()]


def expression(pattern):
    """The regular expression of a pattern."""
    out, before, seen = "", None, set()
    for token in words(pattern):
        if before is not None:
            out += r"\s+" if re.match(r"\w", before[-1]) and re.match(r"\w", token) else r"\s*"
        if token == "...":
            out += r"[^;{}]*?"
        elif token[0] == "$" and len(token) == 2:
            out += f"(?P=p{token[1]})" if token in seen else f"(?P<p{token[1]}>{PLACE})"
            seen.add(token)
        else:
            out += (r"\b" if before is None and re.match(r"\w", token) else "") + re.escape(token)
        before = token
    return re.compile(out + (r"\b" if before and re.match(r"\w", before[-1]) else ""), re.S)


class Sources:
    """The items of all sources below some folders."""

    def __init__(self, root, folders):
        self.text, self.item = {}, {}
        for folder in folders:
            for where, _, names in os.walk(os.path.join(root, folder)):
                for name in sorted(names):
                    if name.endswith(ENDINGS):
                        self.add(os.path.relpath(os.path.join(where, name), root), os.path.join(where, name))

    def add(self, path, file):
        with open(file, encoding="utf-8") as source:
            self.text[path] = source.read()
        bare = blank(self.text[path])
        for name, begin, end in items(self.text[path]):
            self.item.setdefault(name, []).append((path, begin, bare[begin:end]))

    def items(self, name):
        """(path, offset, text) of the items of a name, which a folder may come before: `runtime/cpu:kernel_mean_grad`."""
        folder, _, name = name.rpartition(":")
        return [item for item in self.item.get(name, []) if item[0].startswith(folder)]

    def replace(self, name, pattern, new):
        """(path, text) of the file with the one match of the pattern in the items of a name replaced; or None, what is wrong."""
        found, where = self.items(name), []
        for path, begin, text in found:
            where += [(path, begin, match) for match in expression(pattern).finditer(text)]
        if len(where) == 1:
            path, begin, match = where[0]
            for part, text in match.groupdict().items():
                new = new.replace("$" + part[1:], text)
            text = self.text[path]
            new = new.replace("$0", text[begin + match.start():begin + match.end()])
            return (path, text[:begin + match.start()] + new + text[begin + match.end():]), None
        wrong = f"the pattern occurs {len(where)} times in {name}" if found else f"there is no {name}"
        others = [f"{other} ({path})" for other, all in self.item.items() for path, _, text in all if expression(pattern).search(text)]
        return None, f"{wrong}: {pattern}" + (f"\n    it occurs in {', '.join(others[:8])}" if others and not where else "")
