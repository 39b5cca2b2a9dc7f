"""What is public: each name exists, is exported once, and comes from where it says."""

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import slackline

NOT_IMPORTED_HERE = {
    "slackline.__main__",
    "slackline.actors",
    "slackline.dashboard",
    "slackline.history",
}
"""They do something when imported, or need more than the core's dependencies."""


def core_modules() -> list[ModuleType]:
    names = [info.name for info in pkgutil.iter_modules(slackline.__path__, "slackline.")]
    return [importlib.import_module(n) for n in names if n not in NOT_IMPORTED_HERE]


MODULES = core_modules()
EXPORTING = [module for module in MODULES if hasattr(module, "__all__")]


def test_the_walk_finds_the_core() -> None:
    assert {"slackline.events", "slackline.cell", "slackline.truth"} <= {
        m.__name__ for m in MODULES
    }


def test_every_public_name_exists() -> None:
    assert [name for name in slackline.__all__ if not hasattr(slackline, name)] == []


def test_public_names_are_sorted_and_listed_once() -> None:
    assert len(slackline.__all__) == len(set(slackline.__all__))
    by_kind = sorted(
        slackline.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name)
    )
    assert slackline.__all__ == by_kind


def test_everything_that_the_package_imports_from_its_modules_is_public() -> None:
    unlisted = {
        name
        for name, value in vars(slackline).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", "")).startswith("slackline")
    } - set(slackline.__all__)
    assert unlisted == set()


@pytest.mark.parametrize("name", slackline.__all__)
def test_a_public_name_is_exported_by_exactly_one_module(name: str) -> None:
    homes = [module.__name__ for module in EXPORTING if name in module.__all__]
    assert len(homes) == 1
    assert getattr(importlib.import_module(homes[0]), name) is getattr(slackline, name)


@pytest.mark.parametrize("module", EXPORTING, ids=lambda module: module.__name__)
def test_a_module_exports_names_that_exist_and_are_its_own(module: ModuleType) -> None:
    exported = module.__all__
    assert len(exported) == len(set(exported))
    for name in exported:
        assert not name.startswith("_")
        assert hasattr(module, name)
        home = getattr(getattr(module, name), "__module__", module.__name__)
        assert home == module.__name__ or not home.startswith("slackline")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_module_says_what_it_is_for(module: ModuleType) -> None:
    assert module.__doc__


@pytest.mark.parametrize("name", slackline.__all__)
def test_every_public_class_and_function_is_documented(name: str) -> None:
    value = getattr(slackline, name)
    if isinstance(value, type) or callable(value):
        assert value.__doc__


def test_no_name_is_exported_by_two_modules() -> None:
    homes: dict[str, list[str]] = {}
    for module in EXPORTING:
        for name in module.__all__:
            homes.setdefault(name, []).append(module.__name__)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_importing_the_package_brings_in_neither_ray_nor_spark() -> None:
    code = "import sys, slackline; print({'ray', 'pyspark'} & set(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "set()"
