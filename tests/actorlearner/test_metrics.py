"""Episode window, timers and statistics of one result."""

import math

from actorlearner.metrics import EpisodeWindow, Timers, mean_statistics
from actorlearner.types import EpisodeStats, LearnerResult


def episodes(*returns: float) -> list[EpisodeStats]:
    return [EpisodeStats(value, int(value)) for value in returns]


def test_means_are_nan_before_the_first_episode() -> None:  # spec A20, fault F27
    summary = EpisodeWindow(3).summarise()
    for name in ("episode_return_mean", "episode_return_min", "episode_return_max", "episode_len_mean"):
        assert math.isnan(summary[name])
    assert (summary["episodes_this_iter"], summary["episodes_total"]) == (0, 0)


def test_older_episodes_fill_up_the_window() -> None:  # spec A20, fault F28
    window = EpisodeWindow(3)
    window.add(episodes(10, 20, 30))
    window.summarise()
    window.add(episodes(60))
    summary = window.summarise()
    assert summary["episode_return_mean"] == (20 + 30 + 60) / 3
    assert (summary["episodes_this_iter"], summary["episodes_total"]) == (1, 4)


def test_more_episodes_than_the_window_are_all_used() -> None:  # spec A20, fault F28
    window = EpisodeWindow(3)
    window.add(episodes(1000))
    window.summarise()
    window.add(episodes(1, 2, 3, 4, 5))
    summary = window.summarise()
    assert summary["episode_return_mean"] == 3
    assert (summary["episode_return_min"], summary["episode_return_max"]) == (1, 5)
    # The old policy's episode is out for good, and only the newest three fill the next window.
    assert window.summarise()["episode_return_mean"] == 4


def test_state_restores_the_window() -> None:
    window = EpisodeWindow(3)
    window.add(episodes(1, 2, 3, 4))
    window.summarise()
    other = EpisodeWindow(3)
    other.load_state(**window.state())
    assert other.summarise() == window.summarise()


def test_timers_report_the_mean_since_the_last_summary() -> None:
    timers = Timers()
    timers.add("sample", 0.001)
    timers.add("sample", 0.003)
    assert timers.summarise() == {"sample_ms": 2.0}
    assert timers.summarise() == {}


def test_statistics_are_means_except_for_scheduled_values() -> None:
    def result(loss: float, rate: float) -> LearnerResult:
        return LearnerResult(env_steps=1, statistics={"total_loss": loss, "learning_rate": rate}, version=1)

    assert mean_statistics([result(1.0, 0.2), result(3.0, 0.1)], {}) == {"total_loss": 2.0, "learning_rate": 0.1}
    assert mean_statistics([], {"total_loss": 5.0}) == {"total_loss": 5.0}


def test_one_undefined_statistic_does_not_hide_the_others() -> None:
    def result(variance: float) -> LearnerResult:
        return LearnerResult(env_steps=1, statistics={"explained_variance": variance}, version=1)

    values = [0.25, math.nan, 0.75, -math.inf]
    assert mean_statistics([result(value) for value in values], {}) == {"explained_variance": 0.5}
    assert math.isnan(mean_statistics([result(math.nan)], {})["explained_variance"])
