"""V-trace against given vectors, against a slow loop written from the paper, and by its properties."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from actorlearner.ops.vtrace import vtrace

VECTORS = Path(__file__).parents[2] / "vectors" / "vtrace.json"
CASES = json.loads(VECTORS.read_text())["cases"]


def random_inputs(num_steps, num_envs, seed, *, flags=True):
    generator = torch.Generator().manual_seed(seed)

    def normal():
        return torch.randn(num_steps, num_envs, generator=generator)

    def flag(probability):
        return torch.rand(num_steps, num_envs, generator=generator) < (probability if flags else 0.0)

    inputs = {"log_rhos": normal(), "rewards": normal(), "values": normal(), "next_values": normal()}
    inputs |= {"terminated": flag(0.15), "truncated": flag(0.15), "valid": ~flag(0.15)}
    # Inside an episode the successor's value is the next row's value.
    inside = ~(inputs["terminated"] | inputs["truncated"])
    inputs["next_values"][:-1] = torch.where(inside[:-1], inputs["values"][1:], inputs["next_values"][:-1])
    return inputs


def slow_vtrace(inputs, gamma, rho_bar, c_bar, pg_rho_bar, lambda_):
    """Equation 1 as a double sum in float64: vs_s = V_s + sum_t (prod_{i=s}^{t-1} gamma_i c_i) delta_t."""
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    log_rhos, rewards, values, next_values = (
        arrays[name].astype(np.float64) for name in ("log_rhos", "rewards", "values", "next_values")
    )
    terminated, truncated, valid = (arrays[name] for name in ("terminated", "truncated", "valid"))
    num_steps, num_envs = rewards.shape

    def goes_on(t, b):  # row t + 1 belongs to the same episode as row t
        inner = t + 1 < num_steps and not terminated[t, b] and not truncated[t, b]
        return bool(inner and valid[t, b] and valid[t + 1, b])

    def discount(t, b):
        return 0.0 if terminated[t, b] else gamma

    vs = np.zeros_like(values)
    for b in range(num_envs):
        for s in range(num_steps):
            total, weight = values[s, b], 1.0
            for t in range(s, num_steps):
                rho = math.exp(log_rhos[t, b])
                target = rewards[t, b] + discount(t, b) * next_values[t, b]
                total += weight * min(rho_bar, rho) * (target - values[t, b])
                if not goes_on(t, b):
                    break
                weight *= discount(t, b) * lambda_ * min(c_bar, rho)
            vs[s, b] = total
    advantages = np.zeros_like(values)
    for b in range(num_envs):
        for t in range(num_steps):
            successor = next_values[t, b]
            if goes_on(t, b):
                successor = lambda_ * vs[t + 1, b] + (1 - lambda_) * next_values[t, b]
            q_value = rewards[t, b] + discount(t, b) * successor
            advantages[t, b] = min(pg_rho_bar, math.exp(log_rhos[t, b])) * (q_value - values[t, b])
    return vs, advantages


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_given_vectors(case):
    given = case["inputs"]
    floats = {
        name: torch.tensor(given[key], dtype=torch.float32)
        for name, key in [
            ("log_rhos", "log_rho"), ("rewards", "reward"), ("values", "value"), ("next_values", "next_value")
        ]
    }  # fmt: skip
    flags = {name: torch.tensor(given[name], dtype=torch.bool) for name in ("terminated", "truncated", "valid")}
    result = vtrace(
        **floats,
        **flags,
        gamma=given["gamma"],
        clip_rho_threshold=given["rho_bar"],
        clip_c_threshold=given["c_bar"],
        clip_pg_rho_threshold=given["pg_rho_bar"],
        lambda_=given["lam"],
    )
    torch.testing.assert_close(result.value_targets, torch.tensor(case["vs"]), atol=2e-6, rtol=0)
    torch.testing.assert_close(result.advantages, torch.tensor(case["pg_advantages"]), atol=2e-6, rtol=0)


@pytest.mark.parametrize("lambda_", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("clips", [(1.0, 1.0, 1.0), (2.5, 0.8, 1.7), (math.inf, 1.0, math.inf)])
@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (23, 7)])
def test_equals_the_papers_double_sum_with_all_flags_mixed(shape, clips, lambda_):
    rho_bar, c_bar, pg_rho_bar = clips
    inputs = random_inputs(*shape, seed=sum(shape))
    result = vtrace(
        **inputs,
        gamma=0.97,
        clip_rho_threshold=rho_bar,
        clip_c_threshold=c_bar,
        clip_pg_rho_threshold=pg_rho_bar,
        lambda_=lambda_,
    )
    vs, advantages = slow_vtrace(inputs, 0.97, rho_bar, c_bar, pg_rho_bar, lambda_)
    np.testing.assert_allclose(result.value_targets.numpy(), vs, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(result.advantages.numpy(), advantages, rtol=2e-5, atol=2e-5)


def test_the_ratio_is_learner_over_sampler():
    """The wrong way round passes symmetric tests: here one action is twice, the other half as likely as sampled."""
    inputs = random_inputs(1, 2, seed=0, flags=False)
    inputs["log_rhos"] = torch.tensor([[math.log(0.5), math.log(2.0)]])
    result = vtrace(**inputs, gamma=0.9, clip_rho_threshold=10.0, clip_pg_rho_threshold=10.0)
    deltas = inputs["rewards"] + 0.9 * inputs["next_values"] - inputs["values"]
    torch.testing.assert_close(result.advantages, torch.tensor([[0.5, 2.0]]) * deltas)
    torch.testing.assert_close(result.value_targets, inputs["values"] + torch.tensor([[0.5, 2.0]]) * deltas)


def test_on_policy_it_is_the_n_step_return():
    inputs = random_inputs(6, 3, seed=1, flags=False)
    inputs["log_rhos"] = torch.zeros(6, 3)
    result = vtrace(**inputs, gamma=0.9, clip_rho_threshold=1.5, clip_pg_rho_threshold=1.0)
    returns = inputs["next_values"][-1]
    for t in reversed(range(6)):
        returns = inputs["rewards"][t] + 0.9 * returns
        torch.testing.assert_close(result.value_targets[t], returns)
        torch.testing.assert_close(result.advantages[t], returns - inputs["values"][t])


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_two_episodes_in_a_row_give_what_they_give_apart(end):
    first, second = random_inputs(5, 4, seed=2, flags=False), random_inputs(7, 4, seed=3, flags=False)
    first[end][-1] = True
    joined = {name: torch.cat((first[name], second[name])) for name in first}
    together = vtrace(**joined, gamma=0.95, lambda_=0.8)
    apart = [vtrace(**part, gamma=0.95, lambda_=0.8) for part in (first, second)]
    torch.testing.assert_close(together.value_targets, torch.cat([part.value_targets for part in apart]))
    torch.testing.assert_close(together.advantages, torch.cat([part.advantages for part in apart]))


def test_masked_rows_change_nothing():
    inputs = random_inputs(12, 5, seed=4)
    # A masked row follows an end (next-step autoreset).
    inputs["valid"][1:] = ~(inputs["terminated"] | inputs["truncated"])[:-1]
    assert not inputs["valid"].all()
    changed = dict(inputs)
    masked = ~inputs["valid"]
    for name in ("log_rhos", "rewards", "values", "next_values"):
        changed[name] = torch.where(masked, inputs[name] + 3.0, inputs[name])
    before, after = vtrace(**inputs, gamma=0.95), vtrace(**changed, gamma=0.95)
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(old[inputs["valid"]], new[inputs["valid"]], rtol=0, atol=0)


def test_the_bootstrap_survives_at_a_fragments_end():
    inputs = random_inputs(1, 1, seed=5, flags=False)
    inputs["log_rhos"] = torch.zeros(1, 1)
    result = vtrace(**inputs, gamma=0.9)
    torch.testing.assert_close(result.value_targets, inputs["rewards"] + 0.9 * inputs["next_values"])


def test_the_trace_is_never_clipped_above_the_value_targets_ratio():
    inputs = random_inputs(9, 3, seed=6)
    low = vtrace(**inputs, gamma=0.9, clip_rho_threshold=0.5, clip_c_threshold=1.0)
    same = vtrace(**inputs, gamma=0.9, clip_rho_threshold=0.5, clip_c_threshold=0.5)
    torch.testing.assert_close(low.value_targets, same.value_targets, rtol=0, atol=0)


def test_no_gradient_flows_and_inputs_stay_as_they_are():
    inputs = random_inputs(4, 2, seed=7)
    copies = {name: tensor.clone() for name, tensor in inputs.items()}
    for name in ("log_rhos", "values", "next_values"):
        inputs[name].requires_grad_()
    result = vtrace(**inputs, gamma=0.9)
    assert not result.value_targets.requires_grad
    assert not result.advantages.requires_grad
    for name, copy in copies.items():
        assert torch.equal(inputs[name].detach(), copy), name


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("log_rhos", torch.zeros(3, 2, dtype=torch.float64)),
        ("rewards", torch.zeros(3, 2, dtype=torch.bfloat16)),
        ("values", torch.zeros(3)),
        ("next_values", torch.zeros(1, 2)),
        ("terminated", torch.zeros(3, 2)),
        ("valid", torch.ones(3, 2, 1, dtype=torch.bool)),
    ],
)
def test_wrong_ranks_shapes_and_dtypes_are_refused(name, wrong):
    inputs = random_inputs(3, 2, seed=8) | {name: wrong}
    with pytest.raises(ValueError, match=r"vtrace: \w+ must be a torch\.\w+ tensor \[T, B\]"):
        vtrace(**inputs, gamma=0.9)
