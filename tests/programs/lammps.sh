#!/usr/bin/env bash
# Runs on the launcher: the same simulation by direct launch and by mpirun must end with the same
# energies.
set -euo pipefail
# The last line of figures, at step 100.
figures() { awk '$1 == 100 {print $1, $2, $3, $5}'; }
lmp=(lmp -in examples/lammps/in.melt -log none)
direct=$(quorate-agent run -n 4 -- "${lmp[@]}" | tee /dev/stderr | figures)
by_mpirun=$(mpirun.openmpi -n 4 "${lmp[@]}" | tee /dev/stderr | figures)
echo "direct    $direct"
echo "by mpirun $by_mpirun"
[ -n "$direct" ] && [ "$direct" = "$by_mpirun" ]
