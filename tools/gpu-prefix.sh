#!/bin/sh
# Packs what tests/gpu.sh needs of Debian packages on a machine with a GPU where nothing can be fetched: Open MPI, OpenBLAS, Criterion, cJSON, zlib, utf8proc, libpng, libjpeg, xxhash, flex,
# bison, pkgconf, unpacked and not installed. That machine has nvcc, gcc, meson, ninja and python3, and a C library no older than this machine's.
#   tools/gpu-prefix.sh [FILE [BUILD]]     (default: deps/gpu-prefix.tar.gz), on a Debian machine that has the lists of packages (apt-get update). Then, there:
#   tests/gpu.sh --prefix FILE
# With BUILD, a folder that was built with -Dcuda=enabled -Dtests=enabled, its programs are packed too, and nothing is built there: nvcc takes minutes.
# FILE may end with .tar.xz, which is smaller.
set -eu
cd "$(dirname "$0")/.."
file=${1:-deps/gpu-prefix.tar.gz}
build=${2:-}
case $#$file in
0* | [12][!-]*) ;;
*) echo "usage: tools/gpu-prefix.sh [FILE.tar.gz|FILE.tar.xz [BUILD]]     packs the packages that tests/gpu.sh needs, and the programs of a build folder" >&2; exit 2 ;;
esac
[ -z "$build" ] || [ -f "$build/runtime/cuda/prun_cuda.so" ] || { echo "tools/gpu-prefix.sh: $build has no runtime/cuda/prun_cuda.so" >&2; exit 2; }
limit_mib=40 # with the sources it is to travel in 64
roots="openmpi-bin libopenmpi-dev libopenblas0-pthread libopenblas-pthread-dev libcriterion-dev libcjson-dev zlib1g-dev libutf8proc-dev libpng-dev libjpeg62-turbo-dev flex bison libfl-dev libxxhash-dev pkgconf"
# Part of every machine with a compiler, or of use to nobody here: the C library, the toolchain, what packages are installed with, what talks to the network, graphics.
left_out='libc6|libc6-dev|libc-.*|libcrypt.*|linux-libc-dev|gcc.*|cpp.*|gfortran.*|binutils.*|libbinutils|libgcc-.*|libgfortran-.*|libstdc\+\+.*|lib.+san[0-9]|libatomic1
libcc1.*|libctf.*|libgomp1|libgprofng.*|libisl.*|libitm1|libmpc3|libmpfr6|libgmp10|libquadmath-dev|perl.*|libperl.*|libgdbm.*|libdb5.*|dpkg|tar|debconf.*|adduser|passwd|debianutils
libpam.*|libselinux.*|libsemanage.*|libsepol.*|libaudit.*|libcap-ng.*|libacl1|libattr1|libjs-.*|javascript-.*|openssh-.*|libfido.*|libcbor.*|libedit2|libbsd0|libmd0|libicu.*|libxml2
libx11.*|libxau.*|libxcb.*|libxdmcp.*|libxext.*|libxnvctrl.*|libgl.*|ocl-icd.*|libpciaccess.*|libssl-dev|libtirpc.*|libnsl.*|rpcsvc-proto|libffi-dev|libnuma-dev|libibverbs-dev|libnl-.*-dev
libhwloc-dev|libhwloc-plugins|libevent-dev|libevent-extra.*|libevent-openssl.*|libltdl.*|libcoarrays.*|libpmix-dev|libucx.*|libfabric.*|libpsm.*|libcaf.*|openmpi-doc|ibverbs-.*|librdmacm.*
libpmix-bin|ucx.*|libmunge.*|libibverbs1|libnl-.*|libtinfo6|libreadline.*|readline-.*|sed|mawk|install-info|libslurm.*|autoconf|automake|autotools-.*|libboxfort-dev|libgit2-dev|libhttp-parser-dev|libmbedtls-dev|libnanomsg-dev
libpcre2-16.*|libpcre2-32.*|libpcre2-dev|libpcre2-posix.*|libssh2-1-dev|libbz2.*|liblzma.*|libzstd.*|libjansson.*|libuuid.*|libnuma1.*|sensible-utils|libfl-dev:.*'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/archives/partial" "$work/debs"
chmod 755 "$work"
! id _apt >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ] || chown _apt "$work/debs" # which apt-get downloads as
: >"$work/status" # as if nothing were installed: all that they need is listed
# shellcheck disable=SC2086
apt-get -qq -o Dir::State::status="$work/status" -o Dir::Cache::archives="$work/archives" --print-uris --no-install-recommends -y install $roots 2>"$work/errors" |
    awk '{ print $2 }' | sed 's/_.*//' | sort -u >"$work/names" || true
[ -s "$work/names" ] || { cat "$work/errors" >&2; echo "tools/gpu-prefix.sh: apt-get lists nothing: run apt-get update" >&2; exit 3; }
grep -vxE "$(echo "$left_out" | tr '\n' '|')" "$work/names" >"$work/kept"

prefix=$work/prefix
mkdir "$prefix"
# shellcheck disable=SC2046
(cd "$work/debs" && apt-get -qq download $(cat "$work/kept")) || { echo "tools/gpu-prefix.sh: apt-get download failed" >&2; exit 3; }
for deb in "$work"/debs/*.deb; do
    dpkg -x "$deb" "$prefix"
done
(cd "$work/debs" && ls) >"$prefix/packages.txt"

# Nothing is configured, so what would be an alternative is a link made here; all links lead to files of the folder, relatively.
libs=$(dirname "$(dirname "$(find "$prefix/usr/lib" -path '*openblas-pthread/libopenblas.so.0')")")
triplet=$(basename "$libs")
link() { # TARGET NAME, both below usr/; nothing where there is no such target
    [ -e "$(dirname "$prefix/usr/$2")/$1" ] || { echo "tools/gpu-prefix.sh: no $1 beside usr/$2" >&2; exit 3; }
    ln -sfn "$1" "$prefix/usr/$2"
}
for name in mpirun mpiexec; do
    link orterun "bin/$name"
done
link mpicc.openmpi bin/mpicc
link pkgconf bin/pkg-config
link openblas-pthread/libopenblas.so.0 "lib/$triplet/libopenblas.so.0"
link openblas-pthread/libopenblas.so "lib/$triplet/libopenblas.so"
link ../openblas-pthread/pkgconfig/openblas.pc "lib/$triplet/pkgconfig/openblas.pc"
link openmpi/lib/libmpi.so "lib/$triplet/libmpi.so"
if [ -d "$prefix/lib" ]; then # without a link from /lib to /usr/lib, as there is on an installed system
    cp -a "$prefix/lib/." "$prefix/usr/lib/"
    rm -rf "$prefix/lib"
fi

# Smaller: what is read by people, static libraries but flex's, other languages, other networks than TCP and shared memory.
rm -rf "$prefix/usr/share/doc" "$libs/openmpi/include/openmpi/opal" "$libs/openmpi/include/openmpi/orte" "$libs/openmpi/include/openmpi/ompi" "$prefix/usr/share/man" "$prefix/usr/share/info" "$prefix/usr/share/locale" "$prefix/usr/share/lintian" "$prefix/usr/share/bug" "$prefix/usr/share/doc-base" \
    "$prefix/usr/lib/$triplet/fortran" "$prefix/usr/sbin"
find "$prefix" -name '*.a' ! -name 'libfl*.a' -delete
find "$prefix" \( -name '*mpi_mpifh*' -o -name '*mpi_usempi*' -o -name '*mpi_java*' -o -name '*.mod' -o -name 'lib*oshmem*' -o -name 'liblapack.*' -o -name 'libblas.*' \) -delete
find "$prefix" \( -name '*ucx*' -o -name '*mca*ofi*' -o -name '*mca*psm*' -o -name '*openib*' -o -name '*verbs*' -o -name '*slurm*' -o -name '*osh*' -o -name '*shmem*.openmpi*' \) ! -type d -delete
for pc in "$libs"/pkgconfig/*.pc; do # what a static library would need is not here
    [ -L "$pc" ] || sed -i '/^Requires.private/d; /^Libs.private/d' "$pc"
done
find "$prefix" -type l -lname '/*' | while read -r name; do # zlib's, into a folder that is moved above
    target=$(basename "$(readlink "$name")")
    if [ -e "$(dirname "$name")/$target" ]; then ln -sfn "$target" "$name"; else rm "$name"; fi
done
find "$prefix" -xtype l -delete # links to what was left out
find "$prefix" -type d -empty -delete
if [ -n "$build" ]; then
    for program in compiler/pcc runtime/prun runtime/cuda/prun_cuda.so tests/ops/test-ops tests/ops/test-ops-kernels tests/ops/speed tests/run/nets tests/runtime/cuda/ranks/devtest \
        $(cd "$build" && find tests/runtime/cuda -type f -name 'test-cuda-*'); do
        mkdir -p "$prefix/build/$(dirname "$program")"
        strip -o "$prefix/build/$program" "$build/$program"
    done
fi
mkdir -p "$(dirname "$file")"
tar -C "$prefix" -caf "$file" .
size=$(du -sm --apparent-size "$file" | cut -f 1)
echo "$file: $(wc -l <"$prefix/packages.txt") packages, $size MiB"
[ "$size" -lt "$limit_mib" ] || { echo "tools/gpu-prefix.sh: more than $limit_mib MiB" >&2; exit 1; }
