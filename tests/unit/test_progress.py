"""What a user sees: a bar in a terminal, lines in a file, and no waiting for the device."""

import fcntl
import itertools
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import keras
import pytest

import trainstep as ts
from one_weight import OneWeight, column
from trainstep.loop import _progress

X = column(1, 2, 3)


def test_a_log_file_gets_one_line_for_each_epoch(capsys):
    OneWeight().trainer().fit(X, 0 * X, epochs=2, validation_data=(X, X))
    number = r"\d+\.\d+(e-\d+)?"
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for i, line in enumerate(lines, start=1):
        values = "loss: 2.0000 - error: 2.0000 - val_loss: 0.0000 - val_error: 0.0000"
        pattern = rf"Epoch {i}/2 - {number}s - [\d.]+(e\+\d+)? ms/step - {values}"
        assert re.fullmatch(pattern, line), line


def test_silence(capsys):
    trainer = OneWeight().trainer()
    trainer.fit(X, X, validation_data=(X, X), verbose=0)
    trainer.evaluate(X, X, verbose=0)
    assert capsys.readouterr() == ("", "")


def test_a_bar_ends_with_all_values(capsys):
    OneWeight().trainer().fit(X, 0 * X, batch_size=1, epochs=2, validation_data=(X, X), verbose=1)
    last_states = [line.split("\r")[-1] for line in capsys.readouterr().out.rstrip("\n").split("\n")]
    assert len(last_states) == 2
    for i, state in enumerate(last_states, start=1):
        assert state.startswith(f"Epoch {i}/2 3/3 |")
        assert "steps/s" in state
        assert state.rstrip().endswith("loss: 2.0000 - error: 2.0000 - val_loss: 0.0000 - val_error: 0.0000")


def test_an_evaluation_inside_fit_is_quiet_by_default(capsys):
    trainer = OneWeight().trainer()
    evaluate = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: trainer.evaluate(X, X))
    trainer.fit(X, X, callbacks=[evaluate], verbose=0)
    assert capsys.readouterr().out == ""
    trainer.evaluate(X, X)
    assert capsys.readouterr().out.startswith("Evaluation - ")


PROGRAM = """
import time
from trainstep.loop._progress import progress_for
progress = progress_for("auto", title="Epoch {epoch}/1")
progress.epoch_begin(0, 40)
for i in range(40):
    time.sleep(0.02)
    progress.steps_done(1, {"loss": 0.5, "a_metric_with_a_rather_long_name": 0.25})
progress.steps_ended({"loss": 0.5})
progress.epoch_end({"loss": 0.5, "a_metric_with_a_rather_long_name": 0.25})
"""


@pytest.mark.parametrize("columns", [40, 160])
def test_a_bar_keeps_to_one_line_of_a_terminal(columns):
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=inner, stderr=subprocess.DEVNULL)
    os.close(inner)
    text = b""
    try:
        while chunk := os.read(terminal, 4096):
            text += chunk
    except OSError:  # Linux says in this way that the other end has closed
        pass
    assert process.wait() == 0
    states = [re.sub(r"\x1b\[\w", "", state) for state in re.split(r"[\r\n]+", text.decode()) if state.strip()]
    assert len(states) > 3
    assert max(map(len, states)) <= columns
    assert all(state.startswith("Epoch 1/1") for state in states)
    assert states[-1].startswith("Epoch 1/1 40/40")
    assert ("long_name: 0.2500" in states[-1]) == (columns == 160)


def test_a_bar_reads_an_earlier_step_and_seldom(monkeypatch, capsys):
    read = []
    monkeypatch.setattr(_progress, "as_numbers", lambda logs: read.append(logs) or {})
    bar = _progress.BarProgress("Epoch {epoch}")
    bar.epoch_begin(0, None)
    start, n = time.perf_counter(), 0
    while time.perf_counter() < start + 1.1:
        n += 1
        bar.steps_done(1, {"step": n, "at": time.perf_counter()})
    bar.close()
    assert 4 <= len(read) <= 6
    assert read[0] == {}
    ages = [later["at"] - earlier["at"] for earlier, later in itertools.pairwise(read[1:])]
    assert min(ages) > 0.15
    assert time.perf_counter() - read[-1]["at"] > 0.2


def test_no_thread_stays(capsys):
    import threading

    before = threading.active_count()
    OneWeight().trainer().fit(X, X, verbose=1)
    assert threading.active_count() == before


def test_small_and_strange_values():
    assert _progress._format(0.00012345) == "1.2345e-04"  # nothing public prints one value
    assert _progress._format(float("nan")) == "nan"
    assert _progress._format(1234.5678) == "1234.5678"


def test_an_unknown_verbosity_is_refused():
    with pytest.raises(ts.TrainStepError, match="Got 'loud'"):
        _progress.progress_for("loud", title="")
