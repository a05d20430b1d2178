"""Speed of trainstep against its peers: `python -m benchmarks` runs everything and prints the table."""
