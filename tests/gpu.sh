#!/bin/sh
# Everything that needs a GPU, on a machine with one, in under ten minutes: builds, tests, measures, prints a table, and writes the raw output into
# docs/benchmarks/gpu-DATE.txt. docs/gpu.md says what the lines mean. Exit code 0: all is as it should be; 1: a check failed; 77: there is no GPU.
#   tests/gpu.sh [--prefix FOLDER|FILE.tar.gz] [--build FOLDER] [--output FILE] [--nccl LIBRARY] [--only STEP,..] [--seconds N]
#   tests/gpu.sh --standin FOLDER    tests this script without a GPU, over the stand-in (tests/standin) of a build folder
# --prefix (or PREFIX): what tools/gpu-prefix.sh made, where Debian packages cannot be installed. --nccl (or NCCL_LIBRARY): a libnccl.so.2, 2.30 or later, for two
# ranks on one GPU; else that of python3's wheel. CUDA_HOME: the toolkit, where it is not /usr/local/cuda. PEER_PYTHON: a python with PyTorch (default: python3).
set -eu
cd "$(dirname "$0")/.."
prefix=${PREFIX:-}
standin=""
want=""
for arg in "$@"; do # what this script needs itself; tests/gpu/run.py reads them all
    case $want in
    prefix) prefix=$arg ;;
    esac
    want=""
    case $arg in
    -h | --help) exec python3 tests/gpu/run.py --help ;;
    --standin | --standin=*) standin=yes ;;
    --prefix) want=prefix ;;
    --prefix=*) prefix=${arg#--prefix=} ;;
    esac
done
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
if [ -z "$standin" ] && [ "${gpus:-0}" -eq 0 ]; then
    echo "tests/gpu.sh: there is no GPU here (nvidia-smi lists none): nothing was run" >&2
    exit 77
fi

PCC_OUTER_LIBRARY_PATH=${LD_LIBRARY_PATH:-} # PyTorch's python keeps the machine's own libraries
export PCC_OUTER_LIBRARY_PATH
if [ -n "$prefix" ]; then
    case $prefix in
    *.tar.gz | *.tgz | *.tar.xz)
        mkdir -p build-gpu-prefix
        tar -C build-gpu-prefix -xf "$prefix"
        prefix=build-gpu-prefix
        ;;
    esac
    prefix=$(cd "$prefix" && pwd)
    libs=$(dirname "$(find "$prefix/usr/lib" -maxdepth 2 -name 'libmpi.so.*' | head -n 1)")
    triplet=$(basename "$libs")
    [ -d "$libs/pkgconfig" ] || { echo "tests/gpu.sh: $prefix is not what tools/gpu-prefix.sh makes" >&2; exit 3; }
    include=$prefix/usr/include
    export PATH="$prefix/usr/bin:$PATH" LD_LIBRARY_PATH="$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" LIBRARY_PATH="$libs${LIBRARY_PATH:+:$LIBRARY_PATH}"
    export C_INCLUDE_PATH="$include:$include/$triplet:$include/$triplet/openblas-pthread:$libs/openmpi/include${C_INCLUDE_PATH:+:$C_INCLUDE_PATH}"
    export PKG_CONFIG_PATH="$libs/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}" PKG_CONFIG_SYSROOT_DIR="$prefix" PKG_CONFIG="$prefix/usr/bin/pkg-config"
    export OPAL_PREFIX="$prefix/usr" OPAL_BINDIR="$prefix/usr/bin" OPAL_LIBDIR="$libs/openmpi/lib" OPAL_PKGLIBDIR="$libs/openmpi/lib/openmpi3" OPAL_SYSCONFDIR="$prefix/etc/openmpi"
    export OPAL_DATADIR="$prefix/usr/share" OPAL_PKGDATADIR="$prefix/usr/share/openmpi" OPAL_INCLUDEDIR="$libs/openmpi/include"
    export PMIX_INSTALL_PREFIX="$libs/pmix2" PMIX_PKGLIBDIR="$libs/pmix2/lib/pmix"
    export BISON_PKGDATADIR="$prefix/usr/share/bison" M4="$prefix/usr/bin/m4"
fi
. tools/mpi.sh
if [ -n "$prefix" ] && [ -d "$prefix/build" ]; then
    exec python3 tests/gpu/run.py --build "$prefix/build" --built "$@"
fi
exec python3 tests/gpu/run.py "$@"
