#!/usr/bin/env python3
"""Values that are computed again for gradients: the same losses and parameters to the last bit, in less memory."""
import json
import os
import re

import harness
from harness import Case, run

EVERYTHING = ["--shard", "**=recompute"]
PROPAGATION = ["--search", "sharding_propagation"]  # what it chooses does not depend on what recomputation costs


class Recompute(Case):
    def trained(self, source, name, ranks, *flags):
        """What training makes of a net: its losses, the bytes of its parameters; and its plan."""
        self.ok(run([harness.pcc, source, "--ranks", ranks, "-o", name + ".plan", *flags], cwd=self.folder))
        done = self.ok(run([harness.prun, "--ranks", ranks, name + ".plan", "--save", name + ".safetensors"], cwd=self.folder))
        return [sorted(re.findall("loss is .*", done.out)), self.read(name + ".safetensors")], self.read(name + ".plan").decode()

    def compare(self, source, ranks, flags, marks=EVERYTHING, copies=True):
        kept, plan = self.trained(source, "kept", ranks, *flags)
        again, other = self.trained(source, "again", ranks, *flags, *marks)
        self.assertNotIn(" copy=", plan)
        self.assertEqual(" copy=" in other, copies)
        self.assertEqual(kept[0], again[0])
        self.assertTrue(kept[0])
        self.assertEqual(kept[1], again[1], "the parameters, to the last bit")

    def test_samples_train_alike(self):
        for sample in "transformer", "attention_cells", "evaluation", "elementwise":
            source = os.path.join(harness.sources, "samples", sample + ".dsl")
            for ranks, level in (1, "-O2"), (2, "-O1"), (4, "-O0"), (4, "-O2"):
                with self.subTest(sample=sample, ranks=ranks, level=level):
                    self.compare(source, ranks, [level, *PROPAGATION])

    def test_batches_of_a_step_and_hints_train_alike(self):
        text = harness.edited(os.path.join(harness.sources, "samples", "transformer.dsl"), ("optimizer", "accumulate = 3; optimizer"))
        self.write("net.dsl", text)
        self.compare("net.dsl", 4, ["-I", os.path.join(harness.sources, "samples"), *PROPAGATION])
        self.compare("net.dsl", 8, ["-I", os.path.join(harness.sources, "samples"), *PROPAGATION, "--hints",
                                    os.path.join(harness.sources, "samples", "transformer_hints.dsl")])

    def test_random_nets_train_alike(self):
        """Bits may differ only where a sum over ranks is completed for fewer users in another way: none of these does."""
        compared = 0
        for seed in range(1, 22):
            net = self.ok(run([harness.pcc, "fuzz-net", "--seed", seed])).out.replace(" recompute;", ";")
            flags = re.search(r"^# pcc net\.dsl --ranks (\d+) (.*)$", net, re.M)
            self.write("net.dsl", net)
            words = [int(flags[1])], flags[2].split()
            built = run([harness.pcc, "net.dsl", "--ranks", flags[1], "-o", "again.plan", *words[1], *EVERYTHING], cwd=self.folder)
            if built.code != 0 or " copy=" not in self.read("again.plan").decode():
                continue  # a strategy that its operator cannot have; nothing that a gradient reads
            self.ok(run([harness.pcc, "net.dsl", "--ranks", flags[1], "-o", "kept.plan", *words[1]], cwd=self.folder))
            if " copy=" in self.read("kept.plan").decode():
                continue  # replicas whose parameters are gathered again
            with self.subTest(seed=seed):
                self.compare("net.dsl", words[0][0], words[1])
                compared += 1
        self.assertGreater(compared, 10)

    def test_what_a_limit_of_memory_chooses_trains_alike(self):
        source = os.path.join(harness.sources, "samples", "transformer.dsl")
        flags = ["--search", "sharding_propagation", "-D", "batch=256"]
        built = self.ok(run([harness.pcc, source, "--ranks", 2, "-o", "net.plan", "--stats=json", *flags], cwd=self.folder))
        memory = json.loads(built.out[built.out.index("{"):])["memory"]
        self.compare(source, 2, flags, ["--memory", str(memory["rank"] - memory["arena"] // 4)])

    def test_segments_of_a_chain_train_alike(self):
        self.write("net.dsl", '''
        cell layer(x) { param w : f32[16, 16] = normal(0.3); return relu(matmul(x, w)); }
        net n(batch = 256) {
            input x : f32[batch, 16];
            h = x;
            for i in 0..40 { h = layer(h); }
            loss mean(h * h);
        }
        train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 3; micro_batches = 1; }
        parallel { shard_states = optimizer; regather = none; }
        ''')
        for ranks in 1, 2, 4:
            with self.subTest(ranks=ranks):
                built = self.ok(run([harness.pcc, "net.dsl", "--ranks", ranks, "-o", "net.plan", "--stats=json"], cwd=self.folder))
                memory = json.loads(built.out[built.out.index("{"):])["memory"]
                self.compare("net.dsl", ranks, [], ["--memory", str(memory["rank"] - memory["arena"] // 2)])

    def test_less_memory_as_predicted(self):
        """--stats says what the plan has, which prun allocates, and what that saves against the plan without."""
        self.write("net.dsl", """
        cell block(x) {
            h = linear(x, 4 * size(x, -1));
            return x + linear(gelu(h), size(x, -1));
        }
        import "nn.dsl";
        net n(batch = 256, dim = 32, layers = 6) {
            input x : f32[batch, dim]; input label : f32[batch, dim];
            layer = x;
            for i in 0..layers { layer = block(layer); }
            loss mse(layer, label);
        }
        train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }
        """)
        stats, arenas = [], []
        for marks in [], ["--shard", "layer.*=recompute"]:
            flags = ["-I", os.path.join(harness.sources, "samples"), *marks]
            built = self.ok(run([harness.pcc, "net.dsl", "--ranks", 2, "-o", "net.plan", "--stats=json", *flags], cwd=self.folder))
            stats.append(json.loads(built.out[built.out.index("{"):]))
            self.ok(run([harness.prun, "--ranks", 2, "net.plan"], cwd=self.folder))
            arenas.append(stats[-1]["memory"]["arena"])
            self.assertIn("arena=%d" % arenas[-1], self.read("net.plan").decode())
        self.assertNotIn("recompute", stats[0])
        self.assertEqual(stats[1]["recompute"]["bytes"], stats[0]["memory"]["rank"] - stats[1]["memory"]["rank"])
        self.assertGreater(stats[1]["recompute"]["seconds"], 0)
        self.assertEqual(stats[1]["recompute"]["kernels"], 6 * 3)
        self.assertLess(arenas[1], 0.65 * arenas[0])

    def test_what_is_gathered_again_by_hints(self):
        """All of some layers, parameters and what is split between products: losses stay, and --stats says what that saves and costs."""
        self.write("net.dsl", """
        cell block(x) {
            param up : f32[64, 256] = normal(0.1); param down : f32[256, 64] = normal(0.1);
            a = matmul(x, up) shard ((4, 1), (1, 1));
            y = matmul(gelu(a), down) shard ((1, 4), (4, 1));
            return x + y;
        }
        net n(batch = 64, layers = 6) {
            input x : f32[batch, 64]; input label : f32[batch, 64];
            layer = x;
            for i in 0..layers { layer = block(layer); }
            loss mse(layer, label);
        }
        train { data = normal(seed = 1); optimizer = adam(lr = 0.01); steps = 3; }
        parallel { shard_states = parameters; shard_from = 0; regather = none; }
        """)
        plain = self.ok(run([harness.pcc, "net.dsl", "--ranks", 4, "-o", "net.plan", "--stats=json", *PROPAGATION], cwd=self.folder))
        plain = json.loads(plain.out[plain.out.index("{"):])
        self.assertNotIn("regather", plain)
        for hint, most in ("layer.*", 24), ("**.up", 6), ("layer.3", 4):
            with self.subTest(hint=hint):
                again = self.ok(run([harness.pcc, "net.dsl", "--ranks", 4, "-o", "net.plan", "--stats=json", *PROPAGATION, "--shard", hint + "=regather"], cwd=self.folder))
                again = json.loads(again.out[again.out.index("{"):])
                self.assertEqual(again["regather"]["bytes"], plain["memory"]["rank"] - again["memory"]["rank"])
                self.assertAlmostEqual(again["regather"]["seconds"], again["predicted"]["step"] - plain["predicted"]["step"])
                self.assertGreater(again["regather"]["values"], 0)
                self.assertLessEqual(again["regather"]["values"], most)
                self.compare("net.dsl", 4, PROPAGATION, ["--shard", hint + "=regather"], copies=False)


if __name__ == "__main__":
    harness.main()
