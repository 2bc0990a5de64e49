"""Precision by hardware; the processor's answer is replaced where a test needs the other one."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from actorlearner.exceptions import ConfigError
from actorlearner.models import precision as precision_module
from actorlearner.models.catalog import build_model
from actorlearner.models.precision import has_bfloat16, resolve_precision
from actorlearner.settings import ModelSettings, Precision

CPU = torch.device("cpu")
IMAGE = Box(0, 255, (4, 84, 84), np.uint8)


@pytest.fixture
def hardware(monkeypatch):
    def pretend(supported):
        monkeypatch.setattr(precision_module, "has_bfloat16", lambda *_: supported)

    return pretend


@pytest.mark.parametrize(
    ("asked", "is_convolutional", "supported", "expected"),
    [
        (Precision.auto, True, True, torch.bfloat16),
        (Precision.auto, True, False, torch.float32),
        (Precision.auto, False, True, torch.float32),
        (Precision.float32, True, True, torch.float32),
        (Precision.bfloat16, False, True, torch.bfloat16),
    ],
)
def test_the_table(hardware, asked, is_convolutional, supported, expected):
    hardware(supported)
    assert resolve_precision(asked, is_convolutional, CPU) is expected


def test_bfloat16_without_hardware_is_refused_with_the_cure(hardware):
    hardware(False)
    with pytest.raises(
        ConfigError, match=r"precision=bfloat16 needs hardware.*'cpu' has none; .*precision=auto"
    ) as error:
        resolve_precision(Precision.bfloat16, True, CPU)
    assert error.value.key == "resources.precision"


def test_the_processor_is_asked(monkeypatch):
    has_bfloat16.cache_clear()
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert not has_bfloat16("cpu")  # builds without the question, such as macOS: float32
    has_bfloat16.cache_clear()
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True, raising=False)
    assert has_bfloat16("cpu")
    assert not has_bfloat16("mps")
    has_bfloat16.cache_clear()


@pytest.mark.parametrize("space", [IMAGE, Box(-1, 1, (4,), np.float32)])
def test_bfloat16_layers_give_float32_outputs_close_to_float32s(hardware, space):
    hardware(True)  # torch emulates where the processor cannot
    space.seed(0)
    observations = torch.from_numpy(np.stack([space.sample() for _ in range(3)]))
    outputs = {}
    for precision in (Precision.float32, Precision.bfloat16):
        torch.manual_seed(0)
        model = build_model(space, Discrete(6), ModelSettings(), precision)
        outputs[precision] = model(observations)
        outputs[precision].values.sum().backward()
        assert all(parameter.dtype is torch.float32 for parameter in model.parameters())
    exact, rounded = outputs[Precision.float32], outputs[Precision.bfloat16]
    assert rounded.logits.dtype is rounded.values.dtype is torch.float32
    assert not torch.equal(rounded.values, exact.values)
    torch.testing.assert_close(rounded.values, exact.values, atol=0.05, rtol=0.05)
    torch.testing.assert_close(rounded.logits, exact.logits, atol=0.01, rtol=0.05)
