"""Metrics start every epoch from zero: those of Keras in one dispatch, those of the user as the user wrote it."""

import keras
import numpy as np
from keras import ops

import trainstep as ts


class Largest(keras.metrics.Metric):
    """The largest value so far, which starts from another one each time."""

    def __init__(self):
        super().__init__(name="largest")
        self.value = self.add_weight(name="value", initializer="zeros")
        self.num_resets = 0

    def update_state(self, value):
        self.value.assign(ops.maximum(self.value, value))

    def result(self):
        return self.value

    def reset_state(self):
        self.num_resets += 1
        self.value.assign(-float(self.num_resets))


def test_metrics_of_keras_and_of_the_user_start_again_in_every_epoch():
    largest, total, auc = Largest(), keras.metrics.Sum(name="sum"), keras.metrics.AUC(name="auc", num_thresholds=3)

    @ts.step
    def step(x):
        largest.update_state(ops.max(x) - 10.0)
        total.update_state(x)
        auc.update_state(ops.cast(x > 1.0, "float32"), x / 4.0)
        return {"largest": largest, "sum": total, "auc": auc, "loss": ops.sum(x)}

    x = np.arange(4, dtype="float32").reshape(4, 1)
    history = ts.Trainer(step).fit(x, batch_size=2, epochs=4, shuffle=False, verbose=0).history
    first = largest.num_resets - 4
    assert history["largest"] == [-float(first + i) for i in range(1, 5)]
    assert history["sum"] == [6.0] * 4
    assert history["loss"] == [3.0] * 4  # the mean of 1 and 5, by their samples
    assert len(set(history["auc"])) == 1
