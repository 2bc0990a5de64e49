"""Action distributions over a network's outputs, float32 throughout."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor


class Categorical:
    """One choice among A actions, given by unnormalised log-probabilities.

    Unlike ``torch.distributions.Categorical`` it samples with a generator of its own and checks no arguments on the
    hot path.

    Args:
        logits: [..., A] float32; an entry of minus infinity forbids that action.

    Raises:
        ValueError: logits are no float32 tensor with at least one dimension: lower precision would bias the ratio
            between the sampler's and the learner's log-probabilities.
    """

    def __init__(self, logits: Tensor) -> None:
        if logits.dtype != torch.float32 or logits.ndim < 1:
            raise ValueError(
                f"Categorical: logits must be a float32 tensor [..., A], got {logits.dtype} {list(logits.shape)}; "
                "call .float() on them first."
            )
        self.logits = logits

    @cached_property
    def log_probs(self) -> Tensor:
        """[..., A] float32, normalised log-probabilities of all actions."""
        return torch.log_softmax(self.logits, dim=-1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw actions.

        Args:
            generator: source of randomness on the logits' device; None takes torch's global one.

        Returns:
            [...] int64. The same generator state gives the same actions.
        """
        # Gumbel-max: minus the logarithm of an exponential variable is a Gumbel variable, and the largest of
        # logit + Gumbel falls on an action with exactly its softmax probability; no normalising, no cumulative sum.
        noise = torch.empty_like(self.logits).exponential_(generator=generator).log_()
        return (self.logits.detach() - noise).argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return [...] float32, the log-probabilities of ``actions`` ([...] int64)."""
        return self.log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return [...] float32, in nats."""
        # A forbidden action contributes 0, not 0 times minus infinity.
        log_probs = self.log_probs.clamp(min=torch.finfo(torch.float32).min)
        return -(log_probs.exp() * log_probs).sum(dim=-1)

    def mode(self) -> Tensor:
        """Return [...] int64, the most probable actions."""
        return self.logits.argmax(dim=-1)
