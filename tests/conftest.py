"""Options for long runs: small by default, as many as wanted on the command line."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", type=int, default=100, help="random cases to verify (default 100, from seed 0)"
    )
    parser.addoption("--first-case", type=int, default=0, help="the seed to begin with")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give ``seeds`` to tests in blocks of 25, so that workers share them."""
    if "seeds" in metafunc.fixturenames:
        first, count = metafunc.config.option.first_case, metafunc.config.option.cases
        blocks = [
            range(begin, min(begin + 25, first + count))
            for begin in range(first, first + count, 25)
        ]
        metafunc.parametrize(
            "seeds", blocks, ids=[f"{block.start}-{block.stop - 1}" for block in blocks]
        )
