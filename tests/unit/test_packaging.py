"""What is on disk, what is shipped and what may be imported where."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS: dict[str, str] = PYPROJECT["tool"]["setuptools"]["package-dir"]

NOT_SOURCES = {".git", ".venv", ".typetree", "build", "dist", "__pycache__", ".hypothesis"}
BINARY = {".gif", ".gz", ".ico", ".jpg", ".parquet", ".pdf", ".pickle", ".png", ".zip"}

# In pieces, so that this file does not find itself.
REGISTRY = re.compile("|".join(("pypi" + r"\.org", "files.python" + "hosted", "index" + "[-_]url")))

ONLY_IMPORTED_IN = {"ray": "actors", "pyspark": "history"}
MAY_IMPORT_ANYTHING = {"tests", "scripts"}


def source_files(folder: Path = ROOT) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name not in NOT_SOURCES and not name.endswith(("_cache", ".egg-info"))
        ]
        yield from (Path(parent, name) for name in names)


def packages_on_disk() -> set[str]:
    """Folders with an `__init__.py`, relative to the root."""
    found = {path.parent.relative_to(ROOT) for path in source_files() if path.name == "__init__.py"}
    return {
        folder.as_posix()
        for folder in found
        if folder.parts[0] != "tests" and not any(part.startswith(".") for part in folder.parts)
    }


def folders_setuptools_ships() -> set[str]:
    """Folders whose Python files a wheel would hold, relative to the root."""
    code = (
        "import json, setuptools; d = setuptools.Distribution(); d.parse_config_files();"
        "d.set_defaults(); b = d.get_command_obj('build_py'); b.ensure_finalized();"
        "print(json.dumps([b.get_package_dir(p) for p in d.packages]))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    folders = {Path(folder) for folder in json.loads(answer.stdout)}
    return {folder.as_posix() for folder in folders if any((ROOT / folder).glob("*.py"))}


def imported_roots(path: Path) -> set[str]:
    """The first components of the absolute imports of a module."""
    roots = set()
    for node in ast.walk(ast.parse(path.read_bytes(), filename=str(path))):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            roots.add(node.module.split(".")[0])
    return roots


def test_every_package_on_disk_is_shipped_and_nothing_else() -> None:
    assert folders_setuptools_ships() == packages_on_disk()


def test_every_package_in_the_table_is_slackline_or_right_below_it() -> None:
    assert FOLDERS["slackline"] == "runtime"
    for package, folder in FOLDERS.items():
        assert package in ("slackline", f"slackline.{folder}")


def test_no_file_names_a_registry_host() -> None:
    assert not [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in source_files()
        if path.suffix not in BINARY
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if REGISTRY.search(line)
    ]


def test_ray_and_pyspark_are_imported_only_where_they_belong() -> None:
    assert not [
        f"{path.relative_to(ROOT)} imports {library}: only {home}/ may"
        for path in source_files()
        if path.suffix == ".py"
        for library, home in ONLY_IMPORTED_IN.items()
        if path.relative_to(ROOT).parts[0] not in MAY_IMPORT_ANYTHING | {home}
        if library in imported_roots(path)
    ]
