"""Breaks each reference by one sign, and shows that its test then fails on every backend: `python -m tests.corpus.break_signs`."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BACKENDS = ("jax", "tensorflow", "torch")


def main() -> int:
    """Prints which pages noticed; the exit status is the number of pages that did not, on any backend."""
    with tempfile.TemporaryDirectory() as folder:
        make = [sys.executable, "-m", f"{__package__}.make_numbers", "--sign", "-1", "--to", folder]
        subprocess.run(make, env=os.environ | {"KERAS_BACKEND": "tensorflow"}, check=True)
        pages = {path.stem for path in pathlib.Path(folder).glob("*.npz")}
        num_blind = 0
        for backend in BACKENDS:
            failed = failing_pages(backend, folder)
            num_blind += len(pages - failed)
            print(f"{backend}: {len(failed)} of {len(pages)} pages noticed the wrong sign", *sorted(pages - failed))
    return num_blind


def failing_pages(backend: str, numbers: str) -> set[str]:
    """The pages whose numeric test fails, eager and compiled, against these numbers."""
    test = [sys.executable, "-m", "pytest", "tests/corpus/test_pages.py", "-k", "numeric", "-q", "-rf", "--tb=no"]
    environment = os.environ | {"KERAS_BACKEND": backend, "TRAINSTEP_CORPUS_NUMBERS": numbers}
    output = subprocess.run(test, env=environment, capture_output=True, text=True, check=False).stdout
    by_mode = [set(re.findall(rf"^FAILED .*numeric_mode\[(\w+)-{mode}\]", output, re.MULTILINE)) for mode in ("eager", "compiled")]
    return by_mode[0] & by_mode[1]


if __name__ == "__main__":
    sys.exit(main())
