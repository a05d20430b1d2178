"""The README is true: its Python blocks run in order, its commands exist, its links lead somewhere."""

import re
from pathlib import Path

import pytest

import trainstep_cli

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON_BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)
SHELL_LINES = [
    line.partition("#")[0].split()
    for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]


def test_the_python_blocks_run_in_order(capsys):
    namespace: dict = {}
    assert len(PYTHON_BLOCKS) == TEXT.count("```python")
    for number, block in enumerate(PYTHON_BLOCKS, start=1):
        exec(compile(block, f"README.md, block {number}", "exec"), namespace)

    assert namespace["trainer"].evaluate(namespace["x_test"], namespace["y_test"], verbose=0)["accuracy"] > 0.9
    output = capsys.readouterr().out
    for part in ("'val_loss'", "'loss':", "branch", "10000", "100", "tape.gradient"):
        assert part.strip("'") in output


@pytest.mark.parametrize("words", [words for words in SHELL_LINES if words[:1] == ["trainstep"]], ids=" ".join)
def test_the_options_of_the_commands_exist(words):
    """Training itself is run by `tests/unit/test_cli.py`."""
    if "--help" in words:
        with pytest.raises(SystemExit, match="0"):
            trainstep_cli.main(words[1:])
        return
    options = trainstep_cli.parser().parse_args(words[1:])
    assert options.command == words[1]


@pytest.mark.parametrize("words", [words for words in SHELL_LINES if words[:1] == ["make"]], ids=" ".join)
def test_the_targets_of_make_exist(words):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert words[1] in targets


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", TEXT))
def test_links_lead_to_files(target):
    assert (ROOT / target).exists()


def test_every_shell_line_is_known():
    assert {words[0] for words in SHELL_LINES} == {"pip", "export", "make", "trainstep"}
