"""W1: one weight that starts at 1, so that every number can be worked out by hand."""

import keras
import numpy as np

import trainstep as ts


class OneWeight:
    """Prediction = w * x. The train step moves w by `learning_rate` times the gradient of the mean prediction or error."""

    def __init__(self, learning_rate=0.0, compile=True) -> None:
        self.w = keras.Variable(1.0, name="w")
        self.optimizer = keras.optimizers.SGD(learning_rate)
        self.error = keras.metrics.MeanAbsoluteError(name="error")
        self.seen = []
        self.train_step = ts.step(self._train, compile=compile)
        self.test_step = ts.step(self._test, compile=compile)

    def trainer(self, **others):
        return ts.Trainer(self.train_step, self.test_step, **others)

    def _train(self, x, y):
        with ts.GradientTape() as tape:
            mean_prediction = keras.ops.mean(self.w * x)
        self.optimizer.apply_gradients([(tape.gradient(mean_prediction, self.w), self.w)])
        return self._logs(x, y)

    def _test(self, x, y):
        return self._logs(x, y)

    def _logs(self, x, y):
        self.error.update_state(y, self.w * x)
        return {"loss": keras.ops.mean(keras.ops.abs(self.w * x - y)), "error": self.error}


def column(*values: float):
    """Rows of one number each, float32."""
    return np.array(values, "float32").reshape(-1, 1)


class Record(keras.callbacks.Callback):
    """Keeps the logs of every batch and epoch as plain dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.batches, self.epochs = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(dict(logs))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(dict(logs))
