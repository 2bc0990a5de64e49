"""The Algorithm in its local modes: determinism, reset, counts, failures, checkpoints, Tune's interface."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actorlearner.algorithm import Algorithm
from actorlearner.algorithms.impala.algorithm import Impala
from actorlearner.exceptions import CheckpointError, ConfigError
from actorlearner.types import Batch, LearnerResult

CLOCK = "clock_environments:Clock-v0"
# What differs between two runs of the same seed.
UNSTABLE = {"env_steps_per_second", "timers", "config"}


def config(
    cpus: float = 1, environment: Any = None, seed: int = 0, num_envs: int = 4, **algorithm: Any
) -> dict[str, Any]:
    return {
        "algorithm": {"rollout_fragment_length": 8, "train_batch_size": 32, "lr": 0.01, **algorithm},
        "environment": environment or {"id": "CartPole-v1"},
        "model": {"hidden_sizes": [16]},
        "resources": {"num_workers": 0, "num_envs_per_worker": num_envs, "num_cpus_for_driver": cpus},
        "debugging": {"seed": seed},
    }


@pytest.fixture
def make() -> Iterator[Callable[..., Impala]]:
    made: list[Impala] = []

    def build(**options: Any) -> Impala:
        made.append(Impala(config=config(**options)))
        return made[-1]

    yield build
    for algorithm in made:
        algorithm.cleanup()


def curve(algorithm: Algorithm, iterations: int = 6) -> list[str]:
    """Return everything that results say, bit for bit."""
    return [
        repr({name: value for name, value in algorithm.step().items() if name not in UNSTABLE})
        for _ in range(iterations)
    ]


def weights(algorithm: Algorithm) -> dict[str, np.ndarray]:
    return dict(algorithm.learner.get_weights().arrays)


def assert_same_weights(first: Algorithm, second: Algorithm) -> None:
    for name, array in weights(first).items():
        np.testing.assert_array_equal(array, weights(second)[name])


def balance(counters: dict[str, Any]) -> int:
    parts = ("trained", "queued", "waiting", "dropped")
    return int(sum(counters[f"num_env_steps_{part}"] for part in parts))


def test_the_same_seed_gives_the_same_curve_bit_for_bit(make: Callable[..., Impala]) -> None:  # fault F23
    first, second, other = make(seed=1), make(seed=1), make(seed=2)
    assert curve(first) == curve(second) != curve(other)
    assert_same_weights(first, second)


def test_a_reset_trial_is_a_fresh_one(make: Callable[..., Impala]) -> None:
    fresh = curve(make(seed=5, gamma=0.9), 4)
    reused = make(seed=1, gamma=0.99)
    curve(reused)
    assert reused.reset_config(config(seed=5, gamma=0.9)) is True
    assert curve(reused, 4) == fresh


def test_a_reset_rebuilds_what_changed(make: Callable[..., Impala]) -> None:
    changed: dict[str, Any] = {
        "environment": {"id": CLOCK, "env_config": {"length": 9}},
        "num_envs": 6,
        "opt_type": "rmsprop",
        "num_sgd_iter": 2,
    }
    fresh = curve(make(**changed), 4)
    reused = make()
    curve(reused)
    assert reused.reset_config(config(**changed)) is True
    assert curve(reused, 4) == fresh


def test_a_reset_to_a_wrong_configuration_raises(make: Callable[..., Impala]) -> None:
    algorithm = make(cpus=2)
    with pytest.raises(ConfigError, match=r"algorithm\.gamma"):
        algorithm.reset_config(config(gamma=2.0))


@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("drop", [True, False])
def test_every_sampled_step_is_accounted_for(
    make: Callable[..., Impala], cpus: int, drop: bool
) -> None:  # spec I5, F12
    algorithm = make(cpus=cpus, vtrace_drop_last_ts=drop, num_sgd_iter=2, train_batch_size=50)
    for _ in range(20):
        result = algorithm.step()
        assert balance(result["counters"]) == result["num_env_steps_sampled"]
        # Reset rows are no env steps.
        assert result["num_env_steps_sampled"] <= 32 * algorithm.counters.num_training_steps
    assert (result["counters"]["num_env_steps_dropped"] > 0) == drop
    assert result["num_env_steps_trained"] > 0


def test_an_iteration_lasts_until_its_minimums_hold(make: Callable[..., Impala]) -> None:  # spec A19
    result = make(min_sample_timesteps_per_iteration=200).step()
    assert result["num_env_steps_sampled_this_iter"] >= 200
    result = make(cpus=2, min_train_timesteps_per_iteration=200).step()
    assert result["num_env_steps_trained_this_iter"] >= 200
    started = time.monotonic()
    make(min_time_s_per_iteration=0.2).step()
    assert time.monotonic() - started >= 0.2


def test_results_are_plain_and_nan_before_the_first_episode(make: Callable[..., Impala]) -> None:  # fault F27, A20
    result = make(environment={"id": CLOCK, "env_config": {"length": 1000}}).step()
    assert math.isnan(result["episode_return_mean"])
    assert result["timesteps_total"] == result["num_env_steps_sampled"] == 32
    assert result["num_healthy_workers"] == 1

    def check(value: Any) -> None:
        if isinstance(value, dict):
            for entry in value.values():
                check(entry)
        else:
            assert type(value) in (int, float, str)

    check(result)
    statistics = result["info"]["learner"]["default_policy"]
    assert math.isnan(make(train_batch_size=64).step()["info"]["learner"]["default_policy"]["entropy"])
    assert statistics["entropy"] > 0
    assert statistics["policy_lag"] == 0


def test_returns_are_reported_unclipped(make: Callable[..., Impala]) -> None:  # fault F25
    environment = {"id": CLOCK, "env_config": {"length": 4, "pays_every_step": True}, "reward_clipping": "tanh"}
    assert make(environment=environment).step()["episode_return_mean"] == 4.0


def test_overlapped_sampling_stays_close_to_the_learner(make: Callable[..., Impala]) -> None:
    algorithm = make(cpus=2)
    lags = [algorithm.step()["info"]["learner"]["default_policy"]["policy_lag"] for _ in range(30)]
    # One batch in the queue, one being learned on, one just sampled.
    assert max(lag for lag in lags if not math.isnan(lag)) <= 3


def fails(batch: Batch, env_steps_sampled: int) -> LearnerResult:
    raise ZeroDivisionError("the loss broke")


def train_often(algorithm: Impala) -> None:
    for _ in range(1000):
        algorithm.train()


@pytest.mark.parametrize("cpus", [1, 2])
def test_the_learners_error_is_raised_in_train(make: Callable[..., Impala], cpus: int) -> None:  # faults F2, F3
    algorithm = make(cpus=cpus)
    algorithm.step()
    algorithm.learner.update = fails  # type: ignore[method-assign]
    started = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="the loss broke"):
        train_often(algorithm)
    assert time.monotonic() - started < 5


def test_a_slow_learner_costs_the_driver_no_cpu_and_stops_sampling(make: Callable[..., Impala]) -> None:  # F6, F8
    algorithm = make(cpus=2)
    update = algorithm.learner.update
    may_go_on = threading.Event()

    def waits(batch: Batch, env_steps_sampled: int) -> LearnerResult:
        may_go_on.wait()
        return update(batch, env_steps_sampled)

    algorithm.learner.update = waits  # type: ignore[method-assign]
    for _ in range(4):
        algorithm.training_step()
    sampled = algorithm.counters.num_env_steps_sampled
    used, started = time.process_time(), time.monotonic()
    algorithm.training_step()
    algorithm.training_step()
    assert time.monotonic() - started > 0.5
    assert time.process_time() - used < 0.2
    assert algorithm.counters.num_env_steps_sampled == sampled <= 3 * 32
    assert algorithm.counters.num_times_learner_queue_full >= 2
    may_go_on.set()
    algorithm.step()


def test_cleanup_ends_the_learner_thread(make: Callable[..., Impala]) -> None:  # fault F5
    algorithm = make(cpus=2)
    algorithm.step()
    assert any(thread.name == "learner" for thread in threading.enumerate())
    algorithm.stop()
    assert not any(thread.name == "learner" for thread in threading.enumerate())


def test_a_failing_set_up_stops_what_was_started() -> None:
    class Breaks(Impala):
        def build(self) -> None:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        Breaks(config=config(cpus=2))
    assert not any(thread.name == "learner" for thread in threading.enumerate())


def test_training_iteration_is_refused_as_a_name() -> None:  # spec A1
    with pytest.raises(TypeError, match="name the method training_step"):

        class Mine(Impala):
            def training_iteration(self) -> None: ...


def test_training_step_can_be_overridden(make: Callable[..., Impala]) -> None:  # spec A1
    class Twice(Impala):
        def training_step(self) -> None:
            super().training_step()
            super().training_step()

    algorithm = Twice(config=config())
    assert algorithm.step()["num_env_steps_sampled"] > make().step()["num_env_steps_sampled"]
    algorithm.cleanup()


def test_stand_alone_use_leaves_no_folder_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    algorithm = Impala(config=config())
    assert algorithm.train()["training_iteration"] == 1
    algorithm.stop()
    assert list(tmp_path.iterdir()) == []


def test_actions_for_people(make: Callable[..., Impala]) -> None:  # spec A10
    algorithm = make()
    observation = np.zeros(4)
    actions = {algorithm.compute_single_action(observation) for _ in range(20)}
    assert len(actions) == 1
    assert {algorithm.compute_single_action(observation, explore=True) for _ in range(100)} == {0, 1}


def test_resources_are_asked_for_by_bundle() -> None:  # spec A16
    request = Impala.default_resource_request(config(cpus=2))
    assert request.bundles == [{"CPU": 2}]
    remote = config()
    remote["resources"] = {"num_workers": 2, "num_cpus_per_worker": 0.5, "num_cpus_for_driver": 1}
    assert Impala.default_resource_request(remote).bundles == [{"CPU": 1}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert "resources.num_workers" in Impala.resource_help(config())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused() -> None:  # spec A17
    wanted = config()
    wanted["resources"]["num_gpus"] = 1
    with pytest.raises(ConfigError, match=r"resources\.num_gpus=1 asks for a GPU"):
        Impala(config=wanted)


def test_an_unknown_log_level_is_refused() -> None:  # spec A24
    with pytest.raises(ConfigError, match=r"debugging\.log_level must be one of DEBUG"):
        Impala(config={**config(), "debugging": {"log_level": "LOUD"}})


@pytest.mark.parametrize("cpus", [1, 2])
def test_restoring_goes_on_where_the_checkpoint_was(
    make: Callable[..., Impala], tmp_path: Path, cpus: int
) -> None:  # spec A15, fault F14
    first = make(cpus=cpus, lr_schedule=[[0, 0.01], [1000, 0.0]], min_train_timesteps_per_iteration=100)
    for _ in range(3):
        first.train()
    first.save(str(tmp_path))
    second = make(cpus=cpus, seed=9, lr_schedule=[[0, 0.01], [1000, 0.0]], min_train_timesteps_per_iteration=100)
    second.restore(str(tmp_path))
    before = second.counters
    assert before.num_env_steps_sampled == first.counters.num_env_steps_sampled
    assert before.num_env_steps_trained >= 300
    assert before.num_env_steps_sampled == before.num_env_steps_trained + before.num_env_steps_dropped
    assert second.learner.version >= 3
    result = second.train()
    assert result["training_iteration"] == 4
    assert balance(result["counters"]) == result["num_env_steps_sampled"] > before.num_env_steps_trained
    assert result["info"]["learner"]["default_policy"]["learning_rate"] < 0.0075
    assert result["episodes_total"] >= first.episodes.total


def test_two_restored_runs_are_equal_bit_for_bit(make: Callable[..., Impala], tmp_path: Path) -> None:  # fault F14
    first = make()
    curve(first)
    first.save(str(tmp_path))
    second, third = make(), make(seed=7)
    curve(third)  # a used one is as good as a fresh one
    third.reset_config(config())
    curve(third, 2)
    for algorithm in (second, third):
        algorithm.restore(str(tmp_path))
    assert_same_weights(first, second)
    assert curve(second) == curve(third)
    assert_same_weights(second, third)


def test_a_changed_learning_rate_survives_a_restore(make: Callable[..., Impala], tmp_path: Path) -> None:  # fault F15
    first = make(lr=0.01)
    first.step()
    first.save(str(tmp_path))
    second = make(lr=0.5)
    second.restore(str(tmp_path))
    assert second.step()["info"]["learner"]["default_policy"]["learning_rate"] == 0.5
    assert [group["lr"] for group in second.learner.optimizer.param_groups] == [0.5]


def test_a_checkpoint_of_another_network_or_optimizer_changes_nothing(
    make: Callable[..., Impala], tmp_path: Path
) -> None:
    make(environment={"id": CLOCK}).save(str(tmp_path / "clock"))
    make(opt_type="rmsprop").save(str(tmp_path / "rmsprop"))
    algorithm = make()
    algorithm.step()
    before, counters = weights(algorithm), algorithm.counters
    with pytest.raises(CheckpointError, match="network does not fit"):
        algorithm.restore(str(tmp_path / "clock"))
    with pytest.raises(CheckpointError, match="optimizer is 'RMSprop', and this configuration has 'Adam'"):
        algorithm.restore(str(tmp_path / "rmsprop"))
    assert algorithm.counters is counters
    for name, array in weights(algorithm).items():
        np.testing.assert_array_equal(array, before[name])
    algorithm.step()


def test_a_pickle_in_the_checkpoint_directory_is_not_opened(make: Callable[..., Impala], tmp_path: Path) -> None:
    algorithm = make()
    algorithm.save(str(tmp_path))
    (tmp_path / "_dict_checkpoint.pkl").write_bytes(b"cos\nsystem\n(S'touch exploded'\ntR.")
    with pytest.raises(CheckpointError, match=r"holds the pickle _dict_checkpoint\.pkl"):
        algorithm.restore(str(tmp_path))


def test_saving_while_the_learner_works_is_consistent(make: Callable[..., Impala], tmp_path: Path) -> None:
    algorithm = make(cpus=2)
    for number in range(10):
        algorithm.step()
        algorithm.save(str(tmp_path / str(number)))
        other = make()
        other.restore(str(tmp_path / str(number)))
        assert other.learner.version == other.counters.num_learner_updates


@pytest.mark.parametrize(("configured", "used"), [(0.0, 0.5), (0.05, 0.05), (2.0, 2.0)])
def test_one_poll_waits_as_long_as_configured(
    make: Callable[..., Impala], monkeypatch: pytest.MonkeyPatch, configured: float, used: float
) -> None:
    algorithm = make(timeout_s_sampler_manager=configured)
    collect, timeouts = algorithm._source.collect, []

    def recording(timeout: float) -> Any:
        timeouts.append(timeout)
        return collect(timeout)

    monkeypatch.setattr(algorithm._source, "collect", recording)
    algorithm.training_step()
    assert timeouts == [used]
