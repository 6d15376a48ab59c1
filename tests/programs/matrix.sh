#!/usr/bin/env bash
# Runs on the launcher of a cluster of PODS pods: every case of one MPI, one line each on standard
# output, tab-separated: `case WAY PROGRAM RANKS VERDICT MILLISECONDS CODE`. What a failed case
# printed follows its line, each line behind `| `.
#
# usage: matrix.sh FAMILY PROGRAMS PODS      (FAMILY: hydra or openmpi; PROGRAMS: a folder)
set -u
family=$1 programs=$2 pods=$3
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# Longer than any good case by far, shorter than anyone waits.
limit=60

# run_case WAY PROGRAM RANKS CHECK COMMAND...: runs the command; the case is good if CHECK, a
# function or a command that sees $code and $out, says so.
run_case() {
    local way=$1 program=$2 ranks=$3 check=$4 started code verdict
    shift 4
    started=${EPOCHREALTIME/./}
    timeout --kill-after 3 "$limit" "$@" >"$out" 2>&1 </dev/null
    code=$?
    local took=$(((${EPOCHREALTIME/./} - started) / 1000))
    if $check; then verdict=ok; else verdict=failed; fi
    printf 'case\t%s\t%s\t%s\t%s\t%s\t%s\n' "$way" "$program" "$ranks" "$verdict" "$took" "$code"
    [ "$verdict" = ok ] || sed 's/^/| /' "$out"
}

# Every rank's line is there, whole, once.
hello_is_whole() {
    [ "$code" = 0 ] || return 1
    local rank
    for ((rank = 0; rank < ranks; rank++)); do
        [ "$(grep -c "^rank $rank of $ranks on [a-z0-9.-]*$" "$out")" = 1 ] || return 1
    done
}
ring_is_whole() { [ "$code" = 0 ] && grep -qx "ring of $ranks on $span pods" "$out"; }
code_77() { [ "$code" = 77 ]; }
code_139() { [ "$code" = 139 ] && grep -q 'about to fail' "$out"; }
# Not success, and not the deadline either.
ended_badly() { [ "$code" != 0 ] && [ "$code" != 124 ] && [ "$code" != 137 ]; }

for ranks in 1 2 4 8; do
    span=$((ranks < pods ? ranks : pods))
    each=$((ranks / span))
    case $family in
    hydra) by_mpirun=(mpiexec -n "$ranks" -ppn "$each") ;;
    openmpi) by_mpirun=(mpirun -n "$ranks" --map-by node) ;;
    esac
    direct=(quorate-agent run -N "$span" -n "$ranks" --tasks-per-node "$each" --)
    for program in hello ring; do
        run_case direct $program $ranks ${program}_is_whole "${direct[@]}" "$programs/$program" "$span"
        run_case mpirun $program $ranks ${program}_is_whole "${by_mpirun[@]}" "$programs/$program" "$span"
    done
done

# How a program ends badly must not depend on where its ranks are.
ranks=4 span=$((pods < 4 ? pods : 4))
direct=(quorate-agent run -N "$span" -n "$ranks" --)
run_case direct abort $ranks code_77 "${direct[@]}" "$programs/abort"
run_case direct segv $ranks code_139 "${direct[@]}" "$programs/segv"
run_case direct nofinalize $ranks ended_badly "${direct[@]}" "$programs/nofinalize"
