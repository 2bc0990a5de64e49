"""What one trial needs of the machine: fills in what was left to choose, and says it as Ray's bundles (spec A16)."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actorlearner.envs.spec import EnvironmentSpec
from actorlearner.settings import ResourceSettings, Settings

# A native vector step costs hardly more for 32 sub-environments than for 8, and larger forward passes cost less per
# step; sub-environments stepped one by one gain nothing beyond the forward pass. Games are long: with 32 of them none
# would have ended after the first 20,000 steps.
_ENVS_NATIVE = 32
_ENVS_IMAGES = 16
_ENVS_STEPPED_IN_TURN = 8


@dataclass(frozen=True)
class Machine:
    """CPUs and GPUs that this process, or a cluster, may use."""

    num_cpus: float
    num_gpus: float


def detect_machine(control_groups: Path = Path("/sys/fs/cgroup")) -> Machine:
    """Count the CPUs this process may use and the GPUs torch can see; starts no CUDA context.

    Args:
        control_groups: where Linux shows the limits of this process's container.
    """
    # macOS has no affinity.
    num_cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cpu_quota(control_groups)
    if quota is not None:
        num_cpus = max(1, min(num_cpus, math.floor(quota)))
    return Machine(num_cpus=num_cpus, num_gpus=_count_gpus())


def _cpu_quota(control_groups: Path) -> float | None:
    """Return how many CPUs' time a container may use (``docker run --cpus``); None without a limit."""
    try:
        if (control_groups / "cpu.max").exists():  # version 2: "max 100000" or "150000 100000"
            quota, period = (control_groups / "cpu.max").read_text().split()
        else:  # version 1: -1 is no limit
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = ((control_groups / "cpu" / name).read_text() for name in files)
        return int(quota) / int(period) if int(quota) > 0 and int(period) > 0 else None
    except (OSError, ValueError):
        return None


def _count_gpus() -> int:
    has_driver = any(next(Path("/dev").glob(pattern), None) for pattern in ("nvidia[0-9]*", "kfd", "dxg"))
    if sys.platform == "linux" and not has_driver:
        # Importing torch takes seconds, which every command would wait for.
        return 0
    import torch

    return int(torch.cuda.device_count())


def resolve_resources(settings: Settings, spec: EnvironmentSpec, machine: Machine) -> Settings:
    """Return a copy of the settings in which no resource is null; what was set stays as it is.

    Local mode, because on one machine a sweep is fastest when every core runs its own trial. Images take the GPU where
    there is one, and a second CPU, which overlaps sampling with learning, where there is none.

    Args:
        settings: as configured; left unchanged.
        spec: the probed environment.
        machine: what there is.
    """
    resources = settings.resources
    num_workers = 0 if resources.num_workers is None else resources.num_workers
    num_envs, num_cpus, num_gpus = resources.num_envs_per_worker, resources.num_cpus_for_driver, resources.num_gpus
    if num_envs is None:
        native = _ENVS_IMAGES if spec.is_image else _ENVS_NATIVE
        num_envs = native if spec.native_vector else _ENVS_STEPPED_IN_TURN
    if num_cpus is None:
        overlap = spec.is_image and num_workers == 0 and machine.num_cpus >= 2 and machine.num_gpus == 0
        num_cpus = 2.0 if overlap else 1.0
    if num_gpus is None:
        num_gpus = 1.0 if spec.is_image and machine.num_gpus >= 1 else 0.0
    resolved = dataclasses.replace(
        resources,
        num_workers=num_workers,
        num_envs_per_worker=num_envs,
        num_cpus_for_driver=num_cpus,
        num_gpus=num_gpus,
    )
    return dataclasses.replace(settings, resources=resolved)


def trial_bundles(resolved: Settings) -> list[dict[str, float]]:
    """Return one trial's bundles: first the driver's, then one for each remote rollout worker (spec A16).

    Args:
        resolved: settings from ``resolve_resources``.

    Returns:
        Dicts of ``CPU`` and, where more than none are asked for, ``GPU``; fractions are allowed.

    Raises:
        ValueError: a resource is still null.
    """
    resources = resolved.resources
    num_workers = _chosen(resources, "num_workers")
    driver = {"CPU": float(_chosen(resources, "num_cpus_for_driver"))}
    num_gpus = float(_chosen(resources, "num_gpus"))
    if num_gpus:
        driver["GPU"] = num_gpus
    return [driver] + [{"CPU": resources.num_cpus_per_worker} for _ in range(num_workers)]


def placement_group(resolved: Settings) -> Any:
    """Return ``trial_bundles`` as the ``ray.tune.PlacementGroupFactory`` that Tune asks a Trainable for."""
    from ray.tune import PlacementGroupFactory

    return PlacementGroupFactory(trial_bundles(resolved), strategy=resolved.resources.placement_strategy)


def _chosen(resources: ResourceSettings, name: str) -> Any:
    value = getattr(resources, name)
    if value is None:
        raise ValueError(f"resources.{name} must be a number here, got null; call resolve_resources first.")
    return value
