"""The table that tests/gpu.sh prints, and the raw output behind it."""
import os
import signal
import subprocess
import sys
import threading
import time
import traceback


class Failed(Exception):
    """A check that failed; the text is what the table shows."""


class LeftOut(Exception):
    """What cannot be run here, and why: shown, and no failure."""


class Result:
    def __init__(self, command, code, out, seconds):
        self.command, self.code, self.out, self.seconds = command, code, out, seconds

    def last_words(self):
        lines = [line for line in self.out.strip().splitlines() if line.strip()]
        ours = [line for line in lines if line.startswith(("prun: ", "pcc: "))] or [line for line in lines if "ERROR: " in line or "error: " in line][:1]
        return (ours or lines or ["no output"])[-1][:200]


class Report:
    """Rows of the table as they come; everything else goes into the raw file alone."""

    def __init__(self, path, seconds):
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        self.raw = open(path, "w", encoding="utf-8")
        self.path, self.deadline = path, time.monotonic() + seconds
        self.failed, self.left_out, self.goals, self.rows = 0, 0, [], []
        self.lock = threading.RLock()

    def log(self, text):
        with self.lock:
            self.raw.write(text.rstrip("\n") + "\n")
            self.raw.flush()

    def say(self, text):
        print(text, flush=True)
        self.log(text)

    def row(self, name, seconds, result):
        text = "%-44s %8s  %s" % (name, "%.1f s" % seconds if seconds is not None else "", result)
        with self.lock:
            self.rows.append(text)
            self.say(text)

    def left(self):
        """Seconds."""
        return self.deadline - time.monotonic()

    def run(self, command, env=None, timeout=120, cwd=None, check=True, shown=True):
        """One program: both outputs together. A program that hangs ends with its children."""
        command = [str(word) for word in command]
        if self.left() < 1:
            raise Failed("no time is left")
        limit = min(timeout, self.left())
        began = time.monotonic()
        try:
            process = subprocess.Popen(command, env={**os.environ, **(env or {})}, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise Failed("%s: %s" % (os.path.basename(command[0]), error.strerror)) from None
        try:
            out, late = process.communicate(timeout=limit)[0], False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, late = self.rest(process), True
        seconds = time.monotonic() - began
        result = Result(command, process.returncode, out.decode("utf-8", "backslashreplace"), seconds)
        self.log("\n$ " + " ".join(command) + "\n" + (result.out if shown else "") + "[exit code %s, %.2f s%s]" % (result.code, seconds, ", stopped" if late else ""))
        if late:
            raise Failed("%s: not done after %.0f s" % (os.path.basename(command[0]), limit))
        if check and result.code != 0:
            raise Failed("%s: exit code %s: %s" % (os.path.basename(command[0]), result.code, result.last_words()))
        return result

    @staticmethod
    def rest(process):
        """What a program that was stopped has said. A child that left its group (mpirun's ranks do) may hold its output open."""
        try:
            return process.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired as still:
            return still.output or b""

    def step(self, name, function):
        """A line of the table: what the function returns, or why it failed. Returns whether it was done."""
        self.log("\n" + "=" * 20 + " " + name)
        began = time.monotonic()
        try:
            text = "ok" + ("  " + found if (found := function()) else "")
            done = True
        except Failed as failed:
            text, done = "FAILED  %s" % failed, False
            with self.lock:
                self.failed += 1
        except LeftOut as why:
            text, done = "left out  %s" % why, False
            with self.lock:
                self.left_out += 1
        except Exception as error: # pylint: disable=broad-except # a mistake in one check is no reason to lose what the others find
            self.log(traceback.format_exc())
            text, done = "FAILED  %s: %s" % (type(error).__name__, error), False
            with self.lock:
                self.failed += 1
        self.row(name, time.monotonic() - began, text)
        return done

    @staticmethod
    def side_by_side(functions):
        threads = [threading.Thread(target=function) for function in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def goal(self, name, met, text):
        """met: None where there is nothing to compare with."""
        self.goals.append(met)
        self.row("goal: " + name, None, ("not measured  " if met is None else "met  " if met else "MISSED  ") + text)

    def finish(self):
        measured = [met for met in self.goals if met is not None]
        words = "%d of %d goals met" % (sum(measured), len(measured))
        if len(measured) < len(self.goals):
            words += ", %d not measured" % (len(self.goals) - len(measured))
        self.say("%s; %d left out; %s; raw output in %s" % ("FAILED: %d" % self.failed if self.failed else "all checks passed", self.left_out, words, self.path))
        self.log("\n" + "=" * 20 + " table\n" + "\n".join(self.rows))
        self.raw.close()
        return 1 if self.failed else 0


def die(text, code=3):
    print("tests/gpu.sh: " + text, file=sys.stderr)
    sys.exit(code)
