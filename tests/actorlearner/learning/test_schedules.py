"""Piecewise linear schedules."""

import pytest

from actorlearner.learning.schedules import PiecewiseLinear


def test_is_linear_between_points_and_constant_after_the_last() -> None:
    schedule = PiecewiseLinear([[0, 1.0], [100, 0.5], [200, 0.5], [300, 0.0]])
    values = [schedule.value(step) for step in (0, 50, 100, 150, 250, 300, 10_000)]
    assert values == pytest.approx([1.0, 0.75, 0.5, 0.5, 0.25, 0.0, 0.0])


def test_the_constant_holds_where_no_schedule_is_given() -> None:
    assert PiecewiseLinear.from_setting(0.3, None).value(123) == 0.3
    assert PiecewiseLinear.from_setting(0.3, [[0, 1.0]]).value(123) == 1.0
