"""Whether a trial fits the nodes, and what else is known before one starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from actorlearner.exceptions import ConfigError, ResourceError
from sweeps.preflight import OTHER_RESULT_KEYS, check_bundles, count_trials, flat_keys, result_keys

ONE = [{"CPU": 2.0, "GPU": 0.0}]


def test_a_trial_that_fits_passes():
    check_bundles([{"CPU": 1.0}, {"CPU": 0.5}, {"CPU": 0.5}], ONE)
    check_bundles([{}], ONE)


def test_too_many_cpus_name_needed_available_and_keys():
    with pytest.raises(ResourceError, match=r"needs 9 CPUs, but this machine has 2 CPUs\. Lower resources.num_workers"):
        check_bundles([{"CPU": 1.0}] * 9, ONE)


def test_too_many_gpus():
    with pytest.raises(ResourceError, match=r"needs 1 GPU, but this machine has 0 GPUs\. Lower resources.num_gpus\."):
        check_bundles([{"CPU": 1.0, "GPU": 1.0}], [{"CPU": 2.0}])


def test_enough_in_sum_is_not_enough_on_any_node():
    """Ray would wait for ever for a bundle that no node can hold."""
    nodes = [{"CPU": 4.0}, {"CPU": 4.0}]
    check_bundles([{"CPU": 4.0}, {"CPU": 4.0}], nodes)
    with pytest.raises(ResourceError, match="one bundle at most 5 CPUs, but the cluster's 2 nodes have 8 CPUs"):
        check_bundles([{"CPU": 5.0}], nodes)


def test_strict_strategies():
    nodes = [{"CPU": 2.0}, {"CPU": 2.0}]
    check_bundles([{"CPU": 1.0}, {"CPU": 1.0}], nodes, "STRICT_SPREAD")
    with pytest.raises(ResourceError, match="STRICT_SPREAD"):
        check_bundles([{"CPU": 1.0}] * 3, nodes, "STRICT_SPREAD")
    with pytest.raises(ResourceError, match="STRICT_PACK"):
        check_bundles([{"CPU": 1.0}] * 3, nodes, "STRICT_PACK")


def test_how_many_trials_fit():
    assert count_trials([{"CPU": 1.0}], ONE) == 2
    assert count_trials([{"CPU": 0.1}], ONE) == 20
    assert count_trials([{"CPU": 2.0}, {"CPU": 1.0}], [{"CPU": 3.0}, {"CPU": 4.0}]) == 2


def test_resource_errors_are_configuration_errors():
    assert issubclass(ResourceError, ConfigError)


def test_the_keys_of_a_result_are_those_of_a_training():
    from actorlearner.algorithms.impala.algorithm import Impala

    config = {"resources": {"num_workers": 0}, "algorithm": {"min_train_timesteps_per_iteration": 500}}
    algorithm = Impala(config)
    try:
        result = algorithm.train()
    finally:
        algorithm.stop()
    trained = set(flat_keys(result))
    assert set(result_keys()) <= trained
    assert set(flat_keys({name: result[name] for name in ("info", "counters")})) <= set(result_keys())
    assert set(OTHER_RESULT_KEYS) <= set(result_keys())


def test_the_checks_of_the_defaults_do_without_torch(tmp_path: Path):
    script = (
        "import sys; from sweeps import run; from sweeps.cli import main;"
        "code = main(run.COMMAND, ['sweep.dry_run=true']); print(code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "0 False"
