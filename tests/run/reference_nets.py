#!/usr/bin/env python3
"""The samples that need data of others, on small data that is made here: they compute on any number of ranks what they do on one, and their figures are those of the
programs that they stand for."""
import math
import os
import random
import re
import unittest

import harness
from harness import Case, edited


class ReferenceNets(Case):
    def sample_here(self, name, *edits):
        self.write("nn.dsl", edited(self.sample("nn.dsl")))
        return self.write(name + ".dsl", edited(self.sample(name + ".dsl"), *edits))

    def verified(self, name, ranks, *options):
        """The run of a sample in the folder, after it was compared with one rank's step by step."""
        plan, one = self.compile(name + ".dsl", "net.plan", "--ranks", ranks, *options), self.compile(name + ".dsl", "one.plan", "--ranks", 1, *options)
        result = self.ok(self.local(plan, ranks, "--overwrite", "--verify=" + one))
        self.assertRegex(result.out, r"\nverified: \d+ steps, \d+ numbers equal one rank's")
        return result

    def test_resnet_on_cifar10_begins_with_the_loss_of_ten_equal_classes(self):
        draw = random.Random(3)
        os.mkdir(self.path("cifar-10-batches-bin"))
        for name, rows in ("data_batch_1", 9), ("data_batch_2", 9), ("test_batch", 6):
            self.write("cifar-10-batches-bin/%s.bin" % name, b"".join(bytes([draw.randrange(10)]) + draw.randbytes(3072) for _ in range(rows)))
        # Small steps: the norms of few pictures make much of rounding.
        self.sample_here("resnet_cifar", ("epochs    = 10", "epochs    = 1"), ("lr = 0.01", "lr = 0.000001"))
        for ranks in 2, 3:
            result = self.verified("resnet_cifar", ranks, "-D", "batch=6", "-D", "side=32", "-D", "width=4")
            self.assertEqual(len(result.losses()), 3)
            self.assertEqual(result.texts()[0], "2.3025851249694824", "ln 10 in f32")
            self.assertRegex(result.out, r"epoch: 1, eval: loss is \S+, accuracy is \S+, top5 is \S+ \(6 rows\)")

    SMALL = ["-D", "batch=8", "-D", "places=12", "-D", "dim=16", "-D", "heads=2", "-D", "layers=1", "-D", "words=16", "-D", "most=16", "-D", "dropped=0.0"]

    def test_reviews_as_a_loop_learns_them(self):
        harness.write_reviews(self)
        self.sample_here("bert_chnsenticorp", ("log_every = 100", "log_every = 1"))
        for ranks in 2, 3:
            result = self.verified("bert_chnsenticorp", ranks, *self.SMALL)
            self.assertEqual(set(result.err.splitlines()), {"prun: note: %s: ChnSentiCorp_htl_all.csv: 1 of 51 rows is left out: a field is missing" % program for program in ("train", "eval")})
            # 50 rows are 45 and 5; 45 are 6 batches of 8, the last one short. Lines count from 0, as the loop in PyTorch does.
            self.assertEqual([(int(epoch), int(step)) for epoch, step in re.findall(r"^ep: (\d), global_step: (\d+), loss: \d\.\d+$", result.out, re.M)], [(step // 6, step) for step in range(18)])
            self.assertEqual(len(re.findall(r"eval: loss is \S+, accuracy is \S+ \(5 rows\)", result.out)), 3)

    def test_reviews_as_a_trainer_learns_them(self):
        harness.write_reviews(self)
        self.sample_here("bert_chnsenticorp_trainer", ("log_every = 10", "log_every = 1"))
        for ranks in 2, 3:
            result = self.verified("bert_chnsenticorp_trainer", ranks, *self.SMALL)
            rates = [float(rate) for rate in re.findall(r"^\{'loss': \d\.\d{4}, 'learning_rate': (\S+), 'epoch': \d\}$", result.out, re.M)]
            self.assertClose(rates, [2e-5 * (18 - step) / 18 for step in range(1, 19)], relative=1e-12)
            self.assertEqual(len(re.findall(r"eval: loss is \S+, accuracy is \S+, f1 is \S+ \(5 rows\)", result.out)), 3)
            self.assertRegex(result.out, r"\nbest: f1 is \S+ after step \d+, restored from \S+\n")
            self.assertEqual(len([name for name in os.listdir(self.path("net.plan.checkpoints")) if name.endswith(".safetensors")]), 3)

    def test_names_of_a_pretrained_bert_load_and_its_head_is_new(self):
        """A file as hfl/rbt3's is: three layers, the head of its first training and no classifier, positions as integers."""
        harness.write_reviews(self)
        self.sample_here("bert_chnsenticorp")
        dim, words, made = 16, 16, {}
        layer = {"attention.self.query": (dim, dim), "attention.self.key": (dim, dim), "attention.self.value": (dim, dim), "attention.output.dense": (dim, dim), "intermediate.dense": (4 * dim, dim), "output.dense": (dim, 4 * dim)}
        tables = {"word": words, "position": 16, "token_type": 2}
        weights = {"bert.embeddings.%s_embeddings.weight" % name: (rows, dim) for name, rows in tables.items()}
        linear = {"bert.encoder.layer.%d.%s" % (i, name): shape for i in range(3) for name, shape in layer.items()} | {"bert.pooler.dense": (dim, dim), "cls.predictions.transform.dense": (dim, dim)}
        norms = ["bert.embeddings.LayerNorm", "cls.predictions.transform.LayerNorm"] + ["bert.encoder.layer.%d.%s.LayerNorm" % (i, part) for i in range(3) for part in ("attention.output", "output")]
        for name, shape in linear.items():
            weights |= {name + ".weight": shape, name + ".bias": shape[:1]}
        for name in norms:
            weights |= {name + ".weight": (dim,), name + ".bias": (dim,)}
        for name, shape in (weights | {"cls.predictions.bias": (words,)}).items():
            made[name] = "F32", list(shape), [0.01 * (i % 7) + name.endswith("Norm.weight") for i in range(math.prod(shape))]
        made["bert.embeddings.position_ids"] = "I64", [1, 16], list(range(16))
        self.write("rbt3.safetensors", harness.safetensors(made))
        options = [word.replace("layers=1", "layers=3") for word in self.SMALL]
        plan = self.compile("bert_chnsenticorp.dsl", "net.plan", "--ranks", 2, *options)
        done = self.ok(self.local(plan, 2, "--load", "rbt3.safetensors", "--fresh", "classifier.*", "--save", "w.safetensors"))
        self.assertRegex(done.err, r"cls\.predictions")
        self.assertRegex(done.err, r"classifier\.weight")
        self.assertEqual({name for name in self.saved("w.safetensors")} - {name for name in made}, {"classifier.weight", "classifier.bias"})


if __name__ == "__main__":
    harness.main()
