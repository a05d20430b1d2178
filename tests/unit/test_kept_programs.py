"""`ts.keep_programs`: the next process finds what this one compiled."""

import os
import subprocess
import sys

import keras
import pytest

import trainstep as ts

BACKEND = keras.config.backend()

TRAINING = """
    import sys, numpy as np, keras, trainstep as ts
    ts.keep_programs(sys.argv[1])
    w = keras.Variable(np.ones(7), dtype="float32")

    @ts.step
    def step(x):
        w.assign_sub(0.1 * keras.ops.mean(x @ w[:, None]) * w)

    hits = []
    if keras.config.backend() == "jax":
        import jax
        jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
    step(np.ones((3, 7), "float32"))
    print(sum(name == "/jax/compilation_cache/cache_hits" for name in hits))
"""


def train(folder):
    code = "\n".join(line[4:] for line in TRAINING.splitlines())
    command = [sys.executable, "-c", code, str(folder)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ).stdout)


@pytest.mark.skipif(BACKEND != "jax", reason="JAX tells of hits")
def test_the_next_process_compiles_nothing_again(tmp_path):
    assert train(tmp_path) == 0
    assert any(tmp_path.iterdir())
    assert train(tmp_path) > 0


@pytest.mark.skipif(BACKEND != "torch", reason="Inductor's folder")
def test_inductor_keeps_its_programs_there(tmp_path, monkeypatch):
    from trainstep.backends.torch._inductor_process import cache_folder

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    ts.keep_programs(tmp_path / "programs")
    assert cache_folder() == tmp_path / "programs"
    ts.keep_programs(None)
    assert cache_folder() != tmp_path / "programs"


@pytest.mark.skipif(BACKEND != "tensorflow", reason="the others keep them")
def test_where_nothing_is_kept_it_says_so(tmp_path):
    with pytest.warns(ts.TrainStepWarning, match="TensorFlow keeps no compiled programs"):
        ts.keep_programs(tmp_path)
    ts.keep_programs(None)


def test_a_folder_that_cannot_be_is_an_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ts.TrainStepError, match=r"`ts.keep_programs` needs a folder that it can write to"):
        ts.keep_programs(file / "folder")
    with pytest.raises(ts.TrainStepError, match=r"`ts.keep_programs` needs a folder"):
        ts.keep_programs(3)
