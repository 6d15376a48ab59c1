#!/usr/bin/env bash
# As it would run on any machine with this MPI: no host file, no ssh set-up, nothing of Quorate.
set -euo pipefail
echo "job starts on $(hostname)"
mpirun -n 8 examples/quickstart/hello 4
echo "job ends"
