"""Prints tests/runtime/wordpiece_table.h: the tokens that Hugging Face's tokenizers make of a few texts, and a vocabulary for them.

    python3 tests/runtime/wordpiece.py > tests/runtime/wordpiece_table.h
    python3 tests/runtime/wordpiece.py --check    # exits with 1 where the table is another one, with 77 where there are no tokenizers
"""
import os
import sys

try:
    from tokenizers import BertWordPieceTokenizer
except ImportError:
    sys.exit(77)

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wordpiece_table.h")
LENGTH = 16
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##aff", "##able", "##s", "cafe", "caf\u00e9", "Cafe", ",", "!", "$", "[", "]", "sep", "\u9152",
              "\u5e97", "##\u9152", "a", "##a", "##b", "\u110b", "##\u1161", "\uc544", "i", "\u03c3", "##\u03c3", "\u3002", "x", "##x", "the"]
CASES = ["", "the", "The caf\u00e9s, the CAF\u00c9!", "unaffable unaffables unaffablez", "\u9152\u5e97\u3002the\u9152", "a\u0301b aab", "[SEP] [sep][MASK]$[",
         "tab\tthe\nthe\u00a0the\u2028the\u3000the", "the\u0000\ufffd\u200bthe", "\uc544 \u03a3\u03a3 \u0130i", "x" * 100 + " " + "x" * 101, "x" * 101 + " the", "the " * 20,
         "\u00adthe\ue000", "caf\u00e9 cafe\u0301"]


def text(words):
    """A literal of C."""
    return '"' + "".join(chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else "\\%03o" % byte for byte in words.encode()) + '"'


def table():
    yield "/* Made by tests/runtime/wordpiece.py: not to be edited. */"
    yield "/* clang-format off */"
    yield "enum { LENGTH = %d };" % LENGTH
    yield "static const char vocabulary[] =\n    " + "\n    ".join(text(token + "\n") for token in VOCABULARY) + ";"
    yield "static const struct Case {\n    const char *text;\n    size_t n;\n    int32_t ids[2][LENGTH]; /* as it is; in small letters */\n} cases[] = {"
    ids = {token: i for i, token in enumerate(VOCABULARY)}
    both = [BertWordPieceTokenizer(ids, lowercase=lowercase) for lowercase in (False, True)]
    for tokenizer in both:
        tokenizer.enable_truncation(LENGTH)
        tokenizer.enable_padding(length=LENGTH, pad_id=0)
    for words in CASES:
        rows = ["{" + ", ".join(map(str, tokenizer.encode(words).ids)) + "}" for tokenizer in both]
        yield "    {%s, %d, {%s,\n        %s}}," % (text(words), len(words.encode()), *rows)
    yield "};"


made = "\n".join(table()) + "\n"
if "--check" in sys.argv:
    with open(TABLE, encoding="ascii") as file:
        sys.exit(file.read() != made)
print(made, end="")
