"""Digits drawn as text and as a picture file."""

import numpy as np
import pytest

from trainstep_cli import _pictures
from trainstep_cli._pictures import Example


def test_two_rows_of_pixels_are_one_line_of_text():
    image = np.zeros((28, 28))
    image[2, 2] = image[3, 3] = image[2:4, 4] = 1.0
    text = _pictures.as_text([Example(image, label=3, predicted=3)])
    assert text.splitlines()[:2] == ["predicted 3", "▀▄█"]
    assert len(text.split("\n")) == 13


def test_digits_stand_side_by_side_and_mistakes_are_marked():
    image = np.ones((28, 28))
    text = _pictures.as_text([Example(image, label=3, predicted=3), Example(image, label=4, predicted=9)])
    captions, first_line, *_ = text.splitlines()
    assert captions.split("   ")[0].strip() == "predicted 3"
    assert captions.endswith("predicted 9, wrong: it is a 4")
    assert first_line.split() == ["█" * 24] * 2
    assert captions.index("predicted 9") == first_line.rindex("█" * 24)


@pytest.mark.parametrize("num_digits", [1, 7])
def test_a_picture_file_shows_every_digit(tmp_path, num_digits):
    image = pytest.importorskip("matplotlib.image")
    path = tmp_path / "digits.png"
    _pictures.save([Example(np.eye(28), label=1, predicted=2)] * num_digits, path)
    pixels = image.imread(path)
    assert pixels.shape[0] > 100
    assert pixels.shape[1] > 100 * min(num_digits, 6)
    assert pixels[..., :3].min() < 0.1
