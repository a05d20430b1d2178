"""The numbers of the references: computed once by plain TensorFlow, in a process of its own, and kept until a page changes.

What became of each page's tests is kept too, for the table of `python -m tests.corpus.table`.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from . import conventions

ROOT = conventions.HERE.parents[1]
OUTCOMES = pathlib.Path(".pytest_cache") / "corpus-outcomes"
_outcomes: dict[str, dict[str, str]] = {}


def pytest_collection_modifyitems(items):
    """Leaves out what takes minutes on JAX: there an eager test compiles every single operation.

    `test_pages.py` runs each page eagerly there too.
    """
    if keras.config.backend() != "jax":
        return
    for item in items:
        is_of_one_page = item.path.parent == conventions.HERE and item.path.name != "test_pages.py"
        callspec = getattr(item, "callspec", None)
        if is_of_one_page and callspec is not None and "eager" in callspec.id.split("-"):
            item.add_marker(pytest.mark.skip(reason="eager on JAX: in test_pages.py"))


def pytest_runtest_logreport(report):
    """Notes what became of a page in a mode: `{"vae": {"numeric compiled": "passed"}}`."""
    found = re.search(r"test_pages\.py::test_(numeric|native)_mode\[(\w+?)(?:-(eager|compiled))?\]$", report.nodeid)
    if found and (report.when == "call" or report.outcome != "passed"):
        mode, page, execution = found.groups()
        _outcomes.setdefault(page, {})[f"{mode} {execution or 'compiled'}"] = report.outcome


def pytest_sessionfinish(session):
    """Keeps the outcomes of this backend, for the table."""
    if _outcomes:
        folder = session.config.rootpath / OUTCOMES
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{keras.config.backend()}.json").write_text(json.dumps(_outcomes, indent=1), encoding="utf-8")


@pytest.fixture
def expected(request):
    """A function from a page's name to what its reference computed: `{"0/logs/loss": ...}`."""
    given = os.environ.get("TRAINSTEP_CORPUS_NUMBERS")

    def load(name):
        folder = pathlib.Path(given) if given else _numbers(name, request.config.cache.mkdir("corpus"))
        with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
            return dict(stored)

    return load


def _numbers(name: str, cache: pathlib.Path) -> pathlib.Path:
    """The folder with this page's numbers. If they are not there, those of every page that lacks them are computed."""
    if not (cache / _version(name) / f"{name}.npz").exists():
        wanted = [n for n in conventions.PAGES if not (cache / _version(n) / f"{n}.npz").exists()]
        fresh = cache / f"fresh-{os.getpid()}"
        make = [sys.executable, "-m", "tests.corpus.make_numbers", "--to", str(fresh), *wanted]
        environment = os.environ | {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
        subprocess.run(make, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        for page in wanted:
            (cache / _version(page)).mkdir(exist_ok=True)
            (fresh / f"{page}.npz").replace(cache / _version(page) / f"{page}.npz")
    return cache / _version(name)


def _version(name: str) -> str:
    sources = [conventions.HERE / kind / f"{name}.py" for kind in ("pages", "references")] + [conventions.HERE / "conventions.py"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
