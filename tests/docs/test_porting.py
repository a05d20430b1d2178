"""`docs/porting.md` is true: its blocks run, and a loop prints after it was ported what it printed before.

A block "before, on jax" runs in a process of its own where JAX is not the active backend.
"""

import contextlib
import io
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "porting.md"
TEXT = PAGE.read_text(encoding="utf-8")


class Block(NamedTuple):
    """One block of Python: the loop it shows, and the backend it needs, if it needs one."""

    heading: str
    code: str

    @property
    def loop(self) -> str:
        return self.heading.partition(":")[0]

    @property
    def backend(self) -> str:
        return self.heading.partition("before, on ")[2]


BLOCKS = [Block(*found) for found in re.findall(r"^<!-- (.+?) -->\n```python\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)]
(SHARED,) = [block.code for block in BLOCKS if block.heading == "shared"]
BEFORE = [block for block in BLOCKS if block.backend]
AFTER = {block.loop: block for block in BLOCKS if block.heading.endswith(": after")}
TRAPS = [block.code for block in BLOCKS if block.heading == "trap"]


def printed_here(*codes):
    output = io.StringIO()
    namespace: dict = {}
    with contextlib.redirect_stdout(output):
        for code in codes:
            exec(compile(code, "docs/porting.md", "exec"), namespace)
    return numbers(output.getvalue())


def printed_on(backend, code):
    if backend == keras.config.backend():
        return printed_here(SHARED, code)
    environment = {**os.environ, "KERAS_BACKEND": backend}
    run = subprocess.run(
        [sys.executable, "-c", SHARED + code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return numbers(run.stdout)


def numbers(text):
    return np.array([[float(word) for word in line.split()] for line in text.splitlines()])


def test_every_block_is_run():
    assert len(BLOCKS) == TEXT.count("```python") == 1 + len(BEFORE) + len(AFTER) + len(TRAPS)
    assert {block.loop for block in BEFORE} == set(AFTER) == {"tensorflow", "torch", "jax", "tree"}
    assert {block.backend for block in BEFORE} == {"tensorflow", "torch", "jax"}


@pytest.mark.parametrize("before", BEFORE, ids=lambda block: block.heading)
def test_the_ported_loop_prints_the_same_numbers(before):
    pytest.importorskip(before.backend)
    expected = printed_on(before.backend, before.code)
    actual = printed_here(SHARED, AFTER[before.loop].code)
    assert expected[-1, 0] < 0.9 * expected[0, 0]  # it trained
    np.testing.assert_allclose(actual, expected, atol=3e-4)


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_the_traps_are_as_the_page_says(monkeypatch):
    namespace: dict = {}
    exec(compile(SHARED + "import trainstep as ts\n", "docs/porting.md", "exec"), namespace)
    for number, code in enumerate(TRAPS):
        name = f"docs/porting.md, trap {number}"
        # An error message quotes the user's line, which it reads through `linecache`.
        monkeypatch.setitem(linecache.cache, name, (len(code), None, code.splitlines(keepends=True), name))
        exec(compile(code, name, "exec"), namespace)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)", TEXT))
def test_links_lead_to_files(target):
    assert (PAGE.parent / target).exists()
