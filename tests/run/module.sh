#!/bin/sh
# module.sh PRUN MODULE: prun opens the module that was built with CUDA, and says what devices there are or why there are none.
set -u
unset PRUN_DEVICE
export PRUN_CUDA_MODULE="$2"
output=$("$1" --devices 2>&1)
code=$?
echo "$output"
[ -f "$2" ] || { echo "there is no $2"; exit 1; }
case $output in
*"cannot open"* | *"no module"* | *"another build"* | *"built without CUDA"*) exit 1 ;;
esac
case $code in
0) echo "$output" | grep -q '^device 0: ' ;;
3) echo "$output" | grep -q '^CUDA [0-9]' ;;
*) exit 1 ;;
esac
