#!/bin/sh
# pcc fmt on all samples and on random nets: the net that a formatted text describes is the one of the text (the same hash), and formatting it again
# changes nothing. The samples are in that form.
#   format.sh PCC SOURCES
set -eu
pcc=$(realpath "$1") sources=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/before" "$work/after"
cp "$sources"/samples/*.dsl "$work/before/"
seed=1
while [ $seed -le 40 ]; do
    "$pcc" fuzz-net --seed $seed -o "$work/before/random$seed.dsl"
    seed=$((seed + 1))
done
failed=0
fail() {
    echo "format.sh: $1" >&2
    failed=1
}
# hash FOLDER NAME: of the net, "refused" where it does not compile as it stands.
hash() {
    (cd "$1" && "$pcc" "$2" --no-proof -o "$work/net.plan" >/dev/null 2>&1 && sed -n 's/^hash //p' "$work/net.plan") || echo refused
}
cp "$work"/before/*.dsl "$work/after/"
"$pcc" fmt "$work"/after/*.dsl
"$pcc" fmt --check "$work"/after/*.dsl || fail "formatting again changes these"
compiled=0
for file in "$work"/before/*.dsl; do
    name=$(basename "$file")
    before=$(hash "$work/before" "$name") after=$(hash "$work/after" "$name")
    [ "$before" = "$after" ] || fail "$name: the hash was $before and is $after"
    [ "$before" = refused ] || compiled=$((compiled + 1))
    "$pcc" fmt - <"$file" | cmp -s - "$work/after/$name" || fail "$name: standard input is formatted otherwise"
done
[ $compiled -ge 40 ] || fail "only $compiled nets were compared"
# The samples, and the nets that the documentation shows, are in that form as they stand.
mkdir "$work/page"
awk '/^```net/ { file = folder "/net" ++n ".dsl"; next } /^```/ { file = "" } file { print >file }' folder="$work/page" "$sources"/docs/*.md
"$pcc" fmt --check "$sources"/samples/*.dsl "$work"/page/net*.dsl || fail "pcc fmt changes these samples and nets of docs/"
# A file with a mistake is left alone.
echo 'net q { a = ; }' >"$work/wrong.dsl"
code=0
"$pcc" fmt "$work/wrong.dsl" 2>"$work/said" || code=$?
[ $code -eq 1 ] && [ "$(cat "$work/wrong.dsl")" = 'net q { a = ; }' ] && grep -q 'expected an expression' "$work/said" || fail "a file with a mistake: exit $code"
exit $failed
