#!/bin/sh
# The quick start on 8 ranks in the background: compiles it, starts the training, and returns. The losses of all ranks are in device/train.log.
#
#   samples/run_with_mpi.sh
#
# The variables PCC, PRUN and MPIRUN name programs that are not found by their names.
set -eu
here=$(dirname "$0")
if [ -f "$here/../tools/mpi.sh" ]; then . "$here/../tools/mpi.sh"; fi # more ranks than cores, and as root
for program in "${PCC:-pcc}" "${PRUN:-prun}" "${MPIRUN:-mpirun}"; do
    command -v "$program" >/dev/null || { echo "$0: there is no program $program; PCC, PRUN and MPIRUN name them" >&2; exit 3; }
done
mkdir -p device
"${PCC:-pcc}" "$here/quickstart.dsl" --ranks 8 -o device/quickstart.plan
nohup "${MPIRUN:-mpirun}" -n 8 "${PRUN:-prun}" --all-ranks device/quickstart.plan >device/train.log 2>&1 </dev/null &
echo "process $! trains; its log is device/train.log"
