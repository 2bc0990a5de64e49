"""The text of ``--help``: read from ``conf/`` and the dataclasses, so that it is quick and cannot grow stale."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from sweeps.keys import known_keys
from sweeps.paths import config_directory

GROUPS = (
    "algorithm",
    "environment",
    "model",
    "resources",
    "search",
    "search_space",
    "scheduler",
    "tracking",
    "experiment",
)
FLAGS = """Flags
  -m                          one sweep for each combination of comma lists: -m environment=cartpole,acrobot
  --cfg job                   show the composed configuration, all keys
  --config-dir DIR            take options of the groups from DIR, too
  --hydra-help                Hydra's own flags
  --version                   show the version"""


@dataclass(frozen=True)
class CommandHelp:
    """What differs between the commands' help texts.

    Attributes:
        about: what the command does.
        usage: how it is called.
        groups: the groups that matter to it.
        keys: the options people use most.
        examples: command lines with what they do.
    """

    about: str
    usage: str
    groups: tuple[str, ...]
    keys: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]


def render(command: CommandHelp, config_dir: Path | None = None) -> str:
    """Return the help text; ``config_dir`` adds a person's own options."""
    folders = [config_directory()] + ([config_dir] if config_dir is not None else [])
    parts = [command.about, f"Usage: {command.usage}"]
    parts.append("Groups (group=option; * is the default)\n" + "\n".join(_group_lines(folders, command.groups)))
    parts.append("Options people use most (key=value)\n" + "\n".join(_key_lines(command.keys)))
    parts.append(FLAGS)
    examples = [f"  {line}\n      {purpose}" for line, purpose in command.examples]
    parts.append("Examples\n" + "\n".join(examples))
    return "\n\n".join(parts)


def _group_lines(folders: list[Path], groups: tuple[str, ...]) -> list[str]:
    defaults = _defaults()
    lines: list[str] = []
    for group in groups:
        title = f"{group}" if group in defaults else f"+{group}"
        for folder in folders:
            for file in sorted((folder / group).glob("*.yaml")):
                mark = "*" if defaults.get(group) == file.stem else " "
                lines.append(f"  {title:<14}{mark} {file.stem:<13} {_description(file)}".rstrip())
                title = ""
    return lines


def _defaults() -> dict[str, str]:
    """Read the default option of each group from the primary configuration, without a YAML parser's import time."""
    found: dict[str, str] = {}
    for line in (config_directory() / "config.yaml").read_text(encoding="utf-8").splitlines():
        name, separator, option = line.strip().removeprefix("- ").partition(": ")
        if separator and name in GROUPS:
            found[name] = option
    return found


def _description(file: Path) -> str:
    """Return a file's first comment that is not a directive to Hydra."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and "@package" not in line:
            return line.lstrip("# ").strip()
    return ""


def _key_lines(keys: tuple[str, ...]) -> list[str]:
    known = known_keys()
    rows = [(name, _default_text(known[name].default), str(known[name].metadata["help"])) for name in keys]
    width = max(len(name) for name, _, _ in rows)
    return [f"  {name:<{width}}  {default:<11} {text}" for name, default, text in rows]


def _default_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Enum):
        return value.name
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
