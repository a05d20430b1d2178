"""The listing as written by hand for PyTorch: `loss.backward()`, and clearing the gradients."""

import numpy as np
import torch


def losses(weights, images, labels, *, batch_size, num_steps, learning_rate=0.001, rho=0.9, epsilon=1e-7):
    """The loss of each of the first steps."""
    weights = [torch.tensor(w, requires_grad=True) for w in weights]
    averages = [torch.zeros_like(w) for w in weights]
    w1, b1, w2, b2 = weights
    history = []
    for i in range(0, num_steps * batch_size, batch_size):
        x, y = torch.tensor(images[i : i + batch_size]), torch.tensor(labels[i : i + batch_size]).long()
        loss = torch.nn.functional.cross_entropy(torch.relu(x @ w1 + b1) @ w2 + b2, y)
        loss.backward()
        with torch.no_grad():
            for w, a in zip(weights, averages, strict=True):
                a.mul_(rho).add_((1 - rho) * w.grad * w.grad)
                w -= learning_rate * w.grad / torch.sqrt(a + epsilon)
                w.grad = None
        history.append(loss.detach())
    return np.array([float(loss) for loss in history])
