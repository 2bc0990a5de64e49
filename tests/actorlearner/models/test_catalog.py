"""Every network through the door that the engine uses: shapes, dtypes, initialisation, learning and refusals."""

import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, Tuple

from actorlearner.exceptions import ConfigError
from actorlearner.models import catalog
from actorlearner.models.catalog import build_model
from actorlearner.models.cnn import NatureCnn
from actorlearner.models.mlp import Mlp
from actorlearner.settings import Activation, ModelSettings, ModelType, Precision

VECTOR = Box(-np.inf, np.inf, (3,), np.float32)
MATRIX = Box(-1, 1, (2, 5), np.float32)
IMAGE = Box(0, 255, (4, 84, 84), np.uint8)
COLOUR_LAST = Box(0, 255, (48, 40, 3), np.uint8)
MODELS = [
    pytest.param(VECTOR, ModelSettings(), id="mlp"),
    pytest.param(MATRIX, ModelSettings(hidden_sizes=[8]), id="mlp-matrix"),
    pytest.param(VECTOR, ModelSettings(share_layers=True, activation=Activation.relu), id="mlp-shared"),
    pytest.param(IMAGE, ModelSettings(type=ModelType.mlp, hidden_sizes=[16]), id="mlp-image"),
    pytest.param(IMAGE, ModelSettings(), id="cnn"),
    pytest.param(COLOUR_LAST, ModelSettings(), id="cnn-channels-last"),
]


def observations_of(space, count=5):
    generator = np.random.default_rng(0)
    if space.dtype == np.uint8:
        return torch.from_numpy(generator.integers(0, 256, (count, *space.shape), dtype=np.uint8))
    return torch.from_numpy(generator.normal(size=(count, *space.shape)).astype(np.float32))


def build(space, settings, num_actions=6, precision=Precision.float32):
    torch.manual_seed(0)
    return build_model(space, Discrete(num_actions), settings, precision)


@pytest.mark.parametrize(("space", "settings"), MODELS)
class TestEveryModel:
    def test_outputs_are_float32_in_the_promised_shapes(self, space, settings):
        model, observations = build(space, settings), observations_of(space)
        logits, values = model(observations)
        assert (logits.shape, logits.dtype) == ((5, 6), torch.float32)
        assert (values.shape, values.dtype) == ((5,), torch.float32)
        torch.testing.assert_close(model.policy_logits(observations), logits)

    def test_rows_do_not_depend_on_each_other(self, space, settings):
        model, observations = build(space, settings), observations_of(space)
        torch.testing.assert_close(model(observations[2:3]).values, model(observations).values[2:3])

    def test_the_first_policy_is_almost_uniform_and_biases_are_zero(self, space, settings):
        model = build(space, settings)
        probabilities = model(observations_of(space)).logits.softmax(-1)
        assert (probabilities - 1 / 6).abs().max() < 0.03
        assert all(not bias.any() for name, bias in model.named_parameters() if name.endswith("bias"))

    def test_every_parameter_gets_a_gradient(self, space, settings):
        model = build(space, settings)
        logits, values = model(observations_of(space))
        (logits.square().sum() + values.sum()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name

    def test_the_seed_decides_the_weights(self, space, settings):
        first, second = build(space, settings), build(space, settings)
        other = build_model(space, Discrete(6), settings, Precision.float32)
        for name, weight in first.state_dict().items():
            assert torch.equal(weight, second.state_dict()[name])
        assert not torch.equal(first.policy_head.weight, other.policy_head.weight)

    def test_it_survives_pickling_and_copying(self, space, settings):
        model, observations = build(space, settings), observations_of(space)
        for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            torch.testing.assert_close(twin(observations).values, model(observations).values)


def test_auto_takes_the_convolutional_net_for_images_only():
    assert isinstance(build(IMAGE, ModelSettings()), NatureCnn)
    assert isinstance(build(VECTOR, ModelSettings()), Mlp)


def test_hidden_layers_are_orthogonal():
    weight = build(VECTOR, ModelSettings()).policy_trunk[1].weight.detach()
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(64), atol=1e-4, rtol=0)


def test_policy_and_value_are_separate_unless_shared():
    def coupled(model):
        model.value_head.weight.data.fill_(1.0)
        model(observations_of(VECTOR)).values.sum().backward()
        return model.policy_trunk[0].weight.grad is not None

    assert not coupled(build(VECTOR, ModelSettings()))
    assert coupled(build(VECTOR, ModelSettings(share_layers=True)))


def test_the_policy_alone_skips_the_value_net():
    model = build(VECTOR, ModelSettings())
    model.value_trunk = model.value_head = None
    assert model.policy_logits(observations_of(VECTOR)).shape == (5, 6)


@pytest.mark.parametrize("kind", [ModelType.mlp, ModelType.nature_cnn])
def test_images_are_scaled_to_the_unit_interval(kind):
    model = build(IMAGE, ModelSettings(type=kind, hidden_sizes=[16], activation=Activation.relu))
    observations = observations_of(IMAGE)
    torch.testing.assert_close(model(observations).values, model(observations.float() / 255).values)


def test_a_channels_last_image_equals_its_transpose():
    last, first = build(COLOUR_LAST, ModelSettings()), build(Box(0, 255, (3, 48, 40), np.uint8), ModelSettings())
    observations = observations_of(COLOUR_LAST)
    torch.testing.assert_close(last(observations).values, first(observations.permute(0, 3, 1, 2)).values)


def test_the_architecture_is_the_published_one():
    model = build(IMAGE, ModelSettings(), num_actions=4)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes["conv1.weight"] == (32, 4, 8, 8)
    assert shapes["conv2.weight"] == (64, 32, 4, 4)
    assert shapes["conv3.weight"] == (64, 64, 3, 3)
    assert shapes["hidden.weight"] == (512, 3136)
    assert shapes["policy_head.weight"] == (4, 512)


@pytest.mark.parametrize(
    ("observation_space", "action_space", "settings", "message"),
    [
        (Tuple([VECTOR]), Discrete(2), ModelSettings(), r"Networks take Box observations"),
        (VECTOR, Box(-1, 1, (2,)), ModelSettings(), r"and Discrete actions, got .*Box\(-1\.0, 1\.0, \(2,\)"),
        (VECTOR, Discrete(2), ModelSettings(type=ModelType.nature_cnn), r"needs uint8 images.*set model\.type=auto"),
        (Box(0, 255, (3, 20, 40), np.uint8), Discrete(2), ModelSettings(), r"at least 36x36 pixels, got 20x40"),
    ],
)
def test_what_a_network_cannot_take_is_refused(observation_space, action_space, settings, message):
    with pytest.raises(ConfigError, match=message):
        build_model(observation_space, action_space, settings, Precision.auto)


@pytest.mark.parametrize(("device", "asked"), [(None, "cpu"), (torch.device("meta"), "meta")])
def test_only_the_networks_own_device_is_asked_for_its_precision(monkeypatch, device, asked):
    def refuse():
        raise AssertionError("a sampler on the CPU must leave CUDA alone")

    devices = []
    monkeypatch.setattr(torch.cuda, "is_available", refuse)
    monkeypatch.setattr(catalog, "resolve_precision", lambda _, __, device: devices.append(device.type))
    model = build_model(IMAGE, Discrete(2), ModelSettings(), Precision.auto, device)
    assert devices == [asked]
    assert {parameter.device.type for parameter in model.parameters()} == {asked}
