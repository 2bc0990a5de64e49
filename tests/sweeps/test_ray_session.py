import os
import pickle
import signal
import tempfile

import pytest

from actorlearner.exceptions import ConfigError
from sweeps.ray_session import (
    StopRequest,
    check_cluster_address,
    imports_in_background,
    short_temporary_folder,
    stop_on_signals,
)


def test_the_first_signal_asks_and_the_second_interrupts():
    request, heard = StopRequest(100), []
    with stop_on_signals(request, lambda: heard.append("stop")):
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.stop_all()
        assert request.signal_number == signal.SIGTERM
        assert heard == ["stop"]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_handlers_from_before_are_put_back(number: signal.Signals):
    before = signal.getsignal(number)
    with stop_on_signals(StopRequest(100), lambda: None):
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


def test_a_trial_stops_at_its_budget():
    request = StopRequest(100)
    assert not request("a", {"num_env_steps_sampled": 99})
    assert request("a", {"num_env_steps_sampled": 100})
    assert not request.stop_all()


def test_a_stop_request_survives_a_snapshot():
    request = pickle.loads(pickle.dumps(StopRequest(100)))
    assert request("a", {"num_env_steps_sampled": 100})
    assert not request.stop_all()
    request.request(signal.SIGINT)
    assert request.stop_all()


def test_a_deep_temporary_folder_is_not_used_for_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("deep" * 20)))
    folder = short_temporary_folder()
    assert folder is not None
    assert len(folder) <= 30
    os.rmdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    assert short_temporary_folder() is None


def test_imports_are_there_when_the_body_has_ended():
    import sys

    sys.modules.pop("this", None)
    with imports_in_background("wave"):
        pass
    assert "wave" in sys.modules


def test_a_dead_cluster_is_said_at_once():
    with pytest.raises(ConfigError, match=r"RAY_ADDRESS=127\.0\.0\.1:1 does not answer"):
        check_cluster_address("127.0.0.1:1")
    check_cluster_address("auto")
