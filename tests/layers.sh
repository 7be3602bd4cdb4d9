#!/bin/sh
# The layers are one-way, files stay readable, and proof/ asks ir/box.c only to compare: read from the text of the sources.
#   layers.sh SOURCE_ROOT [PCC]     exit 1 and a line each for what breaks a rule
set -u
pcc=${2:+$(realpath "$2")}
cd "$1" || exit 2
rule() { # TEXT; on standard input: what breaks it
    found=$(cat)
    [ -z "$found" ] || printf 'not %s:\n%s\n' "$1" "$found"
}
reaches() { # FILE...: the headers of the project that they include, directly or through others
    todo="$*" seen='' # names without blanks, a line each
    while [ -n "$todo" ]; do
        todo=$(grep -ohE '^#include "[^"]+\.h"' $todo | cut -d'"' -f2 | sort -u | while read -r header; do
            case " $seen " in *" $header "*) ;; *) echo "$header" ;; esac
        done)
        seen="$seen $(echo $todo)"
    done
    printf '%s\n' $seen
}
includes() { grep -nE "#include \"($1)/" "$2"/*.[chly] "$2"/*/*.[ch] 2>/dev/null; }

rules() {
    includes 'report|frontend|strategies|search|proof|compiler|runtime|tests' ir | rule "ir includes no other layer"
    includes 'frontend|strategies|search|proof|compiler|runtime|tests' report | rule "report includes only ir"
    includes 'report|strategies|search|proof|compiler|runtime|tests' frontend | rule "frontend includes only ir"
    includes 'report|frontend|search|proof|compiler|runtime|tests' strategies | rule "strategies includes only ir"
    includes 'report|frontend|proof|compiler|runtime|tests' search | rule "search includes only ir and strategies"
    reaches search/problem.c $(grep -l '"search/solve\.h"' search/*.c) | grep -vE '^(search/|ir/(base|map)\.h)' | rule "solvers know the problem and nothing of graphs"
    includes 'report|frontend|strategies|search|compiler|runtime|tests' proof | rule "proof includes only ir"
    includes 'runtime|tests' compiler | rule "compiler does not include runtime"
    includes 'frontend|strategies|search|proof|compiler|tests' runtime | rule "runtime includes only ir and report"
    reaches runtime/comm/*.[ch] | grep '^ir/' | grep -vE '^ir/(base|half|layout|limits)\.h$' | rule "runtime/comm knows elements, tensors and layouts, no more of ir"
    reaches runtime/cpu/*.[ch] runtime/cuda/*.[ch]* | grep -E '^ir/(graph|plan)\.h$' | rule "kernels and their communicators know operators, neither graphs nor plans"

    # ir/box.c's functions, called in proof/ only where they are compared, in these functions of proof/layout.c; and where what ranks receive is
    # executed over the field or counted, in proof/spread.c and proof/header.c.
    box='layout_box|layout_local_shape|layout_max_elements|group_members|group_leader|pieces_received|pieces_sent|box_elements|box_intersect|comm_layouts'
    grep -nE "\b($box)\(" proof/*.c | grep -vE '^proof/layout.c:|^proof/(spread|header).c:.*\b(pieces_received|comm_layouts)\(' |
        rule "proof/ calls ir/box.c in layout.c, and its pieces in spread.c and header.c"
    awk -v box="$box" '/^[a-z].*\(/ { name = $0 }
        $0 ~ "(^|[^a-z_])(" box ")\\(" && name !~ /box_check|group_check|sends_check|conversion_check/ { print FILENAME ":" FNR ": " $0 }' proof/layout.c |
        rule "proof/layout.c calls ir/box.c to compare"

    # Reasons stand in docs/, and comments point only at what is there.
    texts="README.md docs ir report frontend strategies search proof compiler runtime samples tests tools"
    grep -rnIE '\b(DESIGN|PLAN|PROOF)(\.md| [0-9])|\bfacts/' $texts | grep -v '^tests/layers.sh:' | rule "references that lead out of the repository"
    grep -rhoIE '\bdocs/[a-z]+\.md' $texts | sort -u | while read -r page; do
        [ -f "$page" ] || echo "$page"
    done | rule "pages of docs/ that are there"
    grep -rnoE '\b(ir|report|frontend|strategies|search|proof|compiler|runtime|samples|tests|tools)/[a-zA-Z0-9_/-]+\.(c|h|def|y|l|sh|py|dsl|cuh?)\b' README.md docs | while IFS=: read -r page line file; do
        [ -e "$file" ] || echo "$page:$line: $file"
    done | rule "files that README.md and docs/ name"

    find ir report frontend strategies search proof compiler runtime tests -name '*.[chly]' -exec wc -l {} + | awk '$2 != "total" && $1 > 800 { print $2 " (" $1 " lines)" }' |
        rule "files of at most 800 lines"
    grep -nE 'switch \((node|step|call|n|s)(->|\.)op\)' ir/*.c report/*.c frontend/*.c strategies/*.c search/*.c compiler/*.c runtime/*.c runtime/*/*.c |
        grep -vE '^ir/(rule|shapes)\.c' | rule "a switch over operators only in rule functions (and in proof/, which has its own table)"
    for key in $(grep -ohE '(scan_(is_)?key(word)?|read_number_key)\(&?scan, "[a-z_0-9]+"' ir/read.c ir/source.c ir/plan.c ir/side.c | grep -oE '"[a-z_0-9]+"' | sort -u); do
        sed -n '/known\[\] = {/,/};/p' ir/scan.c | grep -qF "$key" || [ "$key" = '"none"' ] || echo "$key"
    done | rule "keys of a plan that ir/scan.c knows"
    # A key of a line stands in docs/plan.md as KEY=, another word of the format or a name for one of its values as a word.
    for key in $(grep -ohE '(scan_(is_)?key|read_number_key)\((&?scan|&reading->scan), "[a-z_0-9]+"' ir/read.c ir/source.c ir/plan.c ir/side.c | grep -oE '"[a-z_0-9]+"' | tr -d '"' | sort -u); do
        grep -qE "(^|[^a-z_])$key=" docs/plan.md || echo "$key="
    done | rule "keys of a plan that docs/plan.md shows"
    for word in $(sed -n '/known\[\] = {/,/};/p' ir/scan.c | grep -oE '"[a-z_0-9]+"') $(sed -nE '/^const char \*const [a-z_]+_name\[/,/};/p' ir/print.c ir/plan.c ir/box.c | grep -oE '"[a-z_0-9]+"'); do
        word=$(echo "$word" | tr -d '"')
        grep -qE "(^|[^a-z_])$word([^a-z_]|\$)" docs/plan.md || echo "$word"
    done | sort -u | rule "words of a plan that docs/plan.md names"
    # A row of a table of docs/language.md begins with an operator, or several.
    [ -z "$pcc" ] || "$pcc" --list-ops | grep -oE '^[a-z_0-9]+\(' | tr -d '(' | while read -r op; do
        grep -qE "^\|[^|]*\`$op[(\`]" docs/language.md || echo "$op"
    done | rule "operators that docs/language.md has"
    [ -z "$pcc" ] || readelf -d "$pcc" | grep -E 'NEEDED.*(mpi|cuda|nccl|openblas)' | rule "pcc links neither MPI nor CUDA nor BLAS"
}

broken=$(rules) # what stands behind a pipe cannot set a variable: what it prints counts
[ -z "$broken" ] && exit 0
printf '%s\n' "$broken"
exit 1
