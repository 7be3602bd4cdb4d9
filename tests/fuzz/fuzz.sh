#!/bin/sh
# Some seconds of libFuzzer on one target, beginning with the repository's own files.
#   fuzz.sh FUZZER lang|plan|npy|idx|csv|safetensors|checkpoint PCC SOURCES [SECONDS]
# The limits are wide: an idle machine needs a thousandth of them. What is found is printed in base64, to be put into tests/fuzz/TARGET.
set -eu
fuzzer=$1 kind=$2 pcc=$3 sources=$4 seconds=${5:-30}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/seeds" "$folder/found"
cp "$sources/tests/fuzz/$kind"/* "$folder/seeds/"
case $kind in
lang)
    longest=4096 most_mib=2048
    cp "$sources"/samples/*.dsl "$sources"/tests/golden/errors/*.dsl "$folder/seeds/"
    for seed in 1 2 3 4 5 6 7 8; do "$pcc" fuzz-net --seed $seed -o "$folder/seeds/net$seed.dsl"; done
    grep -aohE '[a-z_]{3,}' "$sources"/samples/*.dsl "$folder"/seeds/net*.dsl | sort -u | sed 's/.*/"&"/' >"$folder/words"
    ;;
plan)
    longest=16384 most_mib=2048
    cp "$sources"/tests/golden/dumps/*/*.plan "$folder/seeds/" 2>/dev/null || true
    for seed in 1 2 3 4 5 6 7 8; do
        "$pcc" fuzz-net --seed $seed -o "$folder/net.dsl"
        "$pcc" "$folder/net.dsl" --ranks 4 --mode auto -o "$folder/seeds/net$seed.plan" >/dev/null 2>&1 || true
    done
    grep -aohE '[a-z_]{3,}' "$folder"/seeds/*.plan | sort -u | sed 's/.*/"&"/' >"$folder/words"
    ;;
*) # No single allocation comes near what a header may claim. Gzip's checksums are not guessed: packed seeds find what is wrong with packing alone.
    longest=4096 most_mib=256
    grep -aohE "'[a-z_]{3,}'|[A-Za-z_.0-9]{2,}|[<>|][a-z][0-9]" "$folder"/seeds/*.hostile.* "$folder"/seeds/*.valid.* | sort -u | sed 's/.*/"&"/' >"$folder/words"
    ;;
esac
code=0
"$fuzzer" "$folder/found" "$folder/seeds" -dict="$folder/words" -max_total_time="$seconds" -max_len=$longest -timeout=20 -rss_limit_mb=3072 -malloc_limit_mb=$most_mib \
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
