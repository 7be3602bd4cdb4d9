#!/usr/bin/env python3
"""Layers of nn.dsl, and BERT, beside PyTorch's of the same names: ten steps' losses, and the parameters behind them (layers/torch.json), on one rank and split."""
import json
import os
import re
import struct
import sys

import harness
from harness import Case, run, safetensors

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "layers"))
import with_torch as table

NET = """import "nn.dsl";
net n(batch = %(batch)d) {
    input x     : f32[batch, %(sizes)s];
    input label : i32[batch];
    %(layers)s
    fc = linear(last, %(classes)d);
    loss cross_entropy(fc, label);
}
train { data = raw(x = "x.bin", label = "label.bin"); optimizer = momentum(lr = %(lr)s, momentum = %(momentum)s); steps = %(steps)d; }
"""


class Layers(Case):
    def steps(self, name, made, ranks, *options):
        shape, layers = table.NETS[name]
        self.write("x.bin", b"".join(struct.pack("<%df" % (table.BATCH * table.product(shape)), *table.rows(step, shape)) for step in range(table.STEPS)))
        self.write("label.bin", b"".join(struct.pack("<%di" % table.BATCH, *table.labels(step)) for step in range(table.STEPS)))
        self.write("net.dsl", NET % dict(batch=table.BATCH, sizes=", ".join(map(str, shape)), layers=layers, classes=table.CLASSES, lr=table.LR, momentum=table.MOMENTUM,
                                         steps=table.STEPS))
        return self.run_from(made, ranks, *options)

    def run_from(self, made, ranks, *options):
        """What net.dsl, whose data lies beside it, does from the starting values: its losses and states."""
        starts = table.starting_values(made["shapes"])
        self.write("start.safetensors", safetensors({key: ("F32", made["shapes"][key], starts[key]) for key in starts}))
        plan = self.compile("net.dsl", "net.plan", "--ranks", ranks, *options)
        done = self.ok(self.local(plan, ranks, "--load", "start.safetensors", "--save", "after.safetensors"))
        return done.losses(None), self.saved("after.safetensors")

    def compare(self, made, losses, after):
        self.assertClose(losses, made["losses"], relative=2e-5, what=str(losses))
        self.assertEqual({key for key in after if not key.endswith(".momentum")}, set(made["after"]))
        for key, expected in made["after"].items():
            self.assertClose(after[key], expected, relative=1e-4, absolute=2e-5, what=key)

    def test_losses_and_parameters_are_pytorchs(self):
        with open(table.TABLE, encoding="utf-8") as file:
            nets = json.load(file)["nets"]
        split = {"lstm": "layer=((2, 1, 1), (2, 1))", "gru": "layer=((1, 1, 1), (2, 1))", "group_norm": "conv=((2, 1, 1, 1), (2, 1, 1, 1))", "depthwise": "conv=((2, 2, 1, 1), (2, 1, 1, 1))"}
        for name in table.NETS:
            made = nets[name]
            for ranks, options in (1, ()), (4, ()), (4, ("--shard", split[name]) if name in split else ("-O0",)):
                with self.subTest(net=name, ranks=ranks, options=options):
                    self.compare(made, *self.steps(name, made, ranks, *options))

    def test_bert_is_hugging_faces(self):
        with open(table.TABLE, encoding="utf-8") as file:
            made = json.load(file)["nets"]["bert"]
        columns = zip(*(table.bert_inputs(step) for step in range(table.STEPS)))
        for name, form, column in zip(("token", "kind", "seen", "label"), "iiBi", columns):
            values = [value for of_step in column for value in of_step]
            self.write(name + ".bin", struct.pack("<%d%s" % (len(values), form), *values))
        data = ", ".join('%s = "%s.bin"' % (name, name) for name in ("token", "kind", "seen", "label"))
        self.write("net.dsl", harness.edited(self.sample("bert_base.dsl"), ("normal(seed = 1)", "raw(%s)" % data), ("adamw(lr = 0.00002)", "momentum(lr = %s, momentum = %s)" % (table.LR, table.MOMENTUM)),
                                             ("steps     = 4", "steps     = %d" % table.STEPS)))
        sizes = [word for name, value in table.BERT.items() for word in ("-D", "%s=%s" % (name, value))]
        for ranks, options in (1, ()), (4, ()), (6, ("--shard", "bert.encoder.layer.*.intermediate.dense=((2, 1, 1), (3, 1))")):
            with self.subTest(ranks=ranks, options=options):
                self.compare(made, *self.run_from(made, ranks, *sizes, *options))

    def test_samples_have_their_parameters(self):
        for name, parameters in ("vae", 652824), ("lstm", 1834), ("unet_tiny", 32699), ("bert_base", 102267648 + 1538):
            done = self.ok(run([harness.pcc, self.sample(name + ".dsl"), "--ranks", 8, "--search", "sharding_propagation", "--stats", "-o", self.path("net.plan")]))
            self.assertRegex(done.out, r"(?m)^parameters +%d in " % parameters)
        plan = self.read("net.plan").decode()
        for state in ("bert.embeddings.token_type_embeddings.weight", "bert.encoder.layer.11.attention.self.query.weight", "bert.encoder.layer.0.attention.output.LayerNorm.bias",
                      "bert.encoder.layer.5.intermediate.dense.weight", "bert.encoder.layer.5.output.LayerNorm.weight", "bert.pooler.dense.bias", "classifier.weight"):
            self.assertRegex(plan, r"(?m)^state \d+ %s f32" % re.escape(state))

    def test_the_table_is_what_pytorch_computes_here(self):
        """Live, where there is a PyTorch: PEER_PYTHON, or python3."""
        python = os.environ.get("PEER_PYTHON", "python3")
        if run([python, "-c", "import torch"]).code != 0:
            self.skipTest("there is no PyTorch")
        self.ok(run([python, os.path.join(harness.sources, "tests", "run", "layers", "with_torch.py"), "--check"]))


if __name__ == "__main__":
    harness.main()
