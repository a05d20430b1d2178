"""Who trains it: one file for each peer. A peer does all of the work: same model, optimizer, metrics and shuffling."""
