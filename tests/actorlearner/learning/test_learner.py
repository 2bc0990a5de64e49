"""One learner update: schedules, passes, bootstraps, failures, state."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from fragments import make_batch, make_fragment
from torch import Tensor

from actorlearner.algorithms.impala.algorithm import ConfiguredLoss, make_optimizer
from actorlearner.algorithms.impala.config import ImpalaSettings
from actorlearner.exceptions import NonFiniteError
from actorlearner.learning.batcher import join
from actorlearner.learning.learner import Learner, LearnerOptions, TensorBatch
from actorlearner.learning.schedules import PiecewiseLinear
from actorlearner.models.catalog import build_model
from actorlearner.settings import ModelSettings, OptimizerType, Precision


def make_learner(loss: Any = None, *, seed: int = 0, opt_type: str = "adam", **options: Any) -> Learner:
    torch.manual_seed(seed)
    settings = ImpalaSettings(lr=0.01, opt_type=OptimizerType[opt_type])
    model = build_model(
        gymnasium.spaces.Box(-1, 1, (3,), np.float32),
        gymnasium.spaces.Discrete(2),
        ModelSettings(hidden_sizes=[8]),
        Precision.float32,
    )
    defaults = {"learning_rate": PiecewiseLinear([[0, 0.01]]), "entropy_coeff": PiecewiseLinear([[0, 0.01]])}
    return Learner(
        model,
        make_optimizer(model, settings),
        loss or ConfiguredLoss(settings),
        LearnerOptions(**{**defaults, **options}),
        torch.device("cpu"),
    )


class RecordingLoss:
    def __init__(self) -> None:
        self.calls: list[dict[str, Tensor]] = []

    def __call__(self, batch: TensorBatch, **tensors: Any) -> tuple[Tensor, dict[str, Tensor]]:
        self.calls.append({"rewards": batch.rewards, **tensors})
        return tensors["values"].square().mean() + tensors["logits"].square().mean(), {}


def test_the_learning_rate_follows_sampled_steps() -> None:  # fault F13
    learner = make_learner(
        learning_rate=PiecewiseLinear([[0, 0.1], [100, 0.0]]), entropy_coeff=PiecewiseLinear([[0, 1.0], [100, 0.5]])
    )
    result = learner.update(make_batch(), 50)
    assert learner.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    assert result.statistics["learning_rate"] == pytest.approx(0.05)
    assert result.statistics["entropy_coeff"] == pytest.approx(0.75)


def test_passes_count_env_steps_once() -> None:  # fault F12
    loss = RecordingLoss()
    learner = make_learner(loss, num_passes=3)
    result = learner.update(make_batch(), 0)
    assert (result.env_steps, result.version, len(loss.calls)) == (8, 1, 3)
    # Values and ratios are computed anew in each pass.
    assert not torch.equal(loss.calls[0]["values"], loss.calls[1]["values"])


def test_truncated_steps_bootstrap_from_the_final_observation() -> None:  # spec I2
    loss = RecordingLoss()
    learner = make_learner(loss)
    fragment = make_fragment(truncated=((1, 0),), final=0.5)
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    learner.update(join([fragment]), 0)
    learner.model.load_state_dict(before)
    with torch.no_grad():
        final = learner.model(torch.full((1, 3), 0.5)).values
        successors = learner.model(torch.from_numpy(fragment.observations[1:]).flatten(0, 1)).values.view(4, 2)
    expected = successors.clone()
    expected[1, 0] = final
    torch.testing.assert_close(loss.calls[0]["next_values"], expected)
    assert not torch.isclose(final, successors[1, 0])


def test_policy_lag_counts_updates_since_the_behaviour_weights() -> None:  # spec I2
    learner = make_learner()
    for _ in range(3):
        learner.update(make_batch(version=0), 0)
    assert learner.update(make_batch(version=1), 0).statistics["policy_lag"] == 2


def test_gradients_are_clipped_by_their_global_norm() -> None:
    class Steep(RecordingLoss):
        def __call__(self, batch: TensorBatch, **tensors: Any) -> tuple[Tensor, dict[str, Tensor]]:
            total, statistics = super().__call__(batch, **tensors)
            return 1e4 * total, statistics

    learner = make_learner(Steep(), grad_clip=0.5)
    result = learner.update(make_batch(), 0)
    gradients = [parameter.grad for parameter in learner.model.parameters() if parameter.grad is not None]
    assert result.statistics["gradient_norm"] > 0.5
    assert torch.nn.utils.get_total_norm(gradients).item() == pytest.approx(0.5, rel=1e-4)


def test_non_finite_rewards_and_observations_are_named_and_change_nothing() -> None:  # fault F4
    learner = make_learner()
    before = learner.get_weights()
    with pytest.raises(NonFiniteError, match="batch's rewards hold NaN"):
        learner.update(make_batch(reward=float("nan")), 0)
    batch = make_batch()
    observations = batch.observations.copy()
    observations[1, 0, 0] = np.inf
    with pytest.raises(NonFiniteError, match="batch's observations hold NaN"):
        learner.update(dataclasses.replace(batch, observations=observations), 0)
    for name, array in learner.get_weights().arrays.items():
        np.testing.assert_array_equal(array, before.arrays[name])


def test_a_non_finite_gradient_is_named() -> None:  # fault F4
    class BrokenGradient(RecordingLoss):
        def __call__(self, batch: TensorBatch, **tensors: Any) -> tuple[Tensor, dict[str, Tensor]]:
            zero = (tensors["values"] - tensors["values"]).sum()
            return zero.sqrt(), {}  # the gradient of a root at 0 is infinite

    with pytest.raises(NonFiniteError, match="gradient became NaN or infinite"):
        make_learner(BrokenGradient()).update(make_batch(), 0)


def test_weights_are_a_copy_that_updates_leave_alone() -> None:
    learner = make_learner()
    weights = learner.get_weights()
    kept = {name: array.copy() for name, array in weights.arrays.items()}
    learner.update(make_batch(), 0)
    assert all(np.array_equal(weights.arrays[name], kept[name]) for name in kept)
    assert any(not np.array_equal(array, kept[name]) for name, array in learner.get_weights().arrays.items())


@pytest.mark.parametrize("opt_type", ["adam", "rmsprop"])
def test_state_restores_the_moments_and_keeps_the_new_learning_rate(opt_type: str) -> None:  # faults F14, F15
    first = make_learner(opt_type=opt_type)
    first.update(make_batch(), 0)
    state = first.state_dict()
    same = make_learner(seed=1, opt_type=opt_type)
    other = make_learner(seed=1, opt_type=opt_type, learning_rate=PiecewiseLinear([[0, 0.5]]))
    other.optimizer.param_groups[0]["lr"] = 0.5
    for learner in (same, other):
        learner.load_state_dict(state)
    assert other.optimizer.param_groups[0]["lr"] == 0.5
    first.update(make_batch(seed=2), 0)
    same.update(make_batch(seed=2), 0)
    for name, array in first.get_weights().arrays.items():
        np.testing.assert_array_equal(array, same.get_weights().arrays[name])
    assert same.version == first.version == 2


def test_read_only_arrays_from_the_object_store_are_taken_without_warning() -> None:
    batch = make_batch()
    for array in vars(batch).values():
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_learner().update(batch, 0)
