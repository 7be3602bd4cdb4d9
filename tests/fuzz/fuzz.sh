#!/bin/sh
# libFuzzer on one target, beginning with the repository's own files.
#   fuzz.sh FUZZER lang|plan|npy|idx|csv|picture|wordpiece|safetensors|checkpoint PCC SOURCES [RUNS]
# As a test: RUNS inputs, the same ones each time, so that a commit passes or fails always (those of files of rows vary a little, with the thread that reads
# ahead); a slow machine stops after 40 s. With FUZZ_SECONDS=N in the
# environment: N seconds of other inputs each time. The limits are wide: an idle machine needs a hundredth of them. What is found is printed in base64, to be
# put into tests/fuzz/TARGET.
set -eu
fuzzer=$(realpath "$1") kind=$2 pcc=$(realpath "$3") sources=$4 runs=${5:-100000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/seeds" "$folder/found"
cp "$sources/tests/fuzz/$kind"/* "$folder/seeds/"
case $kind in
lang)
    longest=4096 most_mib=2048
    cp "$sources"/samples/*.dsl "$folder/seeds/"
    # A test has room for a sixth of them beside its own inputs: all are run as they are by golden.
    ls "$sources"/tests/golden/errors/*.dsl | awk -v every="${FUZZ_SECONDS:+1}" 'NR % (every ? every : 6) == 0' | xargs cp -t "$folder/seeds/"
    rm -f "$folder/seeds/exponential.hostile.dsl" "$folder/seeds/cells_exponential.dsl" # operators up to the limit, for half a minute with sanitizers: replayed without
    for seed in 1 2 3 4 5 6 7 8; do "$pcc" fuzz-net --seed $seed -o "$folder/seeds/net$seed.dsl"; done
    grep -aohE '[a-z_]{3,}' "$sources"/samples/*.dsl "$folder"/seeds/net*.dsl | sort -u | sed 's/.*/"&"/' >"$folder/words"
    ;;
plan)
    longest=16384 most_mib=2048
    for plan in "$sources"/tests/golden/dumps/*/net.plan; do cp "$plan" "$folder/seeds/$(basename "$(dirname "$plan")").plan"; done
    for seed in 1 2 3 4 5 6 7 8; do
        "$pcc" fuzz-net --seed $seed -o "$folder/net.dsl"
        ranks=$(sed -n 's/^# pcc .* --ranks \([0-9]*\).*/\1/p' "$folder/net.dsl")
        (cd "$folder" && "$pcc" net.dsl --ranks "$ranks" -o "seeds/net$seed.plan" >log 2>&1 || { cat log && exit 1; })
    done
    grep -aohE '[a-z_]{3,}' "$folder"/seeds/*.plan | sort -u | sed 's/.*/"&"/' >"$folder/words"
    ;;
*) # No single allocation comes near what a header may claim. Gzip's checksums are not guessed: packed seeds find what is wrong with packing alone.
    longest=4096 most_mib=256
    grep -aohE "'[a-z_]{3,}'|[A-Za-z_.0-9]{2,}|[<>|][a-z][0-9]" "$folder"/seeds/*.hostile.* "$folder"/seeds/*.valid.* | sort -u | sed 's/.*/"&"/' >"$folder/words"
    ;;
esac
if [ -n "${FUZZ_SECONDS:-}" ]; then
    set -- -max_total_time="$FUZZ_SECONDS"
else
    set -- -seed=1 -use_cmp=0 -runs="$runs" -max_total_time=40 # what it compares are addresses and temporary names too, others each time
fi
cd "$folder"
code=0
"$fuzzer" "$folder/found" "$folder/seeds" -dict="$folder/words" "$@" -max_len=$longest -timeout=120 -rss_limit_mb=3072 -malloc_limit_mb=$most_mib \
    -artifact_prefix="$folder/artifact-" -print_final_stats=1 -verbosity=0 >"$folder/log" 2>&1 || code=$?
grep -E '^stat::number_of_executed_units|^stat::new_units_added' "$folder/log" || true
[ $code -eq 0 ] && exit 0
tail -n 60 "$folder/log"
for file in "$folder"/artifact-*; do
    [ -f "$file" ] || continue
    echo "--- $(basename "$file"), in base64:"
    base64 "$file"
done
exit 1
