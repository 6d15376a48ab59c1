#!/usr/bin/env bash
# Snakemake's Slurm executor drives the queue of the cluster that this runs in.
# usage: snakemake.sh FOLDER-OF-SNAKEFILE; Snakemake and Slurm's names are on PATH
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1/Snakefile" "$work"
cd "$work" || exit 1
drive() {
    snakemake --executor slurm --jobs 4 --nolock --quiet all --latency-wait 5 \
        --slurm-no-account --slurm-init-seconds-before-status-checks 1 \
        --default-resources slurm_partition=default -- "$@"
}
check() { # NAME COMMAND...
    local name=$1 verdict=FAILED
    shift
    if "$@"; then verdict=passed; fi
    printf 'case\t%s\t%s\n' "$name" "$verdict"
}
parts_are_jobs() {
    drive all && [ "$(sort total.txt)" = "$(printf '%s 1\n' 1 2 3 4)" ]
}
jobs_are_told_as_they_ended() {
    [ "$(sacct -X -n -P -o State | sort | uniq -c | tr -s ' ')" = " 5 COMPLETED" ]
}
failure_is_seen() {
    ! drive wrong && [ "$(sacct -X -n -P -o State -j 6)" = FAILED ]
}
check parts-are-jobs parts_are_jobs
check jobs-are-told-as-they-ended jobs_are_told_as_they_ended
check failure-is-seen failure_is_seen
