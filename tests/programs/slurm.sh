#!/usr/bin/env bash
# Runs on the launcher of a cluster of three pods: launchers of one MPI, and srun, within allocations of the
# cluster's queue under Slurm's names; one line each on standard output: `case<TAB>NAME<TAB>VERDICT`. What a
# failed case printed follows its line, each line behind `| `.
#
# usage: slurm.sh FAMILY HELLO      (FAMILY: hydra or openmpi; HELLO: a program that tells rank and host)
set -u
family=$1 hello=$2
# All pods have it; their own /tmp they do not share.
work=$(mktemp -d -p "$(dirname "$hello")")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
out=$work/out
mapfile -t nodes < <(sinfo -h -N -o %N | sort -u)

case $family in
hydra) launcher=mpiexec srun_mpi=pmi2 by_slurm=(mpiexec -bootstrap slurm) ;;
openmpi)
    launcher=mpirun srun_mpi=pmix
    by_slurm=(env OMPI_MCA_plm=slurm OMPI_MCA_ras=slurm PRTE_MCA_plm=slurm PRTE_MCA_ras=slurm mpirun)
    ;;
esac

# run_case NAME CHECK COMMAND...: the case is good if CHECK, which sees $code and $out, says so.
run_case() {
    local name=$1 check=$2 verdict
    shift 2
    timeout --kill-after 3 60 "$@" >"$out" 2>&1 </dev/null
    code=$?
    if $check; then verdict=ok; else verdict=failed; fi
    printf 'case\t%s\t%s\n' "$name" "$verdict"
    [ "$verdict" = ok ] || sed 's/^/| /' "$out"
}

# ranks_are_on NODE...: the rank of each place is on that node, once, and there are no others.
ranks_are_on() {
    local rank=0 node
    for node in "$@"; do
        [ "$(grep -c "^rank $rank of $# on $node$" "$out")" = 1 ] || return 1
        rank=$((rank + 1))
    done
    [ "$code" = 0 ] && [ "$(grep -c '^rank ' "$out")" = "$#" ]
}
two_by_two() { ranks_are_on "$first" "$first" "$second" "$second"; }
on_the_last() { ranks_are_on "$last" "$last"; }
each_alone() { [ "$code" = 0 ] && [ "$(grep -c '^rank 0 of 1 on ' "$out")" = 4 ]; }

first=${nodes[0]} second=${nodes[1]} last=${nodes[2]}
four=(-w "$first,$second" -N2 -n4 --ntasks-per-node=2)

# The launcher finds by itself how many ranks there are to be, and where.
run_case "salloc $launcher" two_by_two salloc "${four[@]}" $launcher "$hello"
run_case "salloc $launcher -n 4" two_by_two salloc "${four[@]}" $launcher -n 4 "$hello"
# Its nodes need not be the one that it is typed on.
run_case "salloc $launcher elsewhere" on_the_last salloc -w "$last" -n2 $launcher "$hello"
run_case "salloc $launcher by srun" two_by_two salloc "${four[@]}" "${by_slurm[@]}" "$hello"
# It was submitted with the variables of a program whose nodes are others.
printf '#!/bin/bash\n#SBATCH -N2 -n4 --ntasks-per-node=2 -w %s\n%s %s\n' \
    "$first,$second" $launcher "$hello" >job.sh
run_case "sbatch $launcher" two_by_two sh -c 'sbatch -W -o job.out job.sh; code=$?; cat job.out; exit $code'
printf '#!/bin/bash\n#SBATCH -n2 -w %s\n%s %s\n' "$last" $launcher "$hello" >job.sh
run_case "sbatch $launcher elsewhere" on_the_last sh -c 'sbatch -W -o job.out job.sh; code=$?; cat job.out; exit $code'
run_case "salloc srun --mpi=$srun_mpi" two_by_two salloc "${four[@]}" srun --mpi=$srun_mpi "$hello"
run_case "salloc srun" two_by_two salloc "${four[@]}" srun "$hello"
run_case "srun --mpi=$srun_mpi" two_by_two srun "${four[@]}" --mpi=$srun_mpi "$hello"
# Without process management each is a program of its own. Open MPI 4 refuses to be that under srun.
if [ "$family" = hydra ]; then
    run_case "salloc srun --mpi=none" each_alone salloc "${four[@]}" srun --mpi=none "$hello"
else
    run_case "salloc srun --mpi=none" true salloc "${four[@]}" srun --mpi=none hostname
fi
