"""Starting, watching and ending worker processes, and what a person reads when that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import faulty_environments
import pytest
import ray
from processes import assert_gone, is_running
from tiny_workers import Echo, Nest, TinyWorker
from training import remote_settings, spec_of, weights_of

from actorlearner.exceptions import ResourceError, WorkerError
from actorlearner.sampling.worker_set import WorkerSet

pytestmark = pytest.mark.usefixtures("ray_cluster")
FAULTY = faulty_environments.ID


def pids_of(workers):
    return ray.get([actor.ping.remote() for actor in workers.actors], timeout=30)


def read_pids(file):
    return [int(line) for line in file.read_text().split()]


def test_workers_run_and_stop_leaves_no_process(ray_cluster):  # spec A4, fault F5
    settings, spec = remote_settings(workers=2), spec_of()
    workers = WorkerSet(settings, spec)
    pids = pids_of(workers)
    assert workers.healthy_count == len(set(pids)) == 2
    stored = ray.put(weights_of(settings, spec, version=5))
    ray.get(list(workers.sync_weights(stored, workers.workers).values()), timeout=30)
    fragments = ray.get([actor.sample.remote() for actor in workers.actors], timeout=30)
    assert [fragment.worker_index for fragment in fragments] == [1, 2]
    assert {fragment.weights_version for fragment in fragments} == {5}
    workers.stop()
    assert_gone(pids)
    assert workers.healthy_count == 0
    workers.stop()


def test_an_environment_that_cannot_be_made_is_named_with_its_own_error(tmp_path):  # spec A4
    config = {"fault": "constructor", "pid_file": str(tmp_path / "pids")}
    with pytest.raises(WorkerError) as caught:
        WorkerSet(remote_settings(FAULTY, config), spec_of(FAULTY))
    message = str(caught.value)
    first_line = message.splitlines()[0]
    assert first_line.startswith("Rollout worker 1 ")
    assert f"(environment {FAULTY}) failed while starting: " in first_line
    assert "LookupError: the game's files are missing" in first_line
    assert 'faulty_environments.py", line' in message
    assert "in __init__" in message
    assert isinstance(caught.value.__cause__, LookupError)
    assert "actor died" not in message.lower()
    assert "\x1b" not in message
    assert_gone(read_pids(tmp_path / "pids"))


def test_a_start_that_hangs_ends_after_the_timeout_and_leaves_nothing(tmp_path):  # fault F5
    settings = remote_settings(env_config={"start_hangs": True, "pid_file": str(tmp_path / "pids")})
    match = r"Rollout worker 1 \(environment CartPole-v1\) did not answer while starting: it had 5 s .*hangs"
    with pytest.raises(WorkerError, match=match):
        WorkerSet(settings, None, start_timeout_s=5.0, worker_class=TinyWorker)
    assert_gone(read_pids(tmp_path / "pids"))


def test_ctrl_c_during_the_start_leaves_nothing(tmp_path):  # fault F5
    pid_file = tmp_path / "pids"

    def interrupt():
        while not pid_file.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    settings = remote_settings(env_config={"start_hangs": True, "pid_file": str(pid_file)})
    with pytest.raises(KeyboardInterrupt):
        WorkerSet(settings, None, start_timeout_s=30.0, worker_class=TinyWorker)
    assert_gone(read_pids(pid_file))


def test_more_cpus_than_ray_has_are_refused_at_once():  # fault F26
    start = time.monotonic()
    match = r"3 rollout workers with 1 CPUs each need 3 CPUs, Ray has 2\. Lower resources\.num_workers"
    with pytest.raises(ResourceError, match=match):
        WorkerSet(remote_settings(workers=3, cpus=1.0), spec_of())
    assert time.monotonic() - start < 2.0


def test_cpus_that_others_hold_are_waited_for_and_then_named():  # fault F26
    occupant = ray.remote(Echo).options(num_cpus=1.5).remote()
    ray.get(occupant.ping.remote(), timeout=30)
    settings = remote_settings(workers=2, cpus=0.5)
    match = r"1 of 2 rollout workers did not come up within 3 s: each needs 0\.5 CPUs, 0 of Ray's 2 are free .* Lower"
    try:
        with pytest.raises(ResourceError, match=match):
            WorkerSet(settings, spec_of(), start_timeout_s=3.0, worker_class=TinyWorker)
    finally:
        ray.kill(occupant)


def test_workers_live_in_the_trials_placement_group_and_die_with_it():  # faults F5, F26
    group = ray.util.placement_group([{"CPU": 1.0}, {"CPU": 1.0}])
    ray.get(group.ready(), timeout=30)
    # No CPU is left outside the group: a worker that did not join it would never start.
    placed = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, 0)
    trial = ray.remote(Nest).options(num_cpus=1, scheduling_strategy=placed).remote()
    try:
        pids = ray.get(trial.start.remote(remote_settings(cpus=1.0)), timeout=30)
        assert all(is_running(pid) for pid in pids)
        refused = ray.get(trial.refuse.remote(remote_settings(workers=3, cpus=1.0)), timeout=30)
        assert "need 3 CPUs, the trial's placement group has 2" in refused
        os.kill(ray.get(trial.ping.remote(), timeout=10), signal.SIGKILL)
        assert_gone(pids)
    finally:
        ray.util.remove_placement_group(group)


def test_restarting_keeps_the_processes():
    spec = spec_of()
    workers = WorkerSet(remote_settings(cpus=0.5), spec)
    try:
        pids = pids_of(workers)
        other = remote_settings(FAULTY, steps=3)
        assert workers.can_restart(other)
        assert not workers.can_restart(remote_settings(workers=2))
        assert not workers.can_restart(remote_settings(cpus=0.25))
        workers.restart(other, spec_of(FAULTY))
        assert pids_of(workers) == pids
        assert ray.get(workers.actors[0].sample.remote(), timeout=30).observations.shape == (4, 2, 3)
        assert FAULTY in str(workers.workers[0])
        with pytest.raises(WorkerError, match="LookupError: the game's files are missing"):
            workers.restart(remote_settings(FAULTY, {"fault": "constructor"}), spec_of(FAULTY))
        assert workers.healthy_count == 0
        assert_gone(pids)
    finally:
        workers.stop()


DRIVER = """
import ray, time
from actorlearner.sampling.worker_set import WorkerSet
from tiny_workers import TinyWorker
from training import remote_settings
assert not ray.is_initialized(), "importing must not start Ray"
if __name__ == "__main__":
    workers = WorkerSet(remote_settings(workers=2), None, worker_class=TinyWorker)
    print(*ray.get([actor.ping.remote() for actor in workers.actors]), flush=True)
    time.sleep(600)
"""


def test_starts_a_ray_where_none_runs_and_a_killed_driver_takes_its_workers_along(tmp_path):  # fault F5
    (tmp_path / "driver.py").write_text(DRIVER)
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, str(tmp_path / "driver.py")]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE) as driver:
        try:
            pids = [int(pid) for pid in driver.stdout.readline().split()]
            assert len(pids) == 2
            assert all(is_running(pid) for pid in pids)
        finally:
            driver.kill()
    assert_gone(pids, seconds=20.0)


STAND_ALONE = """
import ray
from actorlearner import Impala
from actorlearner.exceptions import ResourceError
from actorlearner.sampling.worker_set import WorkerSet
from tiny_workers import TinyWorker
from training import remote_settings
if __name__ == "__main__":
    config = remote_settings(workers=1).to_dict()
    other = WorkerSet(remote_settings(workers=1), None, worker_class=TinyWorker)
    algorithm = Impala(config=config)
    algorithm.stop()
    assert ray.is_initialized(), "others still use it"
    other.stop()
    assert not ray.is_initialized(), "started by the engine, left running"
    try:
        WorkerSet(remote_settings(workers=1000), None)
    except ResourceError:
        assert not ray.is_initialized(), "started by the engine, left running after a refusal"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    WorkerSet(remote_settings(workers=1), None, worker_class=TinyWorker).stop()
    assert ray.is_initialized(), "not the engine's to end"
    print("all is well")
"""


def test_a_ray_of_its_own_ends_with_the_last_workers_and_no_other(tmp_path):
    (tmp_path / "driver.py").write_text(STAND_ALONE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    command = [sys.executable, str(tmp_path / "driver.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "all is well", done.stderr
