#!/bin/sh
# expect.sh CODE PATTERN SECONDS COMMAND...: the command must exit with CODE, print a line that matches PATTERN on stdout or stderr, and end
# within SECONDS.
code=$1 pattern=$2 seconds=$3
shift 3
begin=$(date +%s)
output=$("$@" 2>&1)
found=$?
took=$(($(date +%s) - begin))
printf '%s\n' "$output"
if [ "$found" -ne "$code" ]; then
    echo "expect.sh: exit code $found, not $code" >&2
    exit 1
fi
if ! printf '%s\n' "$output" | grep -Eq -- "$pattern"; then
    echo "expect.sh: no line matches '$pattern'" >&2
    exit 1
fi
if [ "$took" -gt "$seconds" ]; then
    echo "expect.sh: took $took s, more than $seconds" >&2
    exit 1
fi
