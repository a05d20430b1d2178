"""Each page on trainstep: one source for every backend."""
