"""Twenty-four published training steps: each a reference in plain TensorFlow and one implementation on trainstep."""
