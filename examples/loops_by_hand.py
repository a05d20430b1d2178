"""A training loop and an evaluation loop written by hand around two steps. `ts.Trainer` is not needed."""

import keras
import tensorflow as tf

import trainstep as ts
from trainstep import digits


def load_datasets(num_samples: int) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Training and test batches of 32 flat images, with values from 0 to 1, and their labels."""
    datasets = []
    for images, labels in digits.load():
        images = images[:num_samples].reshape(-1, 784).astype("float32") / 255
        datasets.append(tf.data.Dataset.from_tensor_slices((images, labels[:num_samples])).batch(32))
    training, test = datasets
    return training, test


def main(compile: bool | str = "auto", num_samples: int = 10_000, epochs: int = 3) -> tuple[list[dict], dict, keras.Model]:
    """Trains and evaluates; gives the results of each epoch, those of the test digits, and the model."""
    training_dataset, test_dataset = load_datasets(num_samples)

    model = keras.Sequential(
        [keras.Input((784,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax")]
    )
    loss_fn = keras.losses.SparseCategoricalCrossentropy()
    optimizer = keras.optimizers.RMSprop()
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    loss_tracking_metric = keras.metrics.Mean(name="loss")

    @ts.step(compile=compile)
    def train_step(inputs, targets):
        with ts.GradientTape() as tape:
            predictions = model(inputs, training=True)
            loss = loss_fn(targets, predictions)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))

        logs = {}
        for metric in metrics:
            metric.update_state(targets, predictions)
            logs[metric.name] = metric.result()
        loss_tracking_metric.update_state(loss)
        logs["loss"] = loss_tracking_metric.result()
        return logs

    @ts.step(compile=compile)
    def test_step(inputs, targets):
        predictions = model(inputs, training=False)
        loss = loss_fn(targets, predictions)

        logs = {}
        for metric in metrics:
            metric.update_state(targets, predictions)
            logs["val_" + metric.name] = metric.result()
        loss_tracking_metric.update_state(loss)
        logs["val_loss"] = loss_tracking_metric.result()
        return logs

    def reset_metrics():
        for metric in metrics:
            metric.reset_state()
        loss_tracking_metric.reset_state()

    history = []
    for epoch in range(epochs):
        reset_metrics()
        for inputs, targets in training_dataset:
            logs = train_step(inputs, targets)
        history.append({name: float(value) for name, value in logs.items()})
        print(f"Results at the end of epoch {epoch}")
        for name, value in history[-1].items():
            print(f"...{name}: {value:.4f}")

    reset_metrics()
    for inputs, targets in test_dataset:
        logs = test_step(inputs, targets)
    evaluation = {name: float(value) for name, value in logs.items()}
    print("Evaluation results:")
    for name, value in evaluation.items():
        print(f"...{name}: {value:.4f}")
    return history, evaluation, model


if __name__ == "__main__":
    main()
