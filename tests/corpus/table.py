"""The table of the pages by backend, of what the last test runs gave: `python -m tests.corpus.table`."""

import json
import sys

from . import conventions
from .conftest import OUTCOMES, ROOT

BACKENDS = ("tensorflow", "torch", "jax")
MODES = ("numeric compiled", "numeric eager", "native compiled")
MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}


def main() -> int:
    """Prints the table; the exit status is the number of cells that are not ok."""
    outcomes = {backend: _outcomes(backend) for backend in BACKENDS}
    print(f"\neach cell: {', '.join(MODES)}\n")
    print("| page |", " | ".join(BACKENDS), "|")
    print("|---|" + "---|" * len(BACKENDS))
    num_missing = 0
    for page in conventions.PAGES:
        cells = [[MARKS[mark] if (mark := outcomes[b].get(page, {}).get(m)) else "not run" for m in MODES] for b in BACKENDS]
        num_missing += sum(mark != "ok" for cell in cells for mark in cell)
        print(f"| {page} |", " | ".join(", ".join(cell) for cell in cells), "|")
    return num_missing


def _outcomes(backend: str) -> dict[str, dict[str, str]]:
    path = ROOT / OUTCOMES / f"{backend}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
