"""12,000 handwritten digits that come with the package, so that nothing has to be downloaded to try it."""

from ._load import load as load
