"""What is checked before Ray starts: the environment exists, and a trial fits the machine."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actorlearner.exceptions import ConfigError, ResourceError
from actorlearner.settings import ModelType, Precision, settings_from_dict

if TYPE_CHECKING:
    from actorlearner.envs.spec import EnvironmentSpec
    from actorlearner.settings import Settings
    from sweeps.schema import SweepConfig
    from sweeps.space import SearchSpace

Bundle = dict[str, float]
# More trials than this at once are not counted.
MANY = 10_000
# What Tune adds to the engine's results, and the engine's timers that every training has.
OTHER_RESULT_KEYS = ("training_iteration", "time_total_s", "time_this_iter_s", "timers/sample_ms", "timers/learn_ms")
# Ray counts resources in 1/10,000.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Preflight:
    """What the checks found out.

    Attributes:
        spec: the environment's spaces.
        settings: the engine's settings with every null in ``resources`` resolved.
        bundles: what one trial reserves: the driver's bundle, then one for each remote worker.
        concurrent: how many trials fit at once; None when a cluster is used whose nodes are not known yet.
    """

    spec: EnvironmentSpec
    settings: Settings
    bundles: list[Bundle]
    concurrent: int | None

    @property
    def has_remote_workers(self) -> bool:
        """Whether a trial has rollout workers of its own, which need Ray."""
        return bool(self.settings.resources.num_workers)


def preflight(config: SweepConfig, nodes: Sequence[Bundle] | None = None) -> Preflight:
    """Check environment and resources.

    Args:
        config: the loaded configuration.
        nodes: resources of each node, as ``{"CPU": 8.0, "GPU": 1.0}``; default this machine, or nothing when
            RAY_ADDRESS points to a cluster.

    Raises:
        EnvironmentNotFoundError: no environment has this id.
        MissingExtraError: the environment needs an extra of this package.
        ConfigError: the environment's spaces are not supported.
        ResourceError: one trial does not fit the nodes.
    """
    from actorlearner.envs.spec import probe_environment
    from actorlearner.resources import Machine, detect_machine, resolve_resources, trial_bundles

    spec = probe_environment(config.environment)
    machine = detect_machine()
    if nodes is None and not os.environ.get("RAY_ADDRESS"):
        nodes = [{"CPU": float(machine.num_cpus), "GPU": float(machine.num_gpus)}]
    elif nodes:
        most = [max(node.get(kind, 0.0) for node in nodes) for kind in ("CPU", "GPU")]
        machine = Machine(num_cpus=most[0], num_gpus=most[1])
    settings = resolve_resources(settings_from_dict(config.engine_config()), spec, machine)
    bundles = trial_bundles(settings)
    if nodes is None:
        return Preflight(spec, settings, bundles, None)
    strategy = settings.resources.placement_strategy
    check_bundles(bundles, nodes, strategy)
    return Preflight(spec, settings, bundles, count_trials(bundles, nodes, strategy))


def result_keys() -> list[str]:
    """Return the keys of a training's results; nested ones with slashes, as ``info/learner/default_policy/entropy``."""
    from actorlearner.metrics import Counters, EpisodeWindow, result_dict

    empty = result_dict(
        episodes=EpisodeWindow(1).summarise(),
        before=Counters(),
        counters=Counters(),
        env_steps_queued=0,
        env_steps_waiting=0,
        statistics={},
        timers={},
        learner_queue_length=0,
        num_healthy_workers=0,
        seconds=0.0,
    )
    return [*flat_keys(empty), *OTHER_RESULT_KEYS]


def flat_keys(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the keys of a nested mapping's leaves, joined by slashes."""
    for name, entry in tree.items():
        if isinstance(entry, Mapping):
            yield from flat_keys(entry, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}"


def check_objective(config: SweepConfig) -> None:
    """Raise ConfigError unless results have the objective's key: without it every trial would fail at its end."""
    metric, known = config.sweep.objective.metric, result_keys()
    if metric in known:
        return
    by_leaf = {key.rsplit("/", 1)[-1]: key for key in reversed(known)}
    near = (
        [key for key in known if key.startswith(metric)]  # episode_return: the mean comes first
        or difflib.get_close_matches(metric, known, n=1)
        or [by_leaf[leaf] for leaf in difflib.get_close_matches(metric.rsplit("/", 1)[-1], by_leaf, n=1)]
    )
    cure = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(
        f"sweep.objective.metric={metric} is no key of a result: {cure}Known are {', '.join(known)}.",
        key="sweep.objective.metric",
        value=metric,
    )


def check_environments(space: SearchSpace) -> None:
    """Make the environment with the first and the last value of each searched key of ``environment.env_config``.

    Raises:
        ConfigError: the environment refuses one; names the key of the space.
    """
    from actorlearner.envs.spec import probe_environment
    from sweeps.space import apply
    from sweeps.space.proposals import extremes

    for dimension in space.dimensions:
        if not dimension.key.startswith("environment.env_config."):
            continue
        values = extremes(dimension)
        for value in (values[0], *values[1:][-1:]):
            environment = settings_from_dict(apply(space.base, {dimension.key: value})).environment
            try:
                probe_environment(environment)
            except Exception as error:  # whatever a person's constructor raises, it would end every such trial
                raise ConfigError(
                    f"search_space.{dimension.key} = {value}: {error}", key=dimension.key, value=value
                ) from error


def check_models(found: Preflight, space: SearchSpace | None = None) -> None:
    """Build each network that was asked for by name, or in an arithmetic that hardware may lack.

    Args:
        found: of ``preflight``.
        space: the search space, whose choices of ``model.type`` are built, too.

    Raises:
        ConfigError: the network cannot take the environment's spaces, or the hardware lacks the precision.
    """
    model, precision = found.settings.model, found.settings.resources.precision
    searched = [each for each in space.dimensions if each.key == "model.type"] if space is not None else []
    kinds = [ModelType[kind] for each in searched for kind in each.leaf.choices] or [model.type]
    always = (ModelType.auto,) if found.spec.is_image else (ModelType.auto, ModelType.mlp)
    for kind in kinds:
        if kind in always and precision is not Precision.bfloat16:
            continue  # takes any environment on any hardware, and torch takes seconds to import
        from actorlearner.models.catalog import build_model

        spec = found.spec
        try:
            build_model(spec.observation_space, spec.action_space, dataclasses.replace(model, type=kind), precision)
        except ConfigError as error:
            if not searched or error.key != "model.type":
                raise
            raise ConfigError(f"search_space.model.type = {kind.name}: {error}", key="model.type") from error


def check_tracking(config: SweepConfig) -> None:
    """Raise ConfigError unless the tracking store answers (within 10 s); creates nothing."""
    from sweeps.tracking import check_store

    if config.tracking.enabled:
        assert config.tracking.uri is not None
        check_store(config.tracking.uri)


def check_bundles(bundles: Sequence[Bundle], nodes: Sequence[Bundle], strategy: str = "PACK") -> None:
    """Raise ResourceError unless one trial's bundles fit the (empty) nodes."""
    if place(bundles, nodes, strategy) is not None:
        return
    needed, available = _total(bundles), _total(nodes)
    short = [kind for kind in needed if needed[kind] > available.get(kind, 0.0) + TOLERANCE]
    kinds = short or list(needed)
    where = "this machine has" if len(nodes) == 1 else f"the cluster's {len(nodes)} nodes have"
    rule = f" (resources.placement_strategy={strategy})" if strategy.startswith("STRICT") else ""
    parts = "" if short else f", one bundle at most {_amounts(_largest(bundles), kinds)}{rule}"
    nodes_text = "" if short else f", the largest node {_amounts(_largest(nodes), kinds)}"
    raise ResourceError(
        f"One trial needs {_amounts(needed, kinds)}{parts}, but {where} {_amounts(available, kinds)}{nodes_text}. "
        f"Lower {_cure(kinds, len(bundles))}.",
        key="resources",
        value=list(bundles),
    )


def count_trials(bundles: Sequence[Bundle], nodes: Sequence[Bundle], strategy: str = "PACK") -> int:
    """Return how many trials fit the nodes at once."""
    free: Sequence[Bundle] | None = nodes
    for number in range(MANY):
        assert free is not None
        free = place(bundles, free, strategy)
        if free is None:
            return number
    return MANY


def place(bundles: Sequence[Bundle], nodes: Sequence[Bundle], strategy: str) -> list[Bundle] | None:
    """Put each bundle on the first node with room (largest bundles first).

    Returns:
        What is left of each node, or None when a bundle finds no room.
    """
    free = [dict(node) for node in nodes]
    if strategy == "STRICT_PACK":
        bundles = [_total(bundles)]
    taken: set[int] = set()
    for bundle in sorted(bundles, key=lambda each: (each.get("GPU", 0.0), each.get("CPU", 0.0)), reverse=True):
        fitting = [index for index, node in enumerate(free) if index not in taken and _fits(bundle, node)]
        if not fitting:
            return None
        for name, amount in bundle.items():
            free[fitting[0]][name] = free[fitting[0]].get(name, 0.0) - amount
        if strategy == "STRICT_SPREAD":
            taken.add(fitting[0])
    return free


def _fits(bundle: Bundle, node: Bundle) -> bool:
    return all(node.get(name, 0.0) + TOLERANCE >= amount for name, amount in bundle.items())


def _total(bundles: Sequence[Bundle]) -> Bundle:
    names = dict.fromkeys(name for bundle in bundles for name in bundle)
    return {name: sum(bundle.get(name, 0.0) for bundle in bundles) for name in names}


def _largest(nodes: Sequence[Bundle]) -> Bundle:
    return max(nodes, key=lambda node: (node.get("GPU", 0.0), node.get("CPU", 0.0)))


def _amounts(amounts: Bundle, kinds: Sequence[str]) -> str:
    counted = [(kind, amounts.get(kind, 0.0)) for kind in kinds]
    return " and ".join(f"{amount:g} {kind}{'s' if amount != 1 else ''}" for kind, amount in counted)


def _cure(kinds: Sequence[str], num_bundles: int) -> str:
    if list(kinds) == ["GPU"]:
        return "resources.num_gpus"
    keys = ["resources.num_workers", "resources.num_cpus_per_worker"] if num_bundles > 1 else []
    return " or ".join([*keys, "resources.num_cpus_for_driver"])
