"""tcp.py RANKS COMMAND...: a process for each rank, which meet over TCP. The exit code of the first rank that fails by itself; of the others one line says which they were."""
import os
import socket
import subprocess
import sys

nranks, command = int(sys.argv[1]), sys.argv[2:]
with socket.socket() as free:
    free.bind(("", 0))
    port = free.getsockname()[1]
meeting = {"WORLD_SIZE": str(nranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
jobs = [subprocess.Popen(command, env={**os.environ, **meeting, "RANK": str(rank)}) for rank in range(nranks)]
codes = [job.wait() for job in jobs]
print("exit codes:", *codes)
sys.exit(next((code for code in codes if code > 0), 0))
