"""The automatic choice, the bundles it becomes, and what the machine has."""

import os

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from actorlearner.envs.spec import EnvironmentSpec
from actorlearner.resources import (
    Machine,
    detect_machine,
    placement_group,
    resolve_resources,
    trial_bundles,
)
from actorlearner.settings import Precision, settings_from_dict

VECTOR = Box(-1, 1, (4,), np.float32)
IMAGE = Box(0, 255, (4, 84, 84), np.uint8)
CARTPOLE = EnvironmentSpec("CartPole-v1", VECTOR, Discrete(2), is_image=False, native_vector=True)
ACROBOT = EnvironmentSpec("Acrobot-v1", VECTOR, Discrete(3), is_image=False, native_vector=False)
PONG = EnvironmentSpec("ALE/Pong-v5", IMAGE, Discrete(6), is_image=True, native_vector=True)
LAPTOP, SMALL, GPU_BOX = Machine(8, 0), Machine(1, 0), Machine(16, 2)


def resolve(spec, machine, **resources):
    return resolve_resources(settings_from_dict({"resources": resources}), spec, machine)


@pytest.mark.parametrize(
    ("spec", "machine", "given", "num_envs", "driver_cpus", "num_gpus"),
    [
        (CARTPOLE, LAPTOP, {}, 32, 1, 0),
        (CARTPOLE, GPU_BOX, {}, 32, 1, 0),
        (ACROBOT, LAPTOP, {}, 8, 1, 0),
        (PONG, LAPTOP, {}, 16, 2, 0),
        (PONG, SMALL, {}, 16, 1, 0),
        (PONG, GPU_BOX, {}, 16, 1, 1),
        (PONG, LAPTOP, {"num_workers": 3}, 16, 1, 0),
        (PONG, GPU_BOX, {"num_gpus": 0, "num_envs_per_worker": 5, "num_cpus_for_driver": 4}, 5, 4, 0),
    ],
)
def test_the_automatic_choice(spec, machine, given, num_envs, driver_cpus, num_gpus):
    resources = resolve(spec, machine, **given).resources
    assert resources.num_workers == given.get("num_workers", 0)
    assert resources.num_envs_per_worker == num_envs
    assert resources.num_cpus_for_driver == driver_cpus
    assert resources.num_gpus == num_gpus
    assert resources.precision is Precision.auto


def test_the_given_settings_stay_as_they_are():
    settings = settings_from_dict({})
    resolved = resolve_resources(settings, CARTPOLE, LAPTOP)
    assert settings.resources.num_workers is None
    assert resolved.algorithm is settings.algorithm
    assert settings_from_dict(resolved.to_dict()) == resolved


def test_bundles_start_with_the_drivers():  # spec A16
    resolved = resolve(PONG, GPU_BOX, num_workers=2, num_cpus_per_worker=0.5, num_gpus=0.25)
    assert trial_bundles(resolved) == [{"CPU": 1.0, "GPU": 0.25}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert trial_bundles(resolve(CARTPOLE, LAPTOP)) == [{"CPU": 1.0}]


def test_bundles_of_unresolved_settings_are_refused():
    with pytest.raises(ValueError, match=r"resources\.num_workers must be a number here, got null"):
        trial_bundles(settings_from_dict({}))


def test_the_placement_group_is_made_of_the_bundles():  # spec A16
    resolved = resolve(PONG, LAPTOP, num_workers=2, placement_strategy="SPREAD")
    group = placement_group(resolved)
    assert group.bundles == trial_bundles(resolved)
    assert group.strategy == "SPREAD"
    assert group.head_cpus == 1.0


def test_the_machine_is_what_this_process_may_use(tmp_path):
    import torch

    machine = detect_machine(tmp_path)
    assert machine.num_gpus == torch.cuda.device_count()
    assert not torch.cuda.is_initialized()
    if not hasattr(os, "sched_setaffinity"):
        assert machine.num_cpus == os.cpu_count()
        return
    allowed = os.sched_getaffinity(0)
    assert machine.num_cpus == len(allowed)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert detect_machine(tmp_path).num_cpus == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("files", "num_cpus"),
    [
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "99900000 100000\n"}, 4),
        ({"cpu.max": "max 100000\n"}, 4),
        ({"cpu.max": "\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "350000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({}, 4),
    ],
)
def test_a_containers_cpu_quota_counts(tmp_path, monkeypatch, files, num_cpus):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert detect_machine(tmp_path).num_cpus == num_cpus
