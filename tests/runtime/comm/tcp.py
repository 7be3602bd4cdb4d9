"""tcp.py RANKS COMMAND...: a process for each rank, which meet over TCP. The exit code of the first rank that fails; those that have not ended a moment later are killed."""
import os
import socket
import subprocess
import sys
import time

GRACE_S = 2

nranks, command = int(sys.argv[1]), sys.argv[2:]
with socket.socket() as free:
    free.bind(("", 0))
    port = free.getsockname()[1]
meeting = {"WORLD_SIZE": str(nranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
jobs = [subprocess.Popen(command, env={**os.environ, **meeting, "RANK": str(rank)}) for rank in range(nranks)]
until = None
while any(job.poll() is None for job in jobs):
    if until is None and any(job.returncode for job in jobs):
        until = time.monotonic() + GRACE_S
    for job in jobs:
        if until is not None and time.monotonic() > until and job.returncode is None:
            job.kill()
    time.sleep(0.01)
print("exit codes:", *(job.returncode for job in jobs))
sys.exit(next((job.returncode for job in jobs if job.returncode > 0), 0))
