"""Small settings, weights and specifications that tests of the engine's parts share."""

from __future__ import annotations

from actorlearner.envs.spec import probe_environment
from actorlearner.models.catalog import build_model
from actorlearner.settings import EnvironmentSettings, settings_from_dict
from actorlearner.types import Weights


def remote_settings(environment="CartPole-v1", env_config=None, *, workers=1, cpus=0.5, envs=2, steps=5, seed=0):
    """Resolved settings of ``workers`` remote workers with half a CPU each."""
    return settings_from_dict(
        {
            "algorithm": {"rollout_fragment_length": steps},
            "environment": {"id": environment, "env_config": env_config or {}},
            "resources": {
                "num_workers": workers,
                "num_envs_per_worker": envs,
                "num_cpus_per_worker": cpus,
                "num_cpus_for_driver": 1.0,
                "num_gpus": 0.0,
            },
            "debugging": {"seed": seed},
        }
    )


def spec_of(environment="CartPole-v1"):
    """What the environment looks like when it works."""
    return probe_environment(EnvironmentSettings(id=environment))


def weights_of(settings, spec, version=0):
    """Fresh weights that fit the settings' network."""
    model = build_model(spec.observation_space, spec.action_space, settings.model, settings.resources.precision)
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    return Weights(version=version, arrays=arrays)
