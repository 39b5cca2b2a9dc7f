"""Lay the packages out under .typetree by their import names, as links.

On disk `runtime/` is the package `slackline` and its sibling folders are subpackages.
Installing sorts that out at run time, but mypy and import-linter look for a folder
`slackline`. This script makes one from the package table of pyproject.toml:

    .typetree/slackline/cell.py   -> ../../runtime/cell.py
    .typetree/slackline/examples  -> ../../examples
"""

import os
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / ".typetree"


def wanted_links(root: Path) -> dict[Path, Path]:
    """Map each link, relative to the tree, to what it points at, relative to the root."""
    with (root / "pyproject.toml").open("rb") as file:
        folders = tomllib.load(file)["tool"]["setuptools"]["package-dir"]
    links: dict[Path, Path] = {}
    for package, folder in folders.items():
        if not (root / folder).is_dir():
            continue
        match package.split("."):
            case [top]:
                new = {
                    Path(top, entry.name): Path(folder, entry.name)
                    for entry in (root / folder).iterdir()
                    if entry.name != "__pycache__" and not entry.name.startswith(".")
                }
            case [top, name]:
                new = {Path(top, name): Path(folder)}
            case _:
                sys.exit(f"pyproject.toml: {package} is too deep, move {folder}/ into its parent")
        if clash := links.keys() & new.keys():
            sys.exit(f"{folder}/ and another folder both provide {sorted(map(str, clash))}")
        links |= new
    return links


def sync(root: Path, tree: Path) -> None:
    """Add the links that are missing and remove those that are dead or no longer wanted."""
    wanted = {
        tree / link: Path(os.path.relpath(root / target, (tree / link).parent))
        for link, target in wanted_links(root).items()
    }
    for entry in list(tree.glob("*/*")):
        if entry.is_symlink() and entry.readlink() == wanted.get(entry):
            del wanted[entry]
        elif entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for link, target in wanted.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


if __name__ == "__main__":
    sync(ROOT, TREE)
