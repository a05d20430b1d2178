"""Draws digits, with what was predicted: as text for a terminal, and as a picture file."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

INK = 0.35
"""From this brightness on a pixel counts as ink."""

GAP = "   "


@dataclasses.dataclass(frozen=True)
class Example:
    """One image with values from 0 to 1, its label, and what the classifier took it for."""

    image: np.ndarray
    label: int
    predicted: int

    @property
    def is_right(self) -> bool:
        """Whether the classifier took it for what it is."""
        return self.predicted == self.label


def as_text(examples: Sequence[Example]) -> str:
    """The digits side by side, two rows of pixels in one line of text, the mistakes marked.

    >>> import numpy as np
    >>> square = np.pad(np.ones((4, 4)), 12)
    >>> print(as_text([Example(square, label=0, predicted=6)]).rstrip())
    predicted 6, wrong: it is a 0
    <BLANKLINE>
    <BLANKLINE>
    <BLANKLINE>
    <BLANKLINE>
    <BLANKLINE>
              ████
              ████
    """
    pictures = [_half_blocks(example.image) for example in examples]
    width = max(len(_caption(example)) for example in examples)
    width = max(width, len(pictures[0][0]))
    columns = [
        [_caption(example).ljust(width), *(line.ljust(width) for line in picture)]
        for example, picture in zip(examples, pictures, strict=True)
    ]
    return "\n".join(GAP.join(lines).rstrip() for lines in zip(*columns, strict=True))


def save(examples: Sequence[Example], path: Path) -> None:
    """Draws the digits into a picture file, the mistakes in red; needs Matplotlib."""
    from matplotlib.figure import Figure

    num_columns = min(len(examples), 6)
    num_rows = -(-len(examples) // num_columns)
    figure = Figure(figsize=(1.5 * num_columns, 1.8 * num_rows), layout="constrained")
    for axes in np.ravel(figure.subplots(num_rows, num_columns, squeeze=False)):
        axes.set_axis_off()
    for axes, example in zip(figure.axes, examples, strict=False):
        axes.imshow(example.image, cmap="gray_r", vmin=0, vmax=1)
        title = f"{example.predicted}" if example.is_right else f"{example.predicted}, not {example.label}"
        axes.set_title(title, color="black" if example.is_right else "tab:red")
    figure.savefig(path, dpi=120)


def file_formats() -> list[str]:
    """The endings of picture files that can be written; needs Matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    return sorted(FigureCanvasAgg.get_supported_filetypes())


def _caption(example: Example) -> str:
    return f"predicted {example.predicted}" + ("" if example.is_right else f", wrong: it is a {example.label}")


def _half_blocks(image: np.ndarray) -> list[str]:
    """Lines of text for the middle of the image; the outermost rows and columns of a digit are empty."""
    ink = image[2:-2, 2:-2] > INK
    return [
        "".join(" ▀▄█"[upper + 2 * lower] for upper, lower in zip(*pair, strict=True))
        for pair in zip(ink[::2], ink[1::2], strict=True)
    ]
