"""The worker in this process: what it does before Ray comes in."""

from __future__ import annotations

import dataclasses
import os

import faulty_environments
import numpy as np
import pytest
import random_environments
import torch
from training import remote_settings, spec_of, weights_of

from actorlearner.sampling.rollout_worker import RolloutWorker, _contiguous


@pytest.fixture(autouse=True)
def _keep_torch_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def worker():
    made = RolloutWorker(worker_index=3)
    yield made
    made.close()


def test_samples_with_the_weights_it_was_given(worker):
    settings, spec = remote_settings(steps=7), spec_of()
    worker.start(settings, spec)
    worker.set_weights(weights_of(settings, spec, version=41))
    fragment = worker.sample()
    assert fragment.weights_version == 41
    assert fragment.worker_index == 3
    assert fragment.actions.shape == (7, 2)
    assert fragment.observations.shape == (8, 2, 4)
    assert worker.ping() == os.getpid()


def test_every_array_of_a_fragment_is_contiguous(worker):
    worker.start(remote_settings(), spec_of())
    fragment = worker.sample()
    # Also from a sampler that hands out a view with strides: it would travel inside the pickle, copied twice.
    strided = _contiguous(dataclasses.replace(fragment, observations=fragment.observations.transpose(1, 0, 2)))
    for one in (fragment, strided):
        for name, value in vars(one).items():
            assert not isinstance(value, np.ndarray) or value.flags.c_contiguous, name
    np.testing.assert_array_equal(strided.observations, fragment.observations.transpose(1, 0, 2))


def test_starting_again_begins_anew(worker):
    spec = spec_of()
    worker.start(remote_settings(seed=1), spec)
    first = worker.sample()
    worker.sample()
    worker.start(remote_settings(seed=1), spec)
    again = worker.sample()
    np.testing.assert_array_equal(again.observations[0], first.observations[0])
    worker.start(remote_settings(seed=2), spec)
    assert not np.array_equal(worker.sample().observations[0], first.observations[0])


def test_the_seed_reaches_environments_that_use_the_global_generators():  # spec A5, fault F23
    def observations(index, seed):
        worker = RolloutWorker(index)
        worker.start(remote_settings(random_environments.ID, seed=seed), spec_of(random_environments.ID))
        found = worker.sample().observations
        worker.close()
        return found

    first = observations(1, seed=7)
    np.testing.assert_array_equal(observations(1, seed=7), first)
    for other in (observations(2, seed=7), observations(1, seed=8)):
        assert not np.isin(other, first).any()


def test_errors_of_the_environment_come_out_unchanged(worker):  # spec A4
    spec = spec_of(faulty_environments.ID)
    with pytest.raises(LookupError, match="files are missing"):
        worker.start(remote_settings(faulty_environments.ID, {"fault": "constructor"}), spec)
    worker.start(remote_settings(faulty_environments.ID, {"fault": "step"}), spec)
    worker.sample()
    with pytest.raises(ArithmeticError, match="the physics exploded"):
        worker.sample()


@pytest.mark.parametrize(("cpus", "threads"), [(0.25, 1), (1.0, 1), (2.0, 2)])
def test_torch_gets_as_many_threads_as_the_worker_has_cpus(cpus, threads):
    worker = RolloutWorker(1, num_cpus=cpus)
    worker.start(remote_settings(), spec_of())
    assert torch.get_num_threads() == threads
    worker.close()


def test_closing_twice_is_harmless(worker):
    worker.start(remote_settings(), spec_of())
    worker.close()
    worker.close()
