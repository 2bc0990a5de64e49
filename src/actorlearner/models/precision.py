"""Which arithmetic the layers use, by the hardware at hand."""

from __future__ import annotations

from functools import cache

import torch

from actorlearner.exceptions import ConfigError
from actorlearner.settings import Precision


def resolve_precision(precision: Precision, is_convolutional: bool, device: torch.device) -> torch.dtype:
    """Return the dtype of the layers' arithmetic.

    ``auto`` takes bfloat16 for convolutional networks where the device multiplies it natively, and float32 for
    everything else: small dense layers lose more by casting than they gain.

    Args:
        precision: what was asked for.
        is_convolutional: whether most of the network's work is convolutions.
        device: where it runs.

    Returns:
        ``torch.float32`` or ``torch.bfloat16``.

    Raises:
        ConfigError: bfloat16 was asked for and the device has no instructions for it.
    """
    if precision is Precision.float32 or (precision is Precision.auto and not is_convolutional):
        return torch.float32
    if has_bfloat16(device.type, device.index):
        return torch.bfloat16
    if precision is Precision.bfloat16:
        raise ConfigError(
            f"resources.precision=bfloat16 needs hardware that multiplies it (AVX512-BF16 or AMX on a CPU, or a GPU "
            f"with bfloat16), and device {str(device)!r} has none; set resources.precision=auto.",
            key="resources.precision",
            value="bfloat16",
        )
    return torch.float32


@cache
def has_bfloat16(device_type: str, device_index: int | None = None) -> bool:
    """Say whether a device multiplies bfloat16 natively; what it only emulates counts as no.

    Args:
        device_type: torch's name, such as ``cpu`` or ``cuda``.
        device_index: number of the device; None is the current one.
    """
    if device_type == "cuda":
        return bool(torch.cuda.is_available()) and torch.cuda.get_device_capability(device_index) >= (8, 0)
    if device_type != "cpu":
        return False
    # torch asks the processor itself; the names are private and absent from builds for ARM and macOS of some
    # releases, where float32 is the safe answer.
    questions = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, question, _no)()) for question in questions)


def _no() -> bool:
    return False
