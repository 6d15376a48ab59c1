#!/usr/bin/env bash
# JAX and Lightning find their ranks in the tasks of srun, within a batch script and outside of one.
# usage: frameworks.sh FOLDER; their Python and Slurm's names are on PATH
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
first=$(sinfo -h -N -o %N | sort -u | head -n 1)
# Two on each of three nodes: address, number, rank, and place on the node.
printf "$first 6 %s %s\n" 0 0 1 1 2 0 3 1 4 0 5 1 >expected
check() { # NAME COMMAND...
    local name=$1 verdict=FAILED
    shift
    "$@" >found 2>errors
    if sort found | diff expected - && ! [ -s errors ]; then verdict=passed; else cat errors; fi
    printf 'case\t%s\t%s\n' "$name" "$verdict"
}
script() {
    printf '#!/bin/sh\n#SBATCH -N3 --ntasks-per-node=2 -o out.txt\nsrun python3 %s\n' "$*" >job.sh
    sbatch -Q -W job.sh >/dev/null && cat out.txt
}
for framework in jax lightning; do
    check "$framework-in-a-script" script "$1/frameworks.py $framework"
    check "$framework-by-srun" srun -N3 --ntasks-per-node=2 -J train python3 "$1/frameworks.py" "$framework"
done
