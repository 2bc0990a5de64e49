"""The tracked sweep as a person sees it: MLflow's pages in headless Chromium, opened with ``python -m sweeps.ui``."""

from __future__ import annotations

import math
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.tracking import SweepTracker, prepare, resolve_uri

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
TIMEOUT_MS = 60_000


def missing(reason):
    """Skip, or fail where the browser is required."""
    if os.environ.get("SWEEPS_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("needs the Python package playwright: pip install 'impala-sweeps[test]'")
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        missing(f"needs one of {', '.join(names)} on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with one tracked sweep: a parent and three trials of 20 results each."""
    folder = tmp_path_factory.mktemp("sweep")
    uri = resolve_uri(None, folder)
    prepare(uri, "sweeps")
    with SweepTracker(uri) as tracker:
        tracker.start_sweep("cartpole-1", "cartpole", config={"search": {"num_trials": 3}}, yaml_text="search: tpe\n")
        for number, status in enumerate(["completed", "pruned", "completed"]):
            searched = {"algorithm.lr": 0.001 * (number + 1)}
            config = {"algorithm": {"lr": 0.001 * (number + 1), "gamma": 0.99}, "environment": {"id": "CartPole-v1"}}
            yaml_text = f"algorithm:\n  lr: {0.001 * (number + 1)}\n"
            tracker.start_trial(f"t{number}", config, yaml_text, number=number, searched=searched)
            for index in range(1, 21):
                value = 500 * (1 - math.exp(-index * (number + 1) / 10))
                learner = {"default_policy": {"entropy": 0.69 / index, "policy_loss": 0.1 / index}}
                result = {"episode_return_mean": value, "env_steps_per_second": 6e4, "info": {"learner": learner}}
                tracker.log(f"t{number}", index * 10_000, {**result, "num_env_steps_trained": index * 10_000})
            tracker.end_trial(f"t{number}", status, value)
        tracker.end_sweep("completed", {"status": "completed"})
        assert tracker.close(60)
        assert tracker.problems == []
    return folder


@pytest.fixture(scope="module")
def address(folder):
    """The page that ``python -m sweeps.ui`` says to open."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sweeps.ui", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline() for _ in range(2)]
            assert lines[1].startswith("Open http://"), lines
            yield lines[1].removeprefix("Open ").strip()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    page.set_default_timeout(TIMEOUT_MS)
    yield page
    page.close()


def keep(page, tmp_path: Path, name: str) -> None:
    """Take a screenshot, to be looked at."""
    target = tmp_path / f"{name}.png"
    page.screenshot(path=target)
    assert target.stat().st_size > 20_000
    keep_in = os.environ.get("SWEEPS_SCREENSHOTS")
    if keep_in:
        shutil.copy(target, keep_in)


def link_to(page, name):
    """Wait for a run's link and return its address."""
    link = page.get_by_role("link", name=name, exact=True).first
    link.wait_for()
    return link.evaluate("element => element.href")


def test_the_run_tree_shows_the_sweep_and_its_trials(page, address, tmp_path):
    page.goto(address)
    link_to(page, "cartpole")
    page.get_by_text("4 matching runs").wait_for()
    assert page.get_by_role("link", name="trial_00000").count() == 0  # folded below their sweep
    page.locator('[role="row"]', has_text="cartpole").get_by_role("button").first.click()
    for number in range(3):
        link_to(page, f"trial_{number:05d}")
    keep(page, tmp_path, "runs")


def test_the_sweeps_page_names_the_best_trial(page, address, tmp_path):
    page.goto(address)
    page.goto(link_to(page, "cartpole"))
    page.get_by_text("Best: trial_00002, score 498.761").wait_for()
    text = page.inner_text("body")
    assert "Trials: 2 completed, 1 pruned." in text
    assert "sweep/best_score" in text
    for number in range(3):
        link_to(page, f"trial_{number:05d}")
    keep(page, tmp_path, "sweep")


def test_a_trials_page_shows_parameters_charts_and_configuration(page, address, tmp_path):
    page.goto(address)
    page.goto(link_to(page, "cartpole"))
    trial = link_to(page, "trial_00001").partition("?")[0]
    page.goto(trial)
    page.get_by_text("Parameters (3)").wait_for()
    text = page.inner_text("body")
    for expected in ("algorithm.gamma", "0.99", "CartPole-v1", "Chosen by the search", "cartpole", "pruned"):
        assert expected in text
    keep(page, tmp_path, "trial")

    page.goto(f"{trial}/model-metrics")
    page.get_by_text("episode_return_mean", exact=True).first.wait_for()
    page.get_by_text("policy_loss", exact=True).first.wait_for()
    page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for(state="attached")
    text = page.inner_text("body")
    assert text.index("episode_return_mean") < text.index("policy_loss")  # what the agent achieves comes first
    keep(page, tmp_path, "charts")

    page.goto(f"{trial}/artifacts")
    page.get_by_text("config.yaml").first.click()
    page.get_by_text("0.002").first.wait_for()
    keep(page, tmp_path, "artifact")
