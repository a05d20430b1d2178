"""Attention on a graph: the whole graph is held by the model, and a batch is the indices of the nodes to classify."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Logs, Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-5
LOGS = ["loss", "compile_metrics/accuracy"]
CHANGES = ["model", "optimizer", "loss", "metrics"]
BATCH_SIZE = 8
NUM_NODES, NUM_TRAINING_NODES, NUM_CLASSES = 30, 24, 3


class AttentionHead(layers.Layer):
    """Node states (n, d) and edges (e, 2) to node states (n, units): a weighted sum over the neighbours that each node looks at."""

    def __init__(self, units: int):
        super().__init__()
        self.units = units

    def build(self, states_shape):
        self.kernel = self.add_weight(shape=(states_shape[-1], self.units), name="kernel")
        self.attention = self.add_weight(shape=(2 * self.units, 1), name="attention")

    def call(self, states, edges):
        states = states @ self.kernel
        looking, seen = edges[:, 0], edges[:, 1]
        pairs = ops.concatenate([ops.take(states, looking, axis=0), ops.take(states, seen, axis=0)], axis=1)
        scores = ops.squeeze(ops.leaky_relu(pairs @ self.attention, negative_slope=0.2), axis=1)
        scores = ops.exp(ops.clip(scores, -2.0, 2.0))
        sums = ops.segment_sum(scores, looking, num_segments=NUM_NODES)
        attention = scores / ops.take(sums, looking)
        messages = attention[:, None] * ops.take(states, seen, axis=0)
        return ops.segment_sum(messages, looking, num_segments=NUM_NODES)


class GraphAttention(layers.Layer):
    """Two heads beside each other, added to their input."""

    def __init__(self):
        super().__init__()
        self.heads = [AttentionHead(4), AttentionHead(4)]

    def call(self, states, edges):
        return states + ops.relu(ops.concatenate([head(states, edges) for head in self.heads], axis=1))


class GraphClassifier(keras.Model):
    """The logits of every node of one graph."""

    def __init__(self, nodes: np.ndarray, edges: np.ndarray):
        super().__init__()
        self.nodes, self.edges = ops.convert_to_tensor(nodes), ops.convert_to_tensor(edges)
        self.before = layers.Dense(8, activation="relu")
        self.attention = [GraphAttention(), GraphAttention()]
        self.after = layers.Dense(NUM_CLASSES)

    def call(self, inputs):
        nodes, edges = inputs
        states = self.before(nodes)
        for layer in self.attention:
            states = layer(states, edges)
        return self.after(states)

    def logits_of(self, indices):
        return ops.take(self([self.nodes, self.edges]), indices, axis=0)

    def test_step(self, indices, labels):
        logits = self.logits_of(indices)
        return self.updated_metrics(self.compute_loss(y=labels, y_pred=logits), labels, logits)

    def predict_step(self, indices):
        return ops.softmax(self.logits_of(indices))

    def updated_metrics(self, loss, labels, logits):
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(labels, logits)
        return {metric.name: metric.result() for metric in self.metrics}


def make_train_step(page: Page, *, compile: bool) -> ts.Step:
    """The training step; it reaches the optimizer by the name it has outside of the model."""
    model, optimizer = page.model, page.optimizer

    @ts.step(compile=compile)
    def train_step(indices, labels):
        with ts.GradientTape() as tape:
            logits = model.logits_of(indices)
            loss = model.compute_loss(y=labels, y_pred=logits)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return model.updated_metrics(loss, labels, logits)

    return train_step


def build(*, native: bool) -> Page:
    """The graph, the model that holds it, SGD with momentum, and the compiled metrics."""
    rng = np.random.default_rng(6)
    nodes = (rng.random((NUM_NODES, 12)) < 0.3).astype("float32")
    edges = rng.integers(0, NUM_NODES, (80, 2)).astype("int32")
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    labels = rng.integers(0, NUM_CLASSES, NUM_NODES).astype("int32")
    model = GraphClassifier(nodes, edges)
    model([model.nodes, model.edges])
    overwrite_weights(model)
    optimizer = keras.optimizers.SGD(0.3, momentum=0.9)
    model.compile(optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    tracker, metrics = model.metrics
    return Page(
        tracked={"model": model, "optimizer": optimizer, "loss": tracker, "metrics": metrics},
        data={"nodes": nodes, "edges": edges, "indices": np.arange(NUM_NODES, dtype="int32"), "labels": labels},
        native=native,
    )


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step on the training nodes, eight at a time."""
    train_step = make_train_step(page, compile=compile)
    indices, labels = page.indices[:NUM_TRAINING_NODES], page.labels[:NUM_TRAINING_NODES]
    t = 0
    while True:
        yield flat(train_step(*batch(t, BATCH_SIZE, indices, labels)))
        t += 1


def flat(logs: Logs) -> Logs:
    """Nested names joined by "/"."""
    return {"/".join(path): value for path, value in keras.tree.flatten_with_path(logs)}
