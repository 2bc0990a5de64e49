"""Send everything that libraries log to the sweep's log file, and nothing of it to the terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# These install stream handlers of their own, which would write into the live display.
_NOISY = ("ray", "ray.tune", "ray.train", "ray.data", "optuna", "mlflow", "alembic", "sweeps", "actorlearner")


@contextmanager
def log_to_file(path: Path, level: int = logging.INFO) -> Iterator[None]:
    """Log to ``path`` while the context lasts; Python's warnings go there, too."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    kept_root = root.handlers[:], root.level
    root.handlers, root.level = [handler], level
    kept = {name: (logging.getLogger(name).handlers[:], logging.getLogger(name).propagate) for name in _NOISY}
    for name in _NOISY:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        for name, (handlers, propagate) in kept.items():
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = handlers, propagate
        root.handlers, root.level = kept_root[0], kept_root[1]
        handler.close()
