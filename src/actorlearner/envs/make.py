"""From an environment id to a running vector environment, with errors that say what is missing."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from actorlearner.envs.atari import NAMESPACE, import_ale, is_atari, make_atari
from actorlearner.envs.vector import VectorEnvironment
from actorlearner.exceptions import ConfigError, EnvironmentNotFoundError, MissingExtraError
from actorlearner.settings import EnvironmentSettings

# Where gymnasium's environments that need more than gymnasium live, and the pip extra that brings it.
_EXTRAS = {"gymnasium.envs.box2d": "box2d", "gymnasium.envs.mujoco": "mujoco"}


def find_spec(environment_id: str) -> EnvSpec:
    """Return gymnasium's registration of an id; ``ALE/`` ids and ``module:id`` import what registers them.

    Raises:
        EnvironmentNotFoundError: no such id; names the closest ones.
        MissingExtraError: the module named before the colon is not installed.
    """
    module, _, name = environment_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise _missing_module(environment_id, error) from error
    if name.startswith(NAMESPACE):
        import_ale()
    spec = gymnasium.registry.get(name)
    if spec is None or _is_old_atari(spec):
        raise _not_found(environment_id, name)
    return spec


def has_native_vector(spec: EnvSpec) -> bool:
    """Say whether an environment brings a vector version of its own, which costs far less per step."""
    return spec.vector_entry_point is not None and not spec.additional_wrappers


def make_vector_env(settings: EnvironmentSettings, num_envs: int, *, num_threads: int = 1) -> VectorEnvironment:
    """Make ``num_envs`` copies of the environment that step together.

    The environment's own vector version is taken where it has one, else its copies are stepped in turn. Same-step
    autoreset wherever it can be chosen; gymnasium's native vector environments (CartPole) reset in the next step.

    Args:
        settings: id and keyword arguments.
        num_envs: sub-environments, at least 1.
        num_threads: threads that step Atari games; the others have none.

    Raises:
        EnvironmentNotFoundError: no such id.
        MissingExtraError: the environment needs a package that is not installed.
        ConfigError: the constructor refuses ``env_config``, or the spaces are not supported.
    """
    spec = find_spec(settings.id)
    if is_atari(spec):
        return make_atari(spec, settings, num_envs, num_threads)
    options: dict[str, Any] = {"vectorization_mode": "vector_entry_point"}
    if not has_native_vector(spec):
        # Copies are made once, by VectorEnvironment. Gymnasium's checker is for people who write environments.
        vector_options = {"copy": False, "autoreset_mode": AutoresetMode.SAME_STEP}
        options = {"vectorization_mode": "sync", "vector_kwargs": vector_options, "disable_env_checker": True}
    try:
        env = gymnasium.make_vec(spec, num_envs, **options, **settings.env_config)
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise _missing_dependency(settings.id, spec, error) from error
    except gymnasium.error.DeprecatedEnv as error:
        raise _not_found(settings.id, spec.id) from error
    except TypeError as error:
        if not settings.env_config:
            raise
        raise ConfigError(
            f"environment.env_config={settings.env_config} does not fit environment.id={settings.id}: {error}; "
            "its keys must be keyword arguments of the environment's constructor.",
            key="environment.env_config",
            value=settings.env_config,
        ) from error
    is_sync = isinstance(env, gymnasium.vector.SyncVectorEnv)
    return VectorEnvironment(env, settings.id, split_seed=(lambda seeds: seeds.tolist()) if is_sync else None)


def _not_found(environment_id: str, name: str) -> EnvironmentNotFoundError:
    close = _similar_ids(name)
    cure = f"did you mean {' or '.join(close)}?" if close else "no registered id is similar."
    return EnvironmentNotFoundError(
        f"environment.id={environment_id} is not an environment that can be made: {cure} "
        "An environment of your own is named module:id, where importing the module registers the id.",
        key="environment.id",
        value=environment_id,
    )


def _similar_ids(name: str) -> list[str]:
    """Return up to three registered ids, latest versions only, the most similar first."""
    import_ale()
    asked = gymnasium.registry.get(name)
    latest: dict[str, EnvSpec] = {}
    for spec in gymnasium.registry.values():
        title = spec.id.rpartition("-v")[0]
        if _is_old_atari(spec):
            continue
        if asked is not None and _is_old_atari(asked) and spec.kwargs.get("game") == asked.kwargs["game"]:
            return [spec.id]
        if title not in latest or (spec.version or 0) > (latest[title].version or 0):
            latest[title] = spec
    # People mix up capitals and leave out the namespace; a full id goes before one that only fits without it.
    spellings = {spec.id.lower(): spec.id for spec in latest.values()}
    for spec in latest.values():
        spellings.setdefault(spec.id.lower().rpartition("/")[2], spec.id)
    close = difflib.get_close_matches(name.lower(), spellings, n=6, cutoff=0.6)
    return list(dict.fromkeys(spellings[spelling] for spelling in close))[:3]


def _is_old_atari(spec: EnvSpec) -> bool:
    """Say whether this is one of ALE's v0 and v4 ids: raw colour frames, no vector version, not the v5 protocol."""
    return str(spec.entry_point).startswith("ale_py") and not is_atari(spec)


def _missing_dependency(environment_id: str, spec: EnvSpec, error: Exception) -> MissingExtraError:
    for module, extra in _EXTRAS.items():
        if str(spec.entry_point).startswith(module):
            return MissingExtraError(
                f"environment.id={environment_id} needs the extra {extra!r}, which is not installed; "
                f"run: pip install 'impala-sweeps[{extra}]'",
                key="environment.id",
                value=environment_id,
            )
    return _missing_module(environment_id, error)


def _missing_module(environment_id: str, error: Exception) -> MissingExtraError:
    module = getattr(error, "name", None)
    need = (
        f"the module {module!r}, which is not installed; install the package that brings it" if module else str(error)
    )
    return MissingExtraError(
        f"environment.id={environment_id} needs {need.rstrip('.')}.", key="environment.id", value=environment_id
    )
