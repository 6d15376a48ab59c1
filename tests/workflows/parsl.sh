#!/usr/bin/env bash
# Parsl's Slurm provider drives the queue of the cluster that this runs in.
# usage: parsl.sh FOLDER; Parsl and Slurm's names are on PATH
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() { # NAME COMMAND...
    local name=$1 verdict=FAILED
    shift
    if "$@"; then verdict=passed; fi
    printf 'case\t%s\t%s\n' "$name" "$verdict"
}
programs=$(dirname "$(command -v process_worker_pool.py)")
cd "$work" || exit 1
apps_run_in_a_job() {
    timeout 300 python3 "$1/parsl.py" "$work" "$programs"
}
its_pilot_job_was_on_two_nodes_and_is_cancelled() {
    local told
    for _ in {1..100}; do
        told=$(sacct -X -n -P -o NNodes,State -j 1)
        if [[ $told == "2|CANCELLED"* ]]; then return 0; fi
        sleep 0.1
    done
    echo "sacct says: $told"
    return 1
}
check apps-run-in-a-job apps_run_in_a_job "$1"
check pilot-is-cancelled its_pilot_job_was_on_two_nodes_and_is_cancelled
