#!/usr/bin/env python3
"""Text that is generated: place by place, with keys and values kept, or many places of a prompt at once, the logits are those of the whole forward pass, on any ranks with any
strategies; what is not causal is refused; what is drawn depends on the logits, the seed and the place alone."""
import json
import random
import re
import struct
import unittest

import harness
from harness import Case, edited, npy

TRAIN = """
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }
"""

# Attention written in other ways: each body makes y of x f32[1, places, dim]; T is the number of places.
BODIES = {
    "softmax_by_hand": """const mask : f32[T, T] = causal(-1e9); param wq : f32[D, D] = normal(0.5); param wk : f32[D, D] = normal(0.5);
        s = matmul(x @ wq, x @ wk, transpose_b = true) * 0.5 + mask; e = exp(s - max(s, axes = -1, keep_dims = true)); y = matmul(e / sum(e, axes = -1, keep_dims = true), x);""",
    "mask_by_where": """const upto : f32[T, T] = causal(-1.0); param wq : f32[D, D] = normal(0.5);
        s = matmul(x @ wq, x, transpose_b = true); y = matmul(softmax(where(equal(upto, 0.0), s, -1e30)), x);""",
    "scaled_behind_the_mask": """const mask : f32[T, T] = causal(-1e9); y = matmul(softmax((matmul(x, x, transpose_b = true) + mask) * 0.25), x);""",
    "linear_attention": """const past : f32[T, T] = causal(-1.0); y = matmul(matmul(x, x, transpose_b = true) * (past + 1.0), x);""",
    "einsum": """const mask : f32[T, T] = causal(-1e9); q = reshape(x, shape = [1, T, 2, D / 2]); s = einsum("bthd,bshd->bhts", q, q) + mask;
        y = reshape(einsum("bhts,bshd->bthd", softmax(s), q), shape = [1, T, D]);""",
    "masked_by_a_constant": """const past : f32[T, T] = causal(-1.0); y = dot_product_attention(x, x * 2, x + 1, equal(past, 0.0));""",
    "causal_and_masked": """const near : f32[T, T] = causal(-1.0); y = dot_product_attention(x, x, x * 2, greater_equal(near, -2.0), causal = true);""",
    "rope_back": """y = dot_product_attention(rope(x, base = 100.0), rope(x, base = 100.0, inverse = true), x, causal = true);""",
    "rows_of_a_table": """param turned : f32[D, T] = normal(0.5); const flag : bool[T] = zeros; const count : i32[T] = ones; y = where(reshape(flag, shape = [T, 1]), x, x * turned.T) + cast(reshape(count, shape = [T, 1]), to = f32);""",
    "two_readers_of_one_cache": """const mask : f32[T, T] = causal(-1e9); a = matmul(softmax(matmul(x, x, transpose_b = true) + mask), x); y = matmul(softmax(matmul(a, x, transpose_b = true) + mask), x) + a;""",
    "a_kept_condition": """seen = reshape(not_equal(text, 0), shape = [1, 1, T]); y = dot_product_attention(x, x, x, seen, causal = true);""",
    "padding": """k = where(reshape(equal(text, 0), shape = [1, T, 1]), x * 0, x); y = dot_product_attention(x, k, x, causal = true);""",
    "without_rows": """a = reshape(x, shape = [T, D]); y = dot_product_attention(a, a, a, causal = true) + sum(a, axes = -1, keep_dims = true);""",
}

# What is refused: the operator that the error names.
REFUSED = {
    "attention that sees all": ("y = dot_product_attention(x, x, x);", r"dot_product_attention weighs all places of the text, also those behind its own"),
    "softmax of all": ("y = matmul(softmax(matmul(x, x, transpose_b = true)), x);", r"softmax weighs all places"),
    "a mask that lets one place through": ("const mask : f32[3, 3] = [[0, -1e9, -1e9], [0, 0, -5], [0, 0, 0]]; y = matmul(softmax(matmul(x, x, transpose_b = true) + mask), x);", r"softmax weighs all places"),
    "a mask of the other side": ("const mask : f32[T, T] = causal(-1e9); y = matmul(softmax(matmul(x, x, transpose_b = true) + mask.T), x);", r"softmax weighs all places"),
    "scores that are not weighed": ("y = matmul(matmul(x, x, transpose_b = true), x);", r"matmul sums over all places"),
    "a mean over places": ("y = x - mean(x, axes = 1, keep_dims = true);", r"mean goes over the places of text"),
    "a norm over places": ("param w : f32[T, D] = ones; param b : f32[T, D] = zeros; y = layer_norm(x, w, b, eps = 1e-5);", r"layer_norm goes over the places of text"),
    "places that are moved": ("y = concat(slice(x, begin = [0, 1, 0], end = [1, T, D]), slice(x, begin = [0, 0, 0], end = [1, 1, D]), axis = 1);", r"slice cuts or joins the places of text"),
    "a convolution": ("param w : f32[T, T, 1, 3] = normal(0.5); y = reshape(conv2d(reshape(x, shape = [1, T, 1, D]), w, padding = [0, 1]), shape = [1, T, D]);", r"conv2d mixes the places of text"),
    "places that are joined": ("param w : f32[T * D, T * D] = normal(0.5); y = reshape(reshape(x, shape = [1, T * D]) @ w, shape = [1, T, D]);", r"reshape cuts or joins|reshape joins the places"),
}


def net(body, places=6, dim=8, tokens=11, generate="text = text; logits = logits; temperature = 0;", more=""):
    """A net of the body; the answers are [1, places, tokens] whatever its rows."""
    body = re.sub(r"(?<!\.)\bT\b", str(places), re.sub(r"\bD\b", str(dim), body))
    return """net n(batch = 1) {
        input text : i32[batch, %d]; input next : i32[batch, %d]; param letter : f32[%d, %d] = normal(0.7); param where_ : f32[%d, %d] = normal(0.7);
        x = embedding(letter, text) + where_;
        %s
        param out : f32[%d, %d] = normal(0.7);
        logits = reshape(y @ out, shape = [1, %d, %d]);
        loss cross_entropy(logits, next);
    }
    %s
    generate { %s }
    %s""" % (places, places, tokens, dim, places, dim, body, dim, tokens, places, tokens, TRAIN, generate, more)


class Generated(Case):
    def tokens(self, places, tokens, seed=7):
        pick = random.Random(seed)
        return [pick.randrange(tokens) for _ in range(places)]

    def whole(self, source, text, value, tokens, *flags):
        """Logits of the whole forward pass, on one rank: those of each place."""
        with open(self.path(source), encoding="utf-8") as file:
            self.write("whole.dsl", file.read() + "\neval { every = never; batch = 1; data = npy(%s = \"tokens.npy\"); predict = %s; }\n" % (text, value))
        self.write("tokens.npy", npy(tokens, (1, len(tokens)), "i"))
        plan = self.compile("whole.dsl", "whole.plan", "--ranks", 1, *flags)
        self.ok(self.local(plan, 1, "--predict", self.path("y.npy")))
        data = self.read("y.npy")
        begin = 10 + struct.unpack("<H", data[8:10])[0]
        numbers = struct.unpack("<%df" % ((len(data) - begin) // 4), data[begin:])
        width = len(numbers) // len(tokens)
        return [numbers[i * width:(i + 1) * width] for i in range(len(tokens))]

    def decoded(self, plan, ranks, tokens, mpi=False):
        options = ["--generate", 0, "--prompt-tokens", ",".join(map(str, tokens)), "--logits", self.path("logits.csv")]
        self.ok(self.mpi(plan, ranks, *options) if mpi else self.local(plan, ranks, *options))
        return [[float(x) for x in line.split(",")] for line in self.read("logits.csv").decode().split()]

    def behind(self, plan, ranks, tokens, *launch):
        """The logits behind a prompt, whose places are read many at once where the plan has a program for that."""
        options = ["--generate", 1, "--prompt-tokens", ",".join(map(str, tokens)), "--logits", self.path("logits.csv")]
        self.ok(harness.run([harness.prun, *(launch or ("--ranks", ranks)), *options, plan], cwd=self.folder))
        return [[float(x) for x in line.split(",")] for line in self.read("logits.csv").decode().split()]

    def assertSame(self, found, expected, what):
        self.assertEqual(len(found), len(expected), what)
        most = max(abs(x) for row in expected for x in row)
        self.assertGreater(most, 0.01, what)
        for place, (a, b) in enumerate(zip(found, expected)):
            self.assertClose(a, b, absolute=1e-5 * most, what="%s, place %d" % (what, place))

    def compare(self, source, text, value, tokens, cases):
        expected = self.whole(source, text, value, tokens)
        for ranks, *flags in cases:
            plan = self.compile(source, "net.plan", "--ranks", ranks, *flags)
            self.assertSame(self.decoded(plan, ranks, tokens), expected, "%s on %d ranks %s" % (source, ranks, flags))
            self.assertEqual("\nprogram prompt " in self.read("net.plan").decode(), " written cache " in self.read("net.plan").decode())
            self.assertSame(self.behind(plan, ranks, tokens), expected[-1:], "%s on %d ranks %s, the prompt at once" % (source, ranks, flags))
        return expected

    def nets(self, *names):
        for name in ("nn.dsl",) + names:
            self.write(name, edited(self.sample(name)))

    # ------------------------------------------------------------ the logits are those of the whole forward pass

    def test_characters(self):
        self.nets("characters_hints.dsl")
        self.write("characters.dsl", edited(self.sample("characters.dsl"), ("places = 64, dim = 64", "places = 24, dim = 32")))
        tokens = self.tokens(24, 128)
        cases = [(1,), (2,), (3,), (4, "--hints", "characters_hints.dsl"), (8,), (4, "--search", "auto"), (4, "-O0"), (2, "-O1"), (1, "-D", "batch=3")]
        expected = self.compare("characters.dsl", "text", "logits", tokens, cases)
        plan = self.compile("characters.dsl", "net.plan", "--ranks", 4, "--hints", "characters_hints.dsl")
        self.assertSame(self.decoded(plan, 4, tokens, mpi=True), expected, "mpirun")
        self.assertSame(self.decoded(plan, 4, tokens[:5]), expected[:5], "a part of the text")

    def test_gpt_tiny(self):
        self.nets()
        text = edited(self.sample("../tests/bench/nets/gpt_tiny.dsl"), ("batch = 16, places = 128, dim = 256, heads = 8, layers = 4", "batch = 4, places = 20, dim = 32, heads = 4, layers = 2"))
        self.write("gpt.dsl", text + "generate { text = text; logits = logits; }\n")
        self.compare("gpt.dsl", "text", "logits", self.tokens(20, 256), [(1,), (2,), (4,), (8,), (2, "--shard", "**.up.y=((1, 1, 1), (2, 1))")])

    def test_llama_tiny(self):
        self.nets("llama_tiny_hints.dsl")
        self.write("llama.dsl", edited(self.sample("llama_tiny.dsl")))
        self.compare("llama.dsl", "word", "lm_head", self.tokens(16, 64), [(1,), (2,), (4,), (8, "--hints", "llama_tiny_hints.dsl"), (8,), (4, "--search", "auto")])

    def test_mixtral_tiny(self):
        self.nets("mixtral_tiny_hints.dsl")
        self.write("mixtral.dsl", edited(self.sample("mixtral_tiny.dsl")))
        self.compare("mixtral.dsl", "word", "lm_head", self.tokens(16, 64), [(1,), (3,), (8, "--hints", "mixtral_tiny_hints.dsl")])

    def test_attention_written_in_other_ways(self):
        for name, body in BODIES.items():
            with self.subTest(name):
                self.write("net.dsl", net(body))
                self.compare("net.dsl", "text", "logits", self.tokens(6, 11), [(1,), (2,), (3,)])

    def test_places_of_a_cache_may_be_split(self):
        """Each rank keeps a part of the places, and writes those that it has."""
        body = """const mask : f32[T, T] = causal(-1e9); s = matmul(x, x, transpose_b = true) shard ((1, 1, 1), (1, %d, 1));
            y = matmul(softmax(s + mask), x) shard ((1, 1, %d), (1, %d, 1));"""
        for ranks in 2, 3:
            self.write("net.dsl", net(body % ((ranks,) * 3)))
            self.compare("net.dsl", "text", "logits", self.tokens(6, 11), [(ranks, "--search", "sharding_propagation", "-Wno-costly")])
            self.assertRegex(self.read("net.plan").decode(), r"(?s)x\.cache f32\[1, 6, 8\] .*kernel put ")
            layout = re.search(r"x\.cache .* layout=(\d+)", self.read("net.plan").decode())[1]
            self.assertRegex(self.read("net.plan").decode(), r"(?m)^layout %s \[- %d@1 -\]$" % (layout, ranks))

    def test_mode_data_parallel(self):
        """Ranks and replicas that train by themselves generate together, also where they keep parts of parameters and states."""
        self.write("net.dsl", net(BODIES["rope_back"]))
        expected = self.whole("net.dsl", "text", "logits", self.tokens(6, 11))
        self.write("net.dsl", net(BODIES["rope_back"], more="parallel { mode = data_parallel; shard_from = 0; }"))
        for ranks, *flags in (1,), (2,), (3,), (2, "--replicas", 5), (4, "--shard-states", "parameters"), (2, "-O0"):
            with self.subTest(ranks=ranks, flags=flags):
                plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, *flags)
                self.assertSame(self.decoded(plan, ranks, self.tokens(6, 11)), expected, str((ranks, flags)))
                self.assertSame(self.behind(plan, ranks, self.tokens(6, 11)), expected[-1:], str((ranks, flags)))
                self.ok(self.local(plan, ranks, "--save", "after.safetensors"))
                texts = [self.ok(self.local(p, r, "--load", "after.safetensors", "--generate", 4, "--prompt-tokens", "3,1")).out for p, r in ((plan, ranks), (self.compile("net.dsl", "one.plan", "--ranks", 1), 1))]
                self.assertEqual(texts[0], texts[1])

    def test_f64_and_bf16(self):
        self.write("net.dsl", net(BODIES["rope_back"]).replace("f32", "f64").replace("f64[0", "f32"))
        self.write("half.dsl", net(BODIES["rope_back"]).replace("train {", "train { precision = bf16;"))
        tokens = self.tokens(6, 11)
        plan = self.compile("half.dsl", "half.plan", "--ranks", 2)
        whole = self.decoded(self.compile("half.dsl", "one.plan", "--ranks", 1), 1, tokens)
        for a, b in zip(self.decoded(plan, 2, tokens), whole):
            self.assertClose(a, b, absolute=0.05 * max(map(abs, b)))
        one = self.decoded(self.compile("net.dsl", "net.plan", "--ranks", 1), 1, tokens)
        for a, b in zip(self.decoded(self.compile("net.dsl", "net.plan", "--ranks", 2), 2, tokens), one):
            self.assertClose(a, b, absolute=1e-8)

    # ------------------------------------------------------------ many places of a prompt at once

    def test_prompts_of_any_length_are_read_in_steps_of_any_size(self):
        """The last step begins earlier where there is no room behind it, or takes places that are still to come."""
        tokens = self.tokens(13, 11)
        for name in "rope_back", "softmax_by_hand", "a_kept_condition":
            self.write("net.dsl", net(BODIES[name], places=13))
            expected, texts = self.whole("net.dsl", "text", "logits", tokens), {}
            for chunk in 1, 2, 3, 5, 12, 13, 100:
                self.write("net.dsl", net(BODIES[name], places=13, generate="text = text; logits = logits; temperature = 0; chunk = %d;" % chunk))
                plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
                self.assertEqual("\nprogram prompt " in self.read("net.plan").decode(), chunk > 1)
                for n in range(1, 14):
                    what = "%s: %d places, %d at once" % (name, n, chunk)
                    self.assertSame(self.behind(plan, 2, tokens[:n]), expected[n - 1:n], what)
                    text = self.text(plan, 2, "--generate", 14 - n, "--prompt-tokens", ",".join(map(str, tokens[:n])))
                    self.assertEqual(text, texts.setdefault(n, text), what)

    def test_the_prompt_at_once_by_processes(self):
        self.write("net.dsl", net(BODIES["rope_back"], generate="text = text; logits = logits; chunk = 4;"))
        plan, one = self.compile("net.dsl", "net.plan", "--ranks", 3), self.compile("net.dsl", "one.plan", "--ranks", 1)
        tokens = self.tokens(6, 11)
        self.assertSame(self.behind(plan, 3, tokens, "--nproc", 3), self.behind(one, 1, tokens), "--nproc 3")

    def test_a_net_that_keeps_nothing_has_no_program_for_prompts(self):
        self.write("net.dsl", net("y = relu(x) + x;"))
        plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
        self.assertNotIn("program prompt", self.read("net.plan").decode())
        self.assertSame(self.behind(plan, 2, [3, 1]), self.decoded(plan, 2, [3, 1])[1:], "two places")

    def test_a_prompt_is_shorter_to_read_than_its_places(self):
        self.write("net.dsl", net(BODIES["rope_back"], places=64))
        done = self.ok(harness.run(harness.compiling("net.dsl", "--stats", "--ranks", 1, cwd=self.folder), cwd=self.folder)).out
        self.assertRegex(done, r"(?m)^prompt +\d+ steps, .*, 64 places in .* ms$")
        found = json.loads(self.ok(harness.run(harness.compiling("net.dsl", "--stats=json", "--ranks", 1, cwd=self.folder), cwd=self.folder)).out)
        self.assertEqual(found["prompt"]["places"], 64)
        self.assertLess(found["prompt"]["seconds"], 32 * found["generate"]["seconds"])

    # ------------------------------------------------------------ several prompts

    def test_several_prompts_are_each_as_alone(self):
        letters = "abcdefghijk"
        self.write("net.dsl", net(BODIES["rope_back"], places=9, generate='text = text; logits = logits; alphabet = "%s"; end = 10; chunk = 4;' % letters))
        plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
        prompts = "abca", "k", "hgfedc", "bb"
        options = "--generate", 4, "--temperature", 2, "--seed", 3
        alone = [self.text(plan, 2, *options, "--prompt", prompt) for prompt in prompts]
        self.assertEqual(len(set(text[len(prompt):] for text, prompt in zip(alone, prompts))), 4, alone)
        self.assertEqual(self.text(plan, 2, *options, *(word for prompt in prompts for word in ("--prompt", prompt))), "".join(alone))
        self.write("prompts.txt", "abca\nk\r\nhgfedc\nbb")
        done = self.ok(self.local(plan, 2, *options, "--prompts", self.path("prompts.txt"), "--logits", self.path("logits.csv")))
        self.assertEqual(done.out, "".join(alone))
        self.assertRegex(done.err, r"13 tokens of 4 prompts in .* s; \d+ generated in .* s, .* tokens/s")
        found = [json.loads(line) for line in self.text(plan, 2, *options, "--prompts", self.path("prompts.txt"), "--json").splitlines()]
        self.assertEqual([one["prompt"] + one["text"] + "\n" for one in found], alone)
        self.assertEqual([one["prompt"] for one in found], list(prompts))
        self.assertEqual(["".join(letters[token] for token in one["tokens"]) for one in found], [one["text"] for one in found])
        self.assertEqual([one["ended"] for one in found], [len(one["tokens"]) < 4 for one in found])
        self.assertEqual(len(self.read("logits.csv").split()), sum(len(one["tokens"]) + one["ended"] for one in found), "a line for each token drawn")
        self.assertEqual(self.ok(self.mpi(plan, 2, *options, "--prompts", self.path("prompts.txt"))).out, "".join(alone))

    def test_prompts_of_numbers_and_bytes(self):
        self.write("net.dsl", net(BODIES["rope_back"]))
        plan = self.compile("net.dsl", "net.plan", "--ranks", 1)
        self.write("prompts.txt", "3,1\n7\n")
        both = self.text(plan, 1, "--generate", 2, "--prompt-tokens", "3,1", "--prompt-tokens", "7")
        self.assertEqual(self.text(plan, 1, "--generate", 2, "--prompts", self.path("prompts.txt")), both)
        self.assertRegex(both, r"^3 1 \d+ \d+\n7 \d+ \d+\n$")
        self.write("net.dsl", net(BODIES["rope_back"], tokens=300, generate="text = text; logits = logits; alphabet = bytes; temperature = 9;"))
        plan = self.compile("net.dsl", "net.plan", "--ranks", 1)
        found = json.loads(self.text(plan, 1, "--generate", 4, "--prompt", "\u00e9", "--json"))
        self.assertEqual((found["prompt"], len(found["tokens"])), ("\u00e9", 4), "what is no UTF-8 has a sign of its own in the text, and its number in tokens")

    # ------------------------------------------------------------ what is not causal

    def test_what_a_place_would_know_of_those_behind_it_is_refused(self):
        for name, (body, error) in REFUSED.items():
            with self.subTest(name):
                self.write("net.dsl", net(body, places=3))
                result = harness.run(harness.compiling("net.dsl", cwd=self.folder), cwd=self.folder)
                self.assertFails(result, 1, error)
                self.assertIn("text is generated place by place", result.err)

    def test_mistakes_of_the_block(self):
        body = BODIES["rope_back"]
        for block, error in (("logits = logits;", "generate does not say which input is text"),
                             ("text = text;", "generate does not say which value says what comes next"),
                             ("text = x; logits = logits;", "x is no text"),
                             ("text = nothing; logits = logits;", "nothing"),
                             ("text = text; logits = x;", None),
                             ("text = text; logits = letter;", "letter has no number for each token at each place of text"),
                             ("text = next; logits = logits;", "what is generated depends on input text"),
                             ("text = text; logits = logits; temperature = -1;", "temperature"),
                             ("text = text; logits = logits; top_k = 1.5;", "top_k"),
                             ("text = text; logits = logits; alphabet = letters;", "this is no alphabet"),
                             ("text = text; logits = logits; steps = 3;", "steps belongs into the train block, not into generate"),
                             ("text = text; logits = logits; topk = 3;", "did you mean top_k"),
                             ("text = text; logits = logits; batch = 2;", "so it is with the numbers of the generate block")):
            self.write("net.dsl", net(body, generate=block))
            result = harness.run(harness.compiling("net.dsl", cwd=self.folder), cwd=self.folder)
            if error is None:
                self.ok(result)  # a token for each number of x: what it means is the net's affair
            else:
                self.assertFails(result, 1, error)
                self.assertRegex(result.err, r"net\.dsl:\d+:\d+: error: ", block)
        self.write("net.dsl", net(body).replace("[batch, ", "[2, ").replace("shape = [1, 6, 11]", "shape = [2, 6, 11]"))
        self.assertFails(harness.run(harness.compiling("net.dsl", cwd=self.folder), cwd=self.folder), 1, r"one text is generated at a time, and text is i32\[2, 6\]")

    # ------------------------------------------------------------ what is drawn

    def text(self, plan, ranks, *options):
        return self.ok(self.local(plan, ranks, *options)).out

    def test_the_sample_is_trained_and_generates(self):
        self.nets("characters_hints.dsl")
        self.write("characters.dsl", edited(self.sample("characters.dsl"), ("batch = 32, places = 64, dim = 64", "batch = 16, places = 24, dim = 32"), ("steps     = 200", "steps     = 60")))
        self.write("text.txt", "abcdefgh " * 2600)
        plan = self.compile("characters.dsl", "net.plan", "--ranks", 2)
        self.ok(self.local(plan, 2, "--save", self.path("w.safetensors")))
        options = "--load", self.path("w.safetensors"), "--generate", 12, "--prompt", "defgh "
        self.assertEqual(self.text(plan, 2, *options, "--temperature", 0), "defgh abcdefgh abc\n")
        four = self.compile("characters.dsl", "four.plan", "--ranks", 4, "--hints", "characters_hints.dsl")
        for flags in (), ("--seed", 5), ("--seed", 5, "--temperature", 3), ("--top-k", 2, "--temperature", 5):
            self.assertEqual(self.text(plan, 2, *options, *flags), self.text(four, 4, *options, *flags), flags)
        warm = "--temperature", 5, "--top-k", 0
        texts = {self.text(plan, 2, *options, *warm, "--seed", seed) for seed in range(4)}
        self.assertEqual(len(texts), 4)
        self.assertEqual(self.text(plan, 2, *options, "--top-k", 1, "--temperature", 5), "defgh abcdefgh abc\n")
        self.assertEqual(self.text(plan, 2, *options[:-1], "d"), self.text(plan, 2, *options[:-2], "--prompt-tokens", "100"))
        self.assertRegex(self.ok(self.local(plan, 2, *options)).err, r"6 tokens of the prompt in .*; 12 generated in .* s, .* tokens/s")

    def test_an_alphabet_and_an_end(self):
        body = "param b : f32[11] = [0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]; y = dot_product_attention(x, x, x, causal = true);"
        for alphabet, end, prompt, out in (('"ab\u00e9 xyzuvwt"', "", "\u00e9a", "\u00e9a\u00e9\u00e9\u00e9\n"), ("", "", None, "2 0 2 2 2\n"), ('"ab\u00e9 xyzuvwt"', "end = 2;", "\u00e9a", "\u00e9a\n")):
            text = net(body, generate="text = text; logits = biased; temperature = 0; %s %s" % ("alphabet = %s;" % alphabet if alphabet else "", end))
            self.write("net.dsl", text.replace("loss cross_entropy(logits, next)", "biased = logits * 0 + b; loss cross_entropy(biased, next)"))
            plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
            self.assertEqual(self.text(plan, 2, "--generate", 3, *(("--prompt", prompt) if prompt else ("--prompt-tokens", "2,0"))), out)

    def test_mistakes_of_the_command(self):
        self.write("net.dsl", net(BODIES["rope_back"], generate='text = text; logits = logits; alphabet = "abcdefghijk";'))
        plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
        for options, code, error in ((("--generate", 3), 2, "--generate goes on from a text"),
                                     (("--prompt", "a"), 2, "--prompt is of what is generated: add --generate N"),
                                     (("--generate", 3, "--prompt", ""), 2, "the prompt is empty"),
                                     (("--generate", 3, "--prompt", "az"), 2, "'z' is not in the net's alphabet"),
                                     (("--generate", 3, "--prompt", "a\u00e9"), 2, "'\u00e9' is not in the net's alphabet"),
                                     (("--generate", 1, "--prompt", "abcdefg"), 2, "the prompt is longer than the 6 places of the net"),
                                     (("--generate", 3, "--prompt", "abcde"), 2, "the net has 6 places, and a prompt of 5 leaves 2"),
                                     (("--generate", 3, "--prompt-tokens", "1,11"), 2, "the net has tokens 0 to 10, and no 11"),
                                     (("--generate", 3, "--prompt-tokens", "1,x"), 2, "--prompt-tokens: '1,x' is no list of tokens: 1,2,3"),
                                     (("--generate", 3, "--prompt-tokens", "1", "--prompt", "a"), 2, "leave out --prompt"),
                                     (("--generate", -1, "--prompt", "a"), 2, "--generate takes a number of tokens, not '-1'"),
                                     (("--generate", 3, "--prompt", "a", "--temperature", "hot"), 2, "--temperature takes a number"),
                                     (("--generate", 3, "--prompt", "a", "--eval"), 2, "leave out --eval"),
                                     (("--generate", 3, "--prompt", "a", "--prompt", "ax"), 2, "prompt 2: --prompt: 'x' is not in the net's alphabet"),
                                     (("--generate", 3, "--prompt", "a", "--prompt", ""), 2, "prompt 2: the prompt is empty"),
                                     (("--generate", 3, "--prompt", "a", "--prompts", "p.txt"), 2, "leave out --prompt"),
                                     (("--generate", 3, "--prompts", "none.txt"), 3, "none.txt"),
                                     (("--prompts", "p.txt"), 2, "--prompts is of what is generated: add --generate N"),
                                     (("--generate", 3, "--prompts", self.path("net.plan"), "--logits", self.path("net.plan")), 2, "--logits")):
            self.assertFails(self.local(plan, 2, *options), code, error)
        for text, error in (("", "p.txt: it is empty"), ("ab\n\ncd\n", r"p.txt:2: the prompt is empty"), ("ab\nabcdefg\n", "p.txt:2: the prompt is longer than the 6 places"),
                            ("ab\nabcde\n", r"p.txt:2: --generate 3: the net has 6 places, and a prompt of 5 leaves 2"), ("ab\na\u00e9\n", "p.txt:2: '\u00e9' is not in the net's alphabet")):
            self.write("p.txt", text)
            self.assertFails(self.local(plan, 2, "--generate", 3, "--prompts", self.path("p.txt")), 2, error)
        self.write("none.dsl", "net n(batch = 2) { input x : f32[batch, 2]; param w : f32[2, 2] = ones; loss mean(x @ w); }" + TRAIN)
        self.assertFails(self.local(self.compile("none.dsl", "none.plan"), 1, "--generate", 1, "--prompt", "a"), 2, "the net has no generate block")

    def test_a_plan_says_what_generates(self):
        self.write("net.dsl", net(BODIES["rope_back"]))
        plan = self.compile("net.dsl", "net.plan", "--ranks", 2)
        self.ok(harness.run([harness.pcc, "check", plan]))
        text = self.read("net.plan").decode()
        self.assertIn(" written cache ", text)
        for old, new, error in ((" written cache ", " written ", "is no cache"), (" trainable @", " trainable cache @", "is a cache|unexpected|expected"),
                                ("kind=place", "kind=token", "tokens and"), ("report logits", "report answers", "reports its logits"),
                                ("generate.place i32[6]", "generate.place i32[5]", "."), ("\nprompt\n", "\nprompts\n", "expected"), ("program prompt ", "program prompts ", "its name is prompt"),
                                ("kind=place index=(0, 6)", "kind=place index=(0, 7)", "are of other texts")):
            self.assertIn(old, text)
            self.write("bad.plan", text.replace(old, new, 1))
            result = harness.run([harness.pcc, "check", "--update", self.path("bad.plan")])
            self.assertNotEqual(result.code, 0, str(result))
            self.assertRegex(result.err, error)


if __name__ == "__main__":
    harness.main()
