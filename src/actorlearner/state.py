"""What of a running algorithm goes into a checkpoint, and the checks before any of it is taken back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from actorlearner.checkpoint import Checkpoint
from actorlearner.exceptions import CheckpointError
from actorlearner.metrics import Counters

if TYPE_CHECKING:
    from actorlearner.algorithm import Algorithm


class AlgorithmState(NamedTuple):
    """A checkpoint's content, checked against the algorithm that will take it."""

    learner: dict[str, Any]
    counters: Counters
    episodes: dict[str, Any]
    iteration: int
    seconds: float
    random_states: dict[str, Tensor]

    def apply(self, algorithm: Algorithm) -> None:
        """Set everything but the random states; nothing in here fails."""
        algorithm.learner.load_state_dict(self.learner)
        algorithm.counters = self.counters
        algorithm.episodes.load_state(**self.episodes)
        algorithm.set_progress(self.iteration, self.seconds)

    def apply_random_states(self, algorithm: Algorithm) -> None:
        """Set the generators, once the samplers that own some of them have been started."""
        for name, generator in algorithm.generators().items():
            if name in self.random_states:
                generator.set_state(self.random_states[name])


def pack_state(algorithm: Algorithm) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return an algorithm's tensors by name and its plain data; the learner must be paused."""
    learner = algorithm.learner.state_dict()
    tensors = {f"model.{name}": tensor for name, tensor in learner["model"].items()}
    for index, entries in learner["optimizer"]["state"].items():
        for name, value in entries.items():
            tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value)
    for name, generator in algorithm.generators().items():
        tensors[f"random.{name}"] = generator.get_state()
    iteration, seconds = algorithm.progress()
    state = {
        "algorithm": algorithm.settings.algorithm.name,
        "optimizer": type(algorithm.learner.optimizer).__name__,
        "settings": algorithm.settings.to_dict(),
        "version": learner["version"],
        "counters": dataclasses.asdict(algorithm.counters),
        "episodes": algorithm.episodes.state(),
        "iteration": iteration,
        "seconds": seconds,
    }
    return tensors, state


def unpack_state(algorithm: Algorithm, checkpoint: Checkpoint) -> AlgorithmState:
    """Check a checkpoint against an algorithm, which stays as it is.

    Raises:
        CheckpointError: it belongs to another algorithm, network or optimizer, or lacks something.
    """
    state = checkpoint.state
    try:
        _require("algorithm.name", state["algorithm"], algorithm.settings.algorithm.name)
        _require("optimizer", state["optimizer"], type(algorithm.learner.optimizer).__name__)
        counters = Counters(**state["counters"])
        # What was sampled and never trained on is not in a checkpoint: it counts as dropped from here on.
        counters.num_env_steps_dropped = counters.num_env_steps_sampled - counters.num_env_steps_trained
        return AlgorithmState(
            learner={
                "model": _model_state(algorithm, checkpoint.tensors),
                "optimizer": _optimizer_state(algorithm, checkpoint.tensors),
                "version": int(state["version"]),
            },
            counters=counters,
            episodes={"total": int(state["episodes"]["total"]), "episodes": list(state["episodes"]["episodes"])},
            iteration=int(state["iteration"]),
            seconds=float(state["seconds"]),
            random_states=_part("random.", checkpoint.tensors),
        )
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"The checkpoint lacks or does not know {error}: it is of another release.") from error


def _require(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise CheckpointError(
            f"The checkpoint's {what} is {found!r}, and this configuration has {wanted!r}: restore it with the "
            "configuration that made it."
        )


def _part(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _model_state(algorithm: Algorithm, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    found = _part("model.", tensors)
    own = algorithm.learner.model.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    if shapes != {name: tuple(tensor.shape) for name, tensor in own.items()}:
        raise CheckpointError(
            f"The checkpoint's network does not fit environment.id={algorithm.settings.environment.id} and the "
            "configured model: restore it with the environment and model section that made it."
        )
    return found


def _optimizer_state(algorithm: Algorithm, tensors: dict[str, Tensor]) -> dict[str, Any]:
    entries: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _part("optimizer.", tensors).items():
        index, _, key = name.partition(".")
        entries.setdefault(int(index), {})[key] = tensor
    parameters = [parameter for group in algorithm.learner.optimizer.param_groups for parameter in group["params"]]
    fitting = all(
        0 <= index < len(parameters)
        and all(value.ndim == 0 or value.shape == parameters[index].shape for value in own.values())
        for index, own in entries.items()
    )
    if not fitting:
        raise CheckpointError("The checkpoint's optimizer state does not fit the network: the checkpoint is corrupted.")
    # Hyperparameters always come from the configuration; only the moments are restored.
    return {"state": entries, "param_groups": algorithm.learner.optimizer.state_dict()["param_groups"]}
