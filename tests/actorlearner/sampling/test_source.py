"""Fragments in, weights out: versions, backpressure, and what happens to the rest when one worker fails."""

from __future__ import annotations

import logging
import os
import signal
import time
from types import SimpleNamespace

import faulty_environments
import numpy as np
import pytest
import ray
from processes import assert_gone
from tiny_workers import Hotel, TinyWorker
from training import remote_settings, spec_of, weights_of

from actorlearner.exceptions import WorkerError
from actorlearner.sampling.source import RemoteSource
from actorlearner.sampling.worker_set import RemoteWorker, WorkerSet
from actorlearner.types import Weights

pytestmark = pytest.mark.usefixtures("ray_cluster")
FAULTY = faulty_environments.ID


def tiny_weights(version):
    return Weights(version, {"bias": np.zeros(4, np.float32)})


class Sources:
    """Makes sources; keeps the processes of tiny workers for as long as they live, real ones for one test."""

    def __init__(self):
        self.kept = None
        self.real_ones = []

    def tiny(self, env_config=None, *, max_in_flight=2, **options):
        settings = remote_settings(env_config=env_config, workers=2, cpus=0.25)
        if self.kept is not None and self.kept.can_restart(settings):
            self.kept.restart(settings, None)
        else:
            self.stop()
            self.kept = WorkerSet(settings, None, worker_class=TinyWorker)
        source = RemoteSource(
            settings, None, tiny_weights(0), max_in_flight=max_in_flight, workers=self.kept, **options
        )
        return source, self.kept

    def real(self, environment="CartPole-v1", env_config=None, *, version=0, **shape):
        settings, spec = remote_settings(environment, env_config, **shape), spec_of(environment)
        source = RemoteSource(settings, spec, weights_of(settings, spec, version), max_in_flight=2)
        self.real_ones.append(source)
        return source

    def stop(self):
        if self.kept is not None:
            self.kept.stop(grace_s=0.0)


@pytest.fixture(scope="module")
def kept_sources():
    made = Sources()
    yield made
    made.stop()


@pytest.fixture
def sources(kept_sources):
    yield kept_sources
    while kept_sources.real_ones:
        kept_sources.real_ones.pop().stop()


def collect(source, wanted, timeout=30.0):
    """Collect until there are ``wanted`` fragments, without asking for more."""
    fragments = []
    deadline = time.monotonic() + timeout
    while len(fragments) < wanted:
        assert time.monotonic() < deadline, f"only {len(fragments)} fragments"
        fragments += source.collect(1.0)
    return fragments


def collect_until_it_fails(source, seconds=20.0):
    """Ask and collect for as long as that goes well."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        source.request()
        source.collect(5.0)
        time.sleep(0.02)


def pids_of(workers):
    return ray.get([actor.ping.remote() for actor in workers.actors], timeout=30)


def test_the_first_fragments_have_the_first_weights_and_share_memory(sources):  # spec A4
    # 60 x 300 steps: over the size below which Ray sends objects inside its messages.
    source = sources.real(version=7, workers=2, envs=300, steps=60)
    assert source.request() == 4
    fragments = collect(source, 4)
    assert {fragment.weights_version for fragment in fragments} == {7}
    assert {fragment.worker_index for fragment in fragments} == {1, 2}
    for fragment in fragments:
        arrays = {name: value for name, value in vars(fragment).items() if isinstance(value, np.ndarray)}
        assert sum(array.nbytes for array in arrays.values()) > 200_000
        for name, array in arrays.items():
            # Views of the object store: nothing was copied, and nobody may write to them.
            assert not array.flags.owndata, name
            assert not array.flags.writeable, name
            assert array.flags.c_contiguous, name
    assert len({fragment.observations.tobytes() for fragment in fragments}) == 4  # fault F23


def test_does_not_ask_unless_told_so_and_holds_what_is_in_flight_bounded(sources):  # fault F8
    source, workers = sources.tiny(max_in_flight=3)
    assert source.request() == 6
    assert source.request() == 0
    ray.get([actor.ping.remote() for actor in workers.actors], timeout=20)  # All six are done, none was taken.
    assert source.request() == 0
    assert source.num_in_flight == 6
    collect(source, 6)
    assert source.collect(0.2) == []
    assert source.request() == 6
    assert source.num_in_flight == 6
    assert source.healthy_count == 2


def test_weights_are_stored_once_and_sent_only_where_they_are_due(sources, monkeypatch):  # spec I6, fault F10
    source, _ = sources.tiny({"seconds": [0.0, 2.0]}, max_in_flight=1)
    puts = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: puts.append(value.version) or put(value))
    source.broadcast(tiny_weights(0))
    assert puts == []  # Nothing new.
    source.broadcast(tiny_weights(1))
    assert puts == [1]  # One copy for both, who rest.
    source.request()
    assert [fragment.worker_index for fragment in collect(source, 1)] == [1]
    source.broadcast(tiny_weights(2))
    source.broadcast(tiny_weights(2))
    assert puts == [1, 2]
    source.request()
    assert {(one.worker_index, one.weights_version) for one in collect(source, 2)} == {(1, 2), (2, 1)}
    source.broadcast(tiny_weights(2))  # The slow worker is due now; the version is still in the store.
    assert puts == [1, 2]
    source.request()
    assert {(one.worker_index, one.weights_version) for one in collect(source, 2)} == {(1, 2), (2, 2)}


class HotelSet:
    """32 workers in two processes, with the interface of ``WorkerSet``."""

    def __init__(self, env_config):
        settings = remote_settings(env_config=env_config, workers=32)
        hotels = [ray.remote(Hotel).options(num_cpus=0.5).remote(range(1 + k, 33, 2), settings) for k in range(2)]
        self.hotels = hotels
        self.workers = tuple(self._room(hotels[(index - 1) % 2], index) for index in range(1, 33))
        self.healthy_count = 32

    @staticmethod
    def _room(hotel, index):
        def method(name):
            return SimpleNamespace(remote=lambda *arguments: hotel.call.remote(index, name, *arguments))

        return RemoteWorker(
            index, SimpleNamespace(**{name: method(name) for name in ("sample", "set_weights")}), "Tiny"
        )

    sync_weights = WorkerSet.sync_weights

    def remove(self, worker, failure):
        pass

    def stop(self):
        for hotel in self.hotels:
            ray.kill(hotel)


def run_32(env_config, rounds):
    workers = HotelSet(env_config)
    try:
        source = RemoteSource(None, None, tiny_weights(0), max_in_flight=2, workers=workers)
        seen, lags = set(), []
        for version in range(1, rounds + 1):
            source.request()
            fragments = collect(source, 1)
            seen.update(fragment.worker_index for fragment in fragments)
            lags += [version - 1 - fragment.weights_version for fragment in fragments]
            source.broadcast(tiny_weights(version))
        return lags, seen
    finally:
        workers.stop()


def test_the_version_lag_of_32_workers_stays_bounded():  # fault F11
    lags, seen = run_32({"seconds": [0.001 * (index % 5) for index in range(32)]}, rounds=300)
    assert seen == set(range(1, 33))
    assert len(lags) >= 300
    # 64 requests in flight and two processes that take turns: about 80. A worker left out would have 300.
    assert 0 < max(lags) <= 180


def test_one_of_32_workers_that_never_updates_is_found():  # fault F11
    match = r"Rollout worker 17 \(environment Tiny\) sampled with weights version 0 although version \d+ was sent"
    with pytest.raises(WorkerError, match=match):
        run_32({"deaf": 17}, rounds=300)


def test_weights_that_a_worker_cannot_take_are_reported_with_its_own_error(sources):
    source, _ = sources.tiny({"broken": 2}, max_in_flight=1)
    source.broadcast(tiny_weights(1))
    source.request()
    match = r"Rollout worker 2 .* failed while taking over weights: ValueError: these weights do not fit"
    with pytest.raises(WorkerError, match=match) as caught:
        collect(source, 2)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_killed_worker_is_named_once_and_the_others_fragments_are_kept(sources, caplog):  # faults F5, F19, spec A18
    source, workers = sources.tiny({"seconds": [0.0, 60.0]})
    pids = pids_of(workers)
    source.request()
    collect(source, 2)
    source.request()
    os.kill(pids[1], signal.SIGKILL)
    # When both answer, two fragments and a death are there to be found.
    ray.wait([actor.ping.remote() for actor in workers.actors], num_returns=2, timeout=20)
    match = r"^Rollout worker 2 \(environment CartPole-v1\) died while sampling: .*lower resources.num_workers"
    with caplog.at_level(logging.WARNING, logger="actorlearner"), pytest.raises(WorkerError, match=match):
        source.collect(10.0)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert warnings[0].startswith("Rollout worker 2 (environment CartPole-v1) died")
    assert warnings[0].endswith("1 of 2 rollout workers are left.")
    assert source.healthy_count == 1
    # Whoever handles the error goes on with what is left.
    assert [fragment.worker_index for fragment in collect(source, 2)] == [1, 1]
    assert source.num_in_flight == 0
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(WorkerError, match="Rollout worker 1"):
        collect_until_it_fails(source)
    with pytest.raises(WorkerError, match="No rollout worker is left: all have failed"):
        source.collect()


def test_an_environment_that_fails_in_a_step_is_named(sources):  # spec A4, A18
    source = sources.real(FAULTY, {"fault": "step", "after": 7})
    match = r"^Rollout worker 1 \(environment faulty_.*\) failed while sampling: ArithmeticError: the physics exploded"
    with pytest.raises(WorkerError, match=match) as caught:
        collect_until_it_fails(source)
    assert 'faulty_environments.py", line' in str(caught.value)
    assert isinstance(caught.value.__cause__, ArithmeticError)
    assert source.healthy_count == 0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("unpicklable", r"failed while sampling: .*TwoArgumentsError: the physics exploded twice"),
        ("exit", r"died while sampling: .*exit"),
    ],
)
def test_what_ray_cannot_hand_over_is_still_told(sources, fault, reason):  # spec A4
    source, _ = sources.tiny({"fault": fault})
    with pytest.raises(WorkerError, match=rf"^Rollout worker [12] \(environment CartPole-v1\) {reason}"):
        collect_until_it_fails(source)


def test_a_worker_that_hangs_is_given_up_after_the_timeout(sources):
    source, workers = sources.tiny({"seconds": [0.0, 60.0]}, worker_timeout_s=1.5)
    pids = pids_of(workers)
    start = time.monotonic()
    match = r"Rollout worker 2 .* did not answer while sampling: it delivered nothing for \d+ s\. Look for"
    with pytest.raises(WorkerError, match=match):
        collect_until_it_fails(source)
    assert time.monotonic() - start < 6.0
    assert source.healthy_count == 1
    assert_gone(pids[1:])


def test_a_driver_that_pauses_does_not_blame_the_workers(sources):
    source, _ = sources.tiny(worker_timeout_s=2.0)
    source.request()
    time.sleep(2.2)  # A long checkpoint, say. The fragments came meanwhile.
    assert len(collect(source, 4)) == 4
    time.sleep(2.2)
    source.request()
    assert len(collect(source, 4)) == 4


def test_restored_weights_reach_all_and_older_fragments_are_forgotten(sources):  # fault F18
    source, _ = sources.tiny()
    for version in range(1, 6):
        source.request()
        collect(source, 4)
        source.broadcast(tiny_weights(version))
    source.request()
    source.broadcast(tiny_weights(3))
    assert source.num_in_flight == 0
    source.request()
    assert {fragment.weights_version for fragment in collect(source, 4)} == {3}


def test_reset_begins_anew_in_the_same_processes(sources):
    source = sources.real(steps=5)
    workers = source._workers
    pids = pids_of(workers)
    source.request()
    collect(source, 1)
    settings, spec = remote_settings(steps=9), spec_of()
    source.reset(settings, spec, weights_of(settings, spec, version=0), max_in_flight=1)
    assert pids_of(source._workers) == pids
    assert source.num_in_flight == 0
    assert source.request() == 1
    (fragment,) = collect(source, 1)
    assert fragment.actions.shape == (9, 2)
    smaller = remote_settings(cpus=0.25)
    source.reset(smaller, spec, weights_of(smaller, spec, version=3), max_in_flight=2)
    assert source.request() == 2
    assert [fragment.weights_version for fragment in collect(source, 2)] == [3, 3]
    assert_gone(pids)


def test_a_source_that_cannot_begin_ends_its_workers(sources):  # fault F5
    _, workers = sources.tiny()
    pids = pids_of(workers)
    with pytest.raises(ValueError, match="max_in_flight must be at least 1"):
        RemoteSource(remote_settings(), None, tiny_weights(0), max_in_flight=0, workers=workers)
    assert_gone(pids)


def test_a_stopped_source_says_so(sources):
    source, _ = sources.tiny()
    source.request()
    source.stop()
    source.stop()
    assert source.num_in_flight == 0
    with pytest.raises(WorkerError, match="No rollout worker is left"):
        source.collect()
