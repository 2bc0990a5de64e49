"""Joins fragments, oldest first, into batches for the learner, and counts every env step it holds or drops."""

from __future__ import annotations

from collections import deque

import numpy as np

from actorlearner.types import Batch, Fragment


class Batcher:
    """First in, first out: a batch takes the oldest fragments until they hold ``train_batch_size`` rows.

    Rows are counted as they were stepped, T * B for each fragment, so that batches have the same size whether or not
    some rows are reset steps or are dropped here. Everything else counts true env steps.

    Args:
        train_batch_size: fewest rows in one batch.
        drop_last_step: drop each fragment's last row, so that its observation serves as the bootstrap
            (spec I1, ``vtrace_drop_last_ts``). Needs fragments of at least two steps.

    Attributes:
        env_steps_dropped: env steps of the dropped rows since the start; they are never trained on.
    """

    def __init__(self, train_batch_size: int, *, drop_last_step: bool) -> None:
        self._train_batch_size = train_batch_size
        self._drop_last_step = drop_last_step
        self._waiting: deque[tuple[Fragment, int]] = deque()  # with the fragment's rows
        self._rows_waiting = 0
        self.env_steps_waiting = 0
        self.env_steps_dropped = 0

    def add(self, fragment: Fragment) -> None:
        """Queue one fragment."""
        rows, as_sampled = fragment.rewards.size, fragment.env_steps
        if self._drop_last_step:
            fragment = _without_last_step(fragment)
        kept = fragment.env_steps
        self._waiting.append((fragment, rows))
        self._rows_waiting += rows
        self.env_steps_waiting += kept
        self.env_steps_dropped += as_sampled - kept

    @property
    def ready(self) -> bool:
        """Whether ``pop`` has a batch to give."""
        return self._rows_waiting >= self._train_batch_size

    def pop(self) -> Batch | None:
        """Return the next batch, or None while too few rows wait."""
        if not self.ready:
            return None
        fragments: list[Fragment] = []
        rows = 0
        while rows < self._train_batch_size:
            fragment, count = self._waiting.popleft()
            fragments.append(fragment)
            rows += count
        batch = join(fragments)
        self._rows_waiting -= rows
        self.env_steps_waiting -= batch.env_steps
        return batch


def join(fragments: list[Fragment]) -> Batch:
    """Join fragments of equal T along B; a single fragment's arrays are passed on without a copy.

    Raises:
        ValueError: the fragments differ in their number of time steps.
    """
    first = fragments[0]
    lengths = {len(fragment.rewards) for fragment in fragments}
    if len(lengths) > 1:
        raise ValueError(f"Fragments of one batch must have equally many time steps, got {sorted(lengths)}.")
    offsets = np.cumsum([0] + [fragment.rewards.shape[1] for fragment in fragments[:-1]])
    single = len(fragments) == 1

    def joined(name: str, axis: int) -> np.ndarray:
        arrays = [getattr(fragment, name) for fragment in fragments]
        return arrays[0] if single else np.concatenate(arrays, axis=axis)

    shifts = np.stack([np.zeros_like(offsets), offsets], axis=1)
    shifted = [fragment.final_index + shift for fragment, shift in zip(fragments, shifts, strict=True)]
    return Batch(
        observations=joined("observations", 1),
        actions=joined("actions", 1),
        behaviour_log_probs=joined("behaviour_log_probs", 1),
        rewards=joined("rewards", 1),
        terminated=joined("terminated", 1),
        truncated=joined("truncated", 1),
        valid=joined("valid", 1),
        final_index=first.final_index if single else np.concatenate(shifted),
        final_observations=joined("final_observations", 0),
        env_steps=sum(fragment.env_steps for fragment in fragments),
        behaviour_version=float(np.mean([fragment.weights_version for fragment in fragments])),
    )


def _without_last_step(fragment: Fragment) -> Fragment:
    steps = len(fragment.rewards) - 1
    kept = fragment.final_index[:, 0] < steps
    return Fragment(
        observations=fragment.observations[: steps + 1],
        actions=fragment.actions[:steps],
        behaviour_log_probs=fragment.behaviour_log_probs[:steps],
        rewards=fragment.rewards[:steps],
        terminated=fragment.terminated[:steps],
        truncated=fragment.truncated[:steps],
        valid=fragment.valid[:steps],
        final_index=fragment.final_index[kept],
        final_observations=fragment.final_observations[kept],
        episodes=fragment.episodes,
        weights_version=fragment.weights_version,
        worker_index=fragment.worker_index,
    )
