#!/bin/sh
# tools/iopddl.sh refuses a file that it cannot read in one line, before anything is built or solved.
#   iopddl.sh TOOL
set -u
tool=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
refuse() { # TEXT FILE
    sh "$tool" "$2" >said 2>&1
    code=$?
    [ "$code" = 3 ] && [ "$(wc -l <said)" = 1 ] && grep -qF -- "$1" said || { echo "iopddl.sh $2: exit $code and" >&2; cat said >&2; failed=1; }
}
refuse "tools/iopddl.sh: cannot read missing.json" missing.json
refuse "tools/iopddl.sh: cannot read missing.json.gz" missing.json.gz
refuse "tools/iopddl.sh: cannot read ." .
echo '{' >plain.json.gz
refuse "tools/iopddl.sh: cannot read plain.json.gz: it is not in gzip format" plain.json.gz
exit $failed
