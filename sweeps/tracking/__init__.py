"""MLflow tracking of sweeps and single trainings: all calls to MLflow are made in one background thread."""

from sweeps.tracking.start import open_tracker
from sweeps.tracking.store import check_store, prepare, redact, resolve_uri
from sweeps.tracking.tracker import SweepTracker

__all__ = ["SweepTracker", "check_store", "open_tracker", "prepare", "redact", "resolve_uri"]
