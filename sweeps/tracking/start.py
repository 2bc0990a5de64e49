"""From the ``tracking`` section to a tracker, or to none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweeps.tracking.tracker import SweepTracker

if TYPE_CHECKING:
    from sweeps.schema import SweepConfig


def open_tracker(config: SweepConfig) -> SweepTracker | None:
    """Return a tracker that is connecting in the background; None where tracking is switched off."""
    if not config.tracking.enabled:
        return None
    assert config.tracking.uri is not None
    return SweepTracker(config.tracking.uri, config.tracking.experiment, mode=config.sweep.objective.mode.value)
