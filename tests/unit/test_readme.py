"""The example of the README runs."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_example_of_the_readme_prints_what_it_says(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(code, {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert re.findall(r"ts=(\d+)", printed) == ["110"]
