"""Apps of Parsl in a pilot job of two nodes, which its Slurm provider submits, asks about and cancels.

usage: parsl.py DIRECTORY BIN; BIN is where Parsl's own commands are
"""

import os
import sys

# This file must not be taken for the library.
sys.path = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@parsl.python_app
def square(number):
    import os

    return number * number, os.environ["SLURM_JOB_ID"]


directory, programs = sys.argv[1:]
provider = SlurmProvider(
    partition="default",
    nodes_per_block=2,
    cores_per_node=1,
    init_blocks=1,
    min_blocks=1,
    max_blocks=1,
    walltime="00:10:00",
    exclusive=False,
    launcher=SrunLauncher(),
    worker_init=f"export PATH={programs}:$PATH",
)
executor = HighThroughputExecutor(
    label="queue", address="127.0.0.1", max_workers_per_node=1, encrypted=False, provider=provider
)
with parsl.load(Config(run_dir=directory, executors=[executor])):
    answers = [app.result(timeout=180) for app in [square(number) for number in range(6)]]
assert answers == [(number * number, "1") for number in range(6)], answers
