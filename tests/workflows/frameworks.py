"""What JAX and Lightning find out of Slurm's variables, by their own code.

usage: frameworks.py jax|lightning; prints address, number of processes, rank, and place on the node

Only their detection is loaded: what stands around it needs hundreds of megabytes of compiled code, which
knows nothing of Slurm.
"""

import importlib
import importlib.machinery
import pathlib
import sys
import types


def package(name, **names):
    """A package whose modules are found, and which itself runs nothing."""
    top, *rest = name.split(".")
    found = importlib.machinery.PathFinder.find_spec(top)
    folder = pathlib.Path(found.submodule_search_locations[0]).joinpath(*rest)
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    vars(module).update(names)
    sys.modules[name] = module


def jax():
    package("jax")
    package("jax._src")
    package("jax._src.cloud_tpu_init", running_in_cloud_tpu_vm=False)
    # That of Kubernetes needs numpy, and asks an API server.
    package("jax._src.clusters.k8s_cluster", K8sCluster=None)
    clusters = importlib.import_module("jax._src.clusters")
    found = clusters.ClusterEnv.auto_detect_unset_distributed_params(None, None, None, None, None, None)
    address, processes, rank, devices = found
    # Its port is of the job's number.
    return address.rpartition(":")[0], processes, rank, devices[0]


def lightning():
    for name in ["", ".utilities", ".plugins", ".plugins.environments"]:
        package(f"lightning_fabric{name}")
    package("lightning_fabric.utilities.imports", _IS_WINDOWS=False)
    package("lightning_fabric.utilities.rank_zero", rank_zero_warn=print)
    package("lightning_fabric.utilities.warnings", PossibleUserWarning=UserWarning)
    module = importlib.import_module("lightning_fabric.plugins.environments.slurm")
    assert module.SLURMEnvironment.detect(), "it does not see Slurm"
    found = module.SLURMEnvironment()
    found.validate_settings(num_devices=2, num_nodes=3)
    return found.main_address, found.world_size(), found.global_rank(), found.local_rank()


print(*{"jax": jax, "lightning": lightning}[sys.argv[1]]())
