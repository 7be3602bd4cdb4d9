#!/usr/bin/env python3
"""Checkpoints of which each rank writes its own part: they are there, go on on any ranks, and what is not whole is found."""
import json
import os
import shutil

import harness
from checkpoints import NET, header
from harness import Case, run

SHARD = "shard ((2, 2), (2, 1))"


class Slices(Case):
    def plan(self, ranks, settings="checkpoint every 6 steps per_rank;", shard="", name=None):
        name = name or "r%d" % ranks
        self.write(name + ".dsl", NET % (shard, 6, settings))
        return self.compile(name + ".dsl", name + ".plan", "--ranks", ranks)

    def at(self, plan, step, rank=None):
        return os.path.join(plan + ".checkpoints", *([] if rank is None else ["device", str(rank)]), "step-%09d.safetensors" % step)

    def without(self, data, name):
        """A rank's file that lacks a slice: of another net, with no checksums to look at."""
        self.write("one", data)
        entries, body = header(self.path("one"))
        del entries[name], entries["pcc:checksums"], entries["__metadata__"]["pcc.checksums"]
        text = json.dumps(entries).encode()
        return len(text).to_bytes(8, "little") + text + body

    def test_each_rank_writes_its_slices_and_any_ranks_go_on_from_them(self):
        plan = self.plan(4, shard=SHARD)
        whole = self.ok(self.local(plan, 4, "--save", self.path("whole")))
        one, entries = self.plan(1), [header(self.at(plan, 6, rank))[0] for rank in range(4)]
        self.assertEqual(sorted(name for name in entries[0] if name != "__metadata__"), ["pcc:checksums", "w", "w.momentum", "w2", "w2.momentum"])
        self.assertEqual([entry["w"]["shape"] for entry in entries], [[24, 8]] * 4)
        self.assertEqual([entry["__metadata__"]["pcc.box.w"] for entry in entries], ["0:24 %d:%d" % (8 * rank, 8 * rank + 8) for rank in range(4)])
        for launch in [harness.prun, "--ranks", 4], [harness.mpirun, "-n", 4, harness.prun]:
            if launch[0] is not None:
                rest = self.ok(run([*launch, plan, "--resume", self.at(plan, 6), "--save", self.path("rest")]))
                self.assertEqual(rest.texts(), whole.texts()[6:], "bit for bit")
                self.assertEqual(self.read("rest"), self.read("whole"))
                self.assertEqual(self.ok(run([*launch, plan, "--resume", "latest"])).texts(), whole.texts()[18:])
        for ranks, other in (1, one), (3, self.plan(3)), (8, self.plan(8, shard="shard ((2, 2), (2, 2))")):
            rest = self.ok(self.local(other, ranks, "--resume", self.at(plan, 6), "--checkpoint-dir", self.path("to%d" % ranks)))
            self.assertClose(rest.losses(), whole.losses()[6:], relative=1e-4)
        whole_file = self.plan(4, "checkpoint every 6 steps;", SHARD, name="file")
        self.ok(self.local(whole_file, 4, "--resume", self.at(plan, 6)))
        self.ok(self.local(plan, 4, "--resume", self.at(whole_file, 12), "--checkpoint-dir", self.path("back"), "--save", self.path("back.st")))
        self.assertEqual(self.read("back.st"), self.read("whole"), "from slices to a file and back")

    def test_only_the_newest_stay_and_what_a_killed_save_left_goes(self):
        plan = self.plan(2, "checkpoint every 3 steps keep 2 per_rank;")
        kept = plan + ".checkpoints"
        os.makedirs(os.path.join(kept, "device", "7"))
        self.write(self.at(plan, 3, 7), "of no index")
        self.write(self.at(plan, 6, 7) + ".9-0.tmp", "not finished")
        self.write(os.path.join(kept, "device", "7", "notes"), "another's")
        self.ok(self.local(plan, 2))
        names = ["step-%09d.safetensors" % step for step in (15, 18)]
        self.assertEqual(sorted(os.listdir(kept)), ["device", "lock", *names])
        self.assertEqual([sorted(os.listdir(os.path.join(kept, "device", rank))) for rank in ("0", "1", "7")], [names, names, ["notes"]])

    def test_a_set_that_is_not_whole_is_passed_over_or_an_error(self):
        plan = self.plan(4, shard=SHARD)
        whole = self.ok(self.local(plan, 4)).texts()
        shutil.copytree(plan + ".checkpoints", self.path("good"))
        good = self.read(self.at(plan, 18, 1))
        where, elements = good.index(b"pcc.box.w\""), 8 + int.from_bytes(good[:8], "little")
        changed = lambda data, at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
        with open(self.at(plan, 12, 1), "rb") as file:
            older = file.read()
        for said, data in (("device/1/step-000000018.safetensors: cannot be opened", None), ("device/1/step-000000018.safetensors: no safetensors file", b""),
                           ("its header is not what was written", changed(good, where + 14)), ("it was not saved together with the others", older),
                           ("device/1/step-000000018.safetensors: damaged: 'w' [0:24, 0:8] is not what was written there", changed(good, elements)),
                           ("the ranks' slices of 'w' do not make up the whole", self.without(good, "w"))):
            shutil.rmtree(plan + ".checkpoints")
            shutil.copytree(self.path("good"), plan + ".checkpoints")
            os.remove(self.at(plan, 18, 1)) if data is None else self.write(self.at(plan, 18, 1), data)
            done = run([harness.prun, "--ranks", 4, plan, "--resume", self.at(plan, 18)])
            self.assertFails(done, 3, ".*")
            self.assertIn(said, done.err)
            done = self.ok(run([harness.prun, "--ranks", 4, plan, "--resume", "latest"]))
            self.assertEqual(done.texts(), whole[12:], said)
            self.assertIn("going on from %s" % self.at(plan, 12), done.err)

    def test_export_is_what_save_wrote_and_import_what_load_begins_with(self):
        plan, other = self.plan(4, shard=SHARD), self.plan(2, "checkpoint every 6 steps per_rank;", name="other")
        whole = self.ok(self.local(plan, 4, "--save", self.path("w.st")))
        done = self.ok(run([harness.prun, "--export", self.path("e.st"), plan]))
        self.assertEqual(done.out, "%s: 2 tensors of %s\n" % (self.path("e.st"), self.at(plan, 18)))
        self.assertEqual(self.read("e.st"), self.read("w.st"))
        file = self.plan(2, "checkpoint every 6 steps;", name="file")
        self.ok(self.local(file, 2, "--resume", self.at(plan, 6)))
        for step, same in (18, True), (12, False):
            self.ok(run([harness.prun, "--export", self.path("e.st"), "--resume", self.at(file, step), plan]))
            entries, body = header(self.path("e.st"))
            self.assertEqual(entries, header(self.path("w.st"))[0])
            self.assertEqual(max(abs(a - b) for a, b in zip(harness.tensors(self.read("e.st"))["w"], harness.tensors(self.read("w.st"))["w"])) < 1e-5, same)
        for launch in [harness.prun, "--ranks", 2], [harness.mpirun, "-n", 2, harness.prun]:
            if launch[0] is None:
                continue
            shutil.rmtree(other + ".checkpoints", ignore_errors=True)
            done = self.ok(run([*launch, "--import", self.path("w.st"), other]))
            self.assertEqual(done.out, "%s: %s\n" % (self.at(other, 0), self.path("w.st")))
            self.assertEqual(header(self.at(other, 0, 1))[0]["w"]["shape"], [24, 32])
            loaded = self.ok(self.local(other, 2, "--load", self.path("w.st"), "--checkpoint-dir", self.path("loaded"), "--overwrite"))
            resumed = self.ok(run([*launch, "--resume", "latest", "--checkpoint-dir", other + ".checkpoints", other]))
            self.assertEqual((resumed.texts(), len(resumed.texts())), (loaded.texts(), 18))
        self.assertNotEqual(loaded.texts()[0], whole.texts()[0])

    def test_what_cannot_be_exported_or_imported_is_said(self):
        plan = self.plan(2)
        self.write("bad.st", b"")
        self.assertFails(run([harness.prun, "--export", self.path("e.st"), plan]), 3, "there is no checkpoint to export")
        self.assertFails(self.local(plan, 2, "--import", self.path("bad.st")), 3, "bad.st: no safetensors file")
        self.assertEqual(os.listdir(plan + ".checkpoints") if os.path.isdir(plan + ".checkpoints") else [], [])
        self.ok(self.local(plan, 2))
        newest = self.at(plan, 18)
        index = self.read(newest)
        self.assertFails(run([harness.prun, "--export", newest, plan]), 2, "would overwrite a checkpoint by its parameters alone")
        self.assertEqual(self.read(newest), index)
        data = self.read(self.at(plan, 18, 0))
        at = 8 + int.from_bytes(data[:8], "little")
        self.write(self.at(plan, 18, 0), data[:at] + bytes([data[at] ^ 4]) + data[at + 1:])
        self.assertFails(run([harness.prun, "--export", self.path("e.st"), "--resume", newest, plan]), 3, "damaged")
        self.assertFalse(os.path.exists(self.path("e.st")))
        older = self.ok(run([harness.prun, "--export", self.path("e.st"), plan]))
        self.assertIn("e.st: 2 tensors of %s" % self.at(plan, 12), older.out)
        self.assertIn("damaged", older.err)
        self.assertFails(run([harness.prun, "--export", self.path("f.st"), "--resume", self.path("e.st"), plan]), 2, "is no checkpoint but a file of parameters already")
        self.assertFails(self.local(plan, 2, "--load", self.at(plan, 12, 0), "--overwrite"), 3, "has the slices of one rank")
        for options, said in ((("--export", "e.st", "--save", "w.st"), "--export copies a checkpoint's parameters and runs nothing: leave out --save"),
                              (("--import", "w.st", "--load", "v.st"), "--import writes a checkpoint and trains nothing: leave out --load")):
            self.assertFails(run([harness.prun, *options, plan]), 2, said)
        self.assertFails(run([harness.prun, "--export", "no/e.st", plan]), 3, "no/e.st: cannot be made")


if __name__ == "__main__":
    harness.main()
