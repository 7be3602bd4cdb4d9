#!/bin/sh
# The layers of DESIGN 4: which folder includes which, and that pcc links neither MPI nor CUDA.
#   layers.sh PCC
set -u
root=$(realpath "$(dirname "$0")/../..")
failed=0

# only FOLDER ALLOWED..: files of FOLDER include project headers of these folders alone.
only() {
    folder=$1
    shift
    allowed=$(echo "$@" | tr ' ' '|')
    wrong=$(grep -rnE '#include "[a-z]+/' "$root/$folder" | grep -vE "#include \"($allowed)/")
    [ -z "$wrong" ] || { echo "$wrong" >&2; echo "$folder/ may include only: $*" >&2; failed=1; }
}
only ir ir
only frontend frontend ir
only strategies strategies ir
only proof proof ir
only compiler compiler frontend strategies proof ir
only runtime runtime ir cpu comm
readelf -d "$1" | grep -E 'NEEDED.*(mpi|cuda|nccl|openblas)' >&2 && { echo "pcc links what only prun may" >&2; failed=1; }
exit $failed
