#!/usr/bin/env python3
"""What prun says when a device, its driver, its memory or its libraries fail: where, in which step, of which operator, and what to try. Over the tests' stand-in for a
device, which fails on request."""
import os
import re
import signal

import harness
from harness import Case, edited, run


# Operators that need kernels of every kind; a product of them keeps each from becoming part of a chain.
LAUNCHES = """net launches(batch = 4) {
    input x : f32[batch, 6]; const i : i32[batch] = [0, 2, 1, 4];
    param table : f32[5, 6] = normal(1); param w : f32[6, 6] = normal(1); param v : f32[12, 6] = normal(1);
    e = embedding(table, i);
    h = matmul(softmax(matmul(x, w)), w);
    both = matmul(concat(h, e, axis = 1), v);
    picked = pick(both, i);
    top = max(matmul(transpose(both), one_hot(i, depth = 5)), axes = 1);
    part = matmul(slice(both, begin = [0, 1], end = [batch, 5]), slice(w, begin = [0, 0], end = [4, 6]));
    loss mean(square(picked)) + mean(top) + mean(matmul(part, w));
}
train { data = normal(seed = 1); optimizer = adam(lr = 0.01); clip = norm(1); epochs = 1; steps = 2; }
"""


class Failures(Case):
    def setUp(self):
        super().setUp()
        os.environ["STANDIN_PROTECT"] = "0"

    def net(self, ranks=1, sample="mlp_small.dsl"):
        return self.compile(self.sample(sample), "net%d.plan" % ranks, "--ranks", ranks)

    def on(self, plan, *options, ranks=1, **env):
        return run([harness.prun, "--ranks", ranks, *options, plan], cwd=self.folder, env=env)

    # ---- where there is no device that can be used

    def test_without_a_device_prun_says_so_in_one_line_and_runs_on_the_cpu(self):
        plan = self.net()
        for env, words in (
            ({"STANDIN_DEVICES": "0"}, "there is no CUDA device; is CUDA_VISIBLE_DEVICES empty?"),
            ({"STANDIN_DRIVER": "12000"}, "driver version is insufficient .*update it"),
            ({"STANDIN_CC": "7.5"}, r"device 0 \(stand-in device\) has compute capability 7\.5, and the kernels are built for 8\.0 and newer"),
            ({"PRUN_CUDA_MODULE": "/nowhere/prun_cuda.so"}, "cannot open /nowhere/prun_cuda.so"),
            ({"PRUN_CUDA_MODULE": os.environ["PRUN_NCCL"]}, "is no module of prun's"),
            *(({"PRUN_CUDA_MODULE": other}, "is of another build than prun, whose operators or structures are others: build both from the same sources, or have PRUN_CUDA_MODULE name prun's")
              for other in os.environ["PRUN_TEST_OTHER_BUILDS"].split(":")),
        ):
            with self.subTest(env=env):
                done = self.ok(self.on(plan, **env))
                self.assertRegex(done.err, r"\Aprun: note: runs on the CPU: .*%s.*\n\Z" % words)
                self.assertEqual(len(done.losses()), 20)
                self.assertFails(self.on(plan, "--device", "cuda", **env), 3, r"\Aprun: --device cuda: .*%s.*\n\Z" % words)
                self.assertFails(self.on(plan, PRUN_DEVICE="cuda", **env), 3, r"\Aprun: PRUN_DEVICE=cuda: .*%s" % words)

    def test_the_variable_is_read_as_the_option_is(self):
        plan = self.net()
        self.ok(self.on(plan, PRUN_DEVICE="", STANDIN_DEVICES="0"))
        self.assertFails(self.on(plan, PRUN_DEVICE="gpu"), 2, "PRUN_DEVICE is cpu or cuda, not 'gpu'")
        self.assertEqual(self.ok(self.on(plan, PRUN_DEVICE="cpu", STANDIN_DEVICES="0")).err, "")

    def test_options_of_gpus_on_the_cpu_are_told_once(self):
        plan = self.net(2)
        env = {"PRUN_CUDA_MODULE": "/nowhere/prun_cuda.so"}
        self.assertFails(self.mpi(plan, 2, "--comm", "host", env=env), 3, r"\Aprun: --comm is for GPUs: cannot open /nowhere/prun_cuda\.so")
        self.assertFails(self.mpi(plan, 2, "--comm", "host", env={"PRUN_DEVICE": "cpu"}), 2, "--comm is for GPUs, and PRUN_DEVICE=cpu: leave it out")
        self.assertFails(self.mpi(plan, 2, env={"PRUN_DEVICE": "gpu"}), 2, "PRUN_DEVICE is cpu or cuda")

    def test_ranks_that_were_told_different_things_do_not_start(self):
        plan = self.net(2)
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        for one, other, option in ((["--device", "cuda"], ["--device", "cpu"], "--device"), ([], ["--device", "cpu"], "--device"), (["--comm", "ipc"], ["--comm", "host"], "--comm"),
                                   ([], ["--deterministic"], "--deterministic")):
            result = run([harness.mpirun, "-n", 1, harness.prun, *one, plan, ":", "-n", 1, harness.prun, *other, plan], cwd=self.folder)
            self.assertFails(result, 2, "(?m)^prun: %s is not the same on all ranks: " % option)
            self.assertNotIn("PRUN_TIMEOUT", result.err)

    # ---- memory

    def test_out_of_memory_says_what_the_plan_needs_and_what_is_free(self):
        plan = self.net()
        for memory, what in (("1K", "taking memory for reductions"), ("30M", "taking memory for products"), ("37000K", r"taking \d+\.\d MiB for a tensor or arena")):
            self.assertFails(self.on(plan, STANDIN_MEMORY=memory), 3, r"device 0 \(stand-in device\) is out of memory, %s: the plan's tensors need \d+\.\d MiB, \d+\.\d of "
                             r"\d+\.\d MiB are free; use more devices, more ranks or a smaller batch" % what)
        self.assertFails(self.mpi(self.net(2), 2, env={"STANDIN_MEMORY": "4300K"}), 3, r"device 0 \(stand-in device\), which 2 processes share, is out of memory")

    def test_what_lies_on_the_device_need_not_fit_into_the_node(self):
        huge = self.write("huge.dsl", "net huge(n = 1000000) {\n    input x : f32[n, 4];\n    param w : f32[4, n] = ones;\n    loss mean(matmul(x, w));\n}\n"
                                      "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n")
        plan = self.compile(huge, "huge.plan", "--ranks", 1)
        self.assertFails(self.on(plan, "--device", "cpu"), 3, "not enough memory on ")
        self.assertFails(self.on(plan), 3, r"device 0 .* is out of memory, taking \d+\.\d MiB for a tensor or arena: the plan's tensors need \d{7}\.\d MiB")

    def test_any_allocation_may_fail(self):
        plan = self.net()
        for name in "cudaMalloc", "cudaMallocHost":
            for nth in range(1, 30):
                result = self.on(plan, STANDIN_FAIL="%s:%d:2" % (name, nth))
                if result.code == 0:
                    break
                self.assertFails(result, 3, "out of memory|no page-locked memory of the host")
            self.assertTrue(2 < nth < 29, nth)

    def test_a_rank_that_lacks_memory_for_products_does_not_compute_other_bits_than_its_replicas(self):
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        plan, said = self.net(2), ""
        command = [harness.prun, "--device", "cuda", plan]
        for nth in range(9, 30):
            done = run([harness.mpirun, "-n", 1, *command, ":", "-n", 1, "-x", "STANDIN_FAIL=cudaMalloc:%d:2" % nth, *command], cwd=self.folder)
            said = done.err
            if done.code == 0 or "to try products" in said:
                break
        self.assertRegex(said, r"prun: rank 1 .*: device 0 is out of memory, to try products in: ")

    def test_the_room_for_odd_rows_is_taken_before_tensors(self):
        """A rank that has none would compute other bits than its replicas: it ends the job before anything has run."""
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        source = self.write("odd.dsl", "net odd(batch = 8192) {\n    input x : f32[batch, 4096];\n    param w : f32[4096, 1025] = zeros;\n"
                                       "    loss mean(matmul(x, w) shard ((2, 1), (1, 1)));\n}\n"
                                       "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }\n")
        command = [harness.prun, "--device", "cuda", self.compile(source, "odd.plan", "--ranks", 2)]
        done = run([harness.mpirun, "-n", 1, *command, ":", "-n", 1, "-x", "STANDIN_FAIL=cudaMalloc:3:2", *command], cwd=self.folder)
        self.assertFails(done, 3, r"(?m)^prun: rank 1 .*: device 0 .* is out of memory, taking memory for products with odd rows: ")

    # ---- what runs

    def test_a_kernel_that_fails_is_found_at_the_end_of_its_step(self):
        plan = self.net()
        for options, nth, step in ((["--no-graph"], 7, 1), (["--no-graph"], 36, 4), ([], 36, 4)): # the first try epilogues
            for code, words in ((700, "cudaErrorIllegalAddress"), (719, "cudaErrorLaunchFailure"), (999, "cudaErrorUnknown")):
                result = self.on(plan, "--deterministic", *options, STANDIN_FAIL="run:cublasLtMatmul:%d:%d" % (nth, code))
                self.assertEqual(result.code, 3, str(result))
                self.assertRegex(result.err, r"(?m)^prun: in step %d of epoch 1: rank 0, device 0: .*CUDA says %s .*run with --sync to learn which operator" % (step, words))

    def test_any_launch_may_be_refused_and_is_told_by_its_step_and_operator(self):
        plan = self.compile(self.write("launches.dsl", LAUNCHES), "launches.plan", "--ranks", 1)
        expected, named = self.ok(self.on(plan, "--no-graph")).texts(), set()
        for nth in range(1, 400):
            result = self.on(plan, "--no-graph", STANDIN_FAIL="kernel:%d:9" % nth)
            if result.code == 0:
                break
            self.assertEqual(result.code, 3, "launch %d: %s" % (nth, result))
            where = re.search(r"(?m)^prun: in step [12] of epoch 1: rank 0, step \d+ \((\S+) of \S+\), .*launches\.dsl:\d+: device 0: kernel [a-z_ ]+: CUDA says cudaErrorInvalidConfiguration",
                              result.err)
            before = re.search(r"(?m)^prun: (rank 0, )?.*device 0: (trying a product with what follows it|kernel \S+): CUDA says cudaErrorInvalidConfiguration", result.err)
            self.assertTrue(where or before, "launch %d: %s" % (nth, result))
            if where:
                named.add(where.group(1))
        self.assertEqual(self.on(plan, "--no-graph", STANDIN_FAIL="kernel:400:9").texts(), expected)
        self.assertLess(nth, 399)
        self.assertGreater(nth, 2 * 20)
        for name in "embedding", "embedding_grad", "pick", "pick_grad", "one_hot", "softmax", "softmax_grad", "concat", "max", "transpose", "slice_grad", "adam", "sum_squares":
            self.assertIn(name, "+".join(named).split("+"))

    def test_with_sync_a_kernel_that_fails_is_named_in_any_step(self):
        plan = self.net()
        result = self.on(plan, "--sync", STANDIN_FAIL="run:cublasLtMatmul:1:700")
        self.assertFails(result, 3, "device 0: trying a product with what follows it: CUDA says")
        result = self.on(plan, "--sync", STANDIN_FAIL="run:cublasLtMatmul:7:700")
        self.assertFails(result, 3, "device 0: timing a product: CUDA says")
        for nth, step in (7, 1), (36, 4):
            result = self.on(plan, "--sync", "--deterministic", STANDIN_FAIL="run:cublasLtMatmul:%d:700" % nth)
            self.assertEqual(result.code, 3, str(result))
            self.assertRegex(result.err, r"(?m)^prun: in step %d of epoch 1: rank 0, step \d+ \((matmul|einsum) of \S+\), .*mlp_small\.dsl:\d+: device 0: kernel \S+: CUDA says" % step)
            self.assertNotIn("--sync", result.err)
            self.assertIn("compute-sanitizer", result.err)

    def test_a_step_that_cannot_be_captured_is_run_and_the_whole_reason_is_told(self):
        done = self.ok(self.on(self.net(), "-v", STANDIN_FAIL="cudaGraphInstantiate:1:2"))
        self.assertRegex(done.out, r"(?m)^steps run operator by operator: device 0 .*capturing a step: .*or end what else runs on the device$")

    def test_a_call_refused_while_a_step_is_recorded_makes_it_run_operator_by_operator(self):
        expected = self.ok(self.on(self.net(), "--no-graph")).texts()
        fell_back = 0
        for call in range(9, 35, 2):
            done = self.on(self.net(), "-v", "--deterministic", STANDIN_FAIL="cublasLtMatmul:%d:14" % call)
            if "steps run operator by operator: rank 0, step " in done.out:
                self.assertEqual(self.ok(done).texts(), expected)
                fell_back += 1
        self.assertGreater(fell_back, 1)

    def test_a_step_that_cannot_be_captured_can_be_profiled(self):
        done = self.ok(self.on(self.net(), "-v", "--profile", STANDIN_FAIL="cudaGraphInstantiate:1:2"))
        self.assertIn("steps run operator by operator", done.out)
        self.assertRegex(done.out, r"(?m)^profile of rank 0 on ")

    def test_with_communications_a_call_refused_while_a_step_is_recorded_ends_the_job(self):
        ended = 0
        for call in range(9, 35, 2):
            done = self.on(self.net(2), "-v", "--deterministic", ranks=2, STANDIN_FAIL="cublasLtMatmul:%d:14" % call)
            if done.code and "in step 2" in done.err:
                self.assertEqual(done.code, 3, str(done))
                self.assertRegex(done.err, r"(?m)^prun: in step 2 of epoch 1: .*: --no-graph runs steps operator by operator$")
                ended += 1
        self.assertGreater(ended, 1)

    def test_an_earlier_failure_that_beginning_to_capture_shows_names_the_rank(self):
        result = self.on(self.net(), STANDIN_FAIL="cudaStreamBeginCapture:1:700")
        self.assertEqual(result.code, 3, str(result))
        self.assertRegex(result.err, r"(?m)^prun: in step 2 of epoch 1: rank 0, device 0: beginning to capture a step: ")

    def test_sync_does_not_capture_steps(self):
        done = self.ok(self.on(self.net(), "--sync", "-v"))
        self.assertIn("steps run operator by operator: --sync\n", done.out)

    def test_any_copy_may_fail_and_is_told_by_the_step_that_makes_it(self):
        plan = self.net(1, "evaluation.dsl")
        for nth in range(1, 60, 2):
            result = self.on(plan, STANDIN_FAIL="cudaMemcpyAsync:%d:719" % nth)
            self.assertEqual(result.code, 3, str(result))
            self.assertRegex(result.err, r"(?m)^prun: .*device 0: (copying|reading|writing) ", "copy %d: %s" % (nth, result))
            self.assertNotIn("kernel ", result.err)

    def test_tf32_is_not_verified(self):
        plan = self.net()
        self.assertFails(self.on(plan, "--tf32", "--verify=" + plan), 2, "--tf32 rounds far more than what is compared may differ: leave out --verify")

    def test_a_failure_of_cublas_names_its_operator(self):
        result = self.on(self.net(), "--deterministic", STANDIN_FAIL="cublasLtMatmul:12:13")
        self.assertEqual(result.code, 3, str(result))
        self.assertRegex(result.err, r"(?m)^prun: in step \d of epoch 1: rank 0, step \d+ \(einsum of \S+\), .*mlp_small\.dsl:\d+: device 0: a product: cuBLASLt says CUBLAS_\w+; ")

    def test_a_failure_of_cudnn_in_a_step_names_its_operator(self):
        plan = self.compile(self.sample("lenet.dsl"), "lenet.plan", "--ranks", 1, "-D", "batch=4")
        cudnn = {"PRUN_CUDNN": os.environ["PRUN_NCCL"]}
        for call, operator in ("Forward:4", r"conv2d of \S+"), ("BackwardFilter:3", r"conv2d_grad_w of \S+"):
            result = self.on(plan, "--deterministic", "--no-graph", STANDIN_FAIL="cudnnConvolution%s:5000" % call, **cudnn)  # the first try each of two shapes
            self.assertEqual(result.code, 3, str(result))
            self.assertRegex(result.err, r"(?m)^prun: in step 1 of epoch 1: rank 0, step \d+ \(%s\), .*nn\.dsl:\d+: device 0: a convolution: cuDNN says "
                                         r"CUDNN_STATUS_EXECUTION_FAILED" % operator)

    def test_all_ranks_compute_convolutions_by_the_same_library(self):
        """Memory for the workspace that one rank alone lacks; a library that is not on its node."""
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        plan = self.compile(self.sample("lenet.dsl"), "lenet.plan", "--ranks", 2, "-D", "batch=4")
        command = [harness.prun, "--device", "cuda", "-v", "--check-replicas", "--deterministic", plan]
        env = {"PRUN_CUDNN": os.environ["PRUN_NCCL"], "STANDIN_CUDNN": "wrong1"}  # the second algorithm, which has a workspace
        words = set()
        for other in ["PRUN_CUDNN=/nowhere"] + ["STANDIN_FAIL=cudaMalloc:%d:2" % nth for nth in range(4, 40, 3)]:
            done = run([harness.mpirun, "-n", 1, *command, ":", "-n", 1, "-x", other, *command], cwd=self.folder, env=env)
            if done.code:
                self.assertRegex(done.err, "out of memory", str(done))
                continue
            found = re.findall(r"(?m)^rank (\d): .* (\d+) of (\d+) convolutions by cuDNN", done.out)
            self.assertEqual([rank for rank, _, _ in found], ["0", "1"], str(done))
            self.assertEqual(found[0][1:], found[1][1:], other + str(done))
            words.add(found[0][1])
        self.assertEqual(words, {"0", found[0][2]})

    def test_a_rank_whose_kernel_fails_ends_the_job(self):
        plan = self.net(2)
        for way, devices in ("nccl", 2), ("ipc", 1), ("host", 1):
            for options in [], ["--sync"]:
                with self.subTest(way=way, options=options):
                    command = [harness.prun, "--device", "cuda", "--deterministic", "--comm", way, *options, plan]
                    if harness.mpirun is None:
                        self.skipTest("there is no mpirun")
                    result = run([harness.mpirun, "-n", 1, *command, ":", "-n", 1, "-x", "STANDIN_FAIL=run:cublasLtMatmul:40:719", *command], cwd=self.folder,
                                 env={"STANDIN_DEVICES": str(devices), "PRUN_TIMEOUT": "100"})
                    self.assertEqual(result.code, 3, str(result))
                    self.assertRegex(result.err, r"(?m)^prun: in step \d of epoch 1: rank 1, .*device 1?0?: .*cudaErrorLaunchFailure", str(result))
                    self.assertNotIn("PRUN_TIMEOUT", result.err)

    def test_a_rank_that_stands_still_ends_the_job_when_the_deadline_is_over(self):
        if harness.mpirun is None:
            self.skipTest("there is no mpirun")
        endless = self.write("endless.dsl", edited(self.sample("mlp_small.dsl"), ("steps     = 20;", "steps = 1000000000;")))
        plan = self.compile(endless, "endless.plan", "--ranks", 2, "-D", "in_dim=64", "-D", "batch=32")
        for way, devices in ("nccl", 2), ("ipc", 1), ("host", 1):
            with self.subTest(way=way):
                job = harness.started([harness.mpirun, "-n", 2, harness.prun, "-v", "--device", "cuda", "--comm", way, plan], self, cwd=self.folder,
                                      env={"STANDIN_DEVICES": str(devices), "PRUN_TIMEOUT": "3"})
                pid = harness.ranks(harness.until(job, b"loss is"))[1]
                os.kill(pid, signal.SIGSTOP)
                try:
                    err = job.communicate()[1].decode()
                finally:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                self.assertEqual(job.returncode, 3, err)
                told = (r"(?m)^prun: in step \d+ of epoch 1: rank 0.*: not all ranks came within 3 s \(PRUN_TIMEOUT\)(?:: rank 1 is stopped by a signal)?\n"  # it may stand within the communication, to which it has come
                        r"prun:   rank 1 \(process %d on \S+\) is stopped by a signal: (?:in|behind|reading the data of) step \d+.*\n"
                        r"prun:   rank 0 waits: (?:in|behind) step \d+.*\nprun: rank 0 on \S+ ends the job with exit code 3$")
                self.assertRegex(err, told % pid)
                self.assertEqual(err.count("PRUN_TIMEOUT"), 1, err)


if __name__ == "__main__":
    harness.main()
