"""A backend that is unknown, or not one of ours, is an error of ours, on import or at the first use."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("name", "code"), [("foo", "import trainstep"), ("numpy", "import trainstep as ts; ts.GradientTape().__enter__()")]
)
def test_an_error_that_names_it(name, code):
    run = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"KERAS_BACKEND": name}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("trainstep._errors.BackendError")
    assert f"{name!r}" in last
    assert "KERAS_BACKEND" in last
