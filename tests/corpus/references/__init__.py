"""Each page in plain TensorFlow, without trainstep: the judge. `numbers/` holds what they computed."""
