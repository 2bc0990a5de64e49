"""The rules of the layout: imports point one way, heavy libraries stay out, files stay small."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGINE = ROOT / "src" / "actorlearner"
# Each layer may import from itself and from those before it.
LAYERS = (("ops", "envs"), ("models",), ("sampling", "learning"), ("algorithms",))
FORBIDDEN_IN_ENGINE = ("hydra", "omegaconf", "optuna", "mlflow", "sweeps", "rich")


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each imported module and whether the import is for type checking only."""
    tree = ast.parse(path.read_text())
    typing_only: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            typing_only.update(id(inner) for inner in ast.walk(node))
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            yield name, id(node) in typing_only


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


@pytest.mark.parametrize("path", python_files(ENGINE), ids=lambda path: str(path.relative_to(ENGINE)))
def test_the_engine_knows_nothing_of_the_sweep(path: Path):
    found = {name.split(".")[0] for name, _ in imports_of(path)}
    assert not found & set(FORBIDDEN_IN_ENGINE)


@pytest.mark.parametrize("layer", range(len(LAYERS)))
def test_inside_the_engine_imports_point_one_way(layer: int):
    above = {folder for folders in LAYERS[layer + 1 :] for folder in folders}
    for folder in LAYERS[layer]:
        for path in python_files(ENGINE / folder):
            for name, typing_only in imports_of(path):
                parts = name.split(".")
                if parts[0] == "actorlearner" and len(parts) > 1 and not typing_only:
                    assert parts[1] not in above, f"{path.relative_to(ROOT)} imports {name}"


def test_reading_configurations_loads_nothing_heavy():
    code = (
        "import sys, sweeps.schema, actorlearner.settings\n"
        "print([name for name in ('torch', 'ray', 'mlflow', 'optuna', 'gymnasium') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_public_surface_is_what_we_promise():
    import actorlearner

    assert actorlearner.__all__ == ["Algorithm", "AlgorithmConfig", "Impala", "ImpalaConfig"]
    for name in actorlearner.__all__:
        assert getattr(actorlearner, name).__name__ == name


def test_files_and_functions_stay_small():
    for path in [*python_files(ENGINE), *python_files(ROOT / "sweeps"), *python_files(ROOT / "tests")]:
        text = path.read_text()
        assert len(text.splitlines()) <= 500, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                start = node.body[1].lineno if ast.get_docstring(node) and len(node.body) > 1 else node.lineno
                assert (node.end_lineno or 0) - start < 60, f"{path}: {node.name}"
