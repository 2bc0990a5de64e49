import io

from rich.console import Console

from sweeps.progress import Progress, describe, duration, number, sparkline, values
from sweeps.records import SweepRecords, TrialStatus


def make_progress(*, terminal: bool) -> tuple[Progress, SweepRecords, io.StringIO]:
    records = SweepRecords("episode_return_mean", True, budget=100, num_trials=4)
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None, _environ={})
    return Progress(records, console), records, out


def test_sparkline_spans_lowest_to_highest():
    assert sparkline([0, 1, 2, 3]) == "▁▃▆█"
    assert sparkline([5, 5]) == "▁▁"
    assert sparkline([]) == ""


def test_sparkline_keeps_first_and_last_when_it_thins_out():
    line = sparkline(list(range(1000)), width=10)
    assert len(line) == 10
    assert (line[0], line[-1]) == ("▁", "█")


def test_durations_read_like_people_say_them():
    assert [duration(seconds) for seconds in (41.6, 187, 7500)] == ["42 s", "3:07 min", "2:05:00 h"]


def test_numbers_have_four_digits_and_nan_is_a_dash():
    assert [number(value) for value in (0.123456, 487.25, 12345.6, float("nan"))] == [
        "0.1235",
        "487.2",
        "12,345.6",
        "-",
    ]


def test_values_are_named_by_their_last_part():
    assert values({"algorithm.lr": 0.00123456, "model.type": "mlp"}) == "lr=0.001235 type=mlp"


def test_without_a_terminal_each_finished_trial_is_one_line():
    progress, records, out = make_progress(terminal=False)
    records.start(0, "a", {"algorithm.lr": 0.1}, {})
    records.result("a", {"num_env_steps_sampled": 100, "episode_return_mean": 9.0, "env_steps_per_second": 5000})
    progress.result("a")
    records.finish("a", TrialStatus.completed)
    progress.finished("a")
    first, last = out.getvalue().splitlines()
    assert first.startswith("first result after")
    assert last.startswith("trial 0 completed: episode_return_mean 9 after 100 env steps (5,000/s); 1 of 4 trials done")


def test_the_live_display_shows_the_running_trials_and_the_last_failure():
    progress, records, out = make_progress(terminal=True)
    records.start(0, "a", {"algorithm.lr": 0.1}, {})
    records.result("a", {"num_env_steps_sampled": 50, "episode_return_mean": 9.0, "env_steps_per_second": 5000})
    records.start(1, "b", {"algorithm.lr": 0.2}, {})
    records.finish("b", TrialStatus.failed, "NonFiniteError: the loss became NaN")
    progress.console.print(progress.render())
    text = out.getvalue()
    assert "1 of 4 trials done, best 9 (trial 0)" in text
    assert "50 (50%)" in text
    assert "1 failed; last: trial 1: NonFiniteError: the loss became NaN" in text


def test_the_time_left_follows_from_the_share_that_is_done():
    progress, records, _ = make_progress(terminal=False)
    assert progress.seconds_left() is None
    records.start(0, "a", {}, {})
    records.result("a", {"num_env_steps_sampled": 50, "episode_return_mean": 1.0})
    records._first_start -= 10
    left = progress.seconds_left()
    # An eighth of the work took 10 s.
    assert left is not None
    assert 69 < left < 72


def test_a_failed_trial_says_why():
    _, records, _ = make_progress(terminal=False)
    record = records.start(3, "a", {}, {})
    records.finish("a", TrialStatus.failed, "ValueError: no")
    assert describe(record, "episode_return_mean") == "trial 3 failed: ValueError: no"
