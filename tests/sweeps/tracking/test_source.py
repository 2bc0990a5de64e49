"""Tags that say what ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from sweeps.tracking.source import source_tags


def tags_of(folder, *command):
    (folder / "tagger.py").write_text(
        "import json\nfrom sweeps.tracking.source import source_tags\nprint(json.dumps(source_tags()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    call = [sys.executable, *command]
    done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_a_module_is_named_as_it_was_called(tmp_path):
    tags = tags_of(tmp_path, "-m", "tagger", "a/b=1", "u=http://me:pw@host", "two words")
    assert tags["command"] == "python -m tagger a/b=1 u=http://me:***@host 'two words'"
    assert tags["mlflow.source.name"] == "tagger"


def test_a_script_is_named_without_its_folder(tmp_path):
    assert tags_of(tmp_path, str(tmp_path / "tagger.py"), "x=1")["command"] == "tagger.py x=1"


def test_outside_a_git_checkout_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "mlflow.source.git.commit" not in source_tags()


def test_the_commit_is_the_working_directorys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    assert len(source_tags()["mlflow.source.git.commit"]) == 40
