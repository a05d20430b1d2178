"""What must hold of the MelGAN beyond its numbers."""

import numpy as np
from keras import ops

import trainstep as ts

from . import conventions
from .pages import melgan


def test_the_adversarial_term_gives_the_generator_nothing(run):
    """It judges the sounds of the data, which no generator made; so the gradient is that of the feature matching alone."""
    page = melgan.build(native=False)
    weights = page.generator.trainable_weights

    def gradients(x, y):
        with ts.GradientTape() as both, ts.GradientTape() as matching_only, ts.GradientTape() as adversarial_only:
            generated = page.generator(x, training=True)
            fake, real = page.discriminator(y), page.discriminator(generated)
            adversarial = melgan.adversarial_loss(fake)
            matching = 10 * melgan.feature_matching_loss(real, fake)
            total = adversarial + matching
        return (
            both.gradient(total, weights),
            matching_only.gradient(matching, weights),
            adversarial_only.gradient(adversarial, weights),
        )

    of_both, of_matching, of_adversarial = run(gradients, page.x[:4], page.y[:4])
    assert of_adversarial == [None] * len(weights)
    for g, expected in zip(of_both, of_matching, strict=True):
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-7)


def test_the_discriminator_learns_though_what_it_judges_is_generated(run):
    """Its gradient is that with the generated sound as a constant: what leads on to the generator is not followed."""
    page = melgan.build(native=False)
    weights = page.discriminator.trainable_weights

    def gradients(x, y):
        with ts.GradientTape() as tape:
            generated = page.generator(x, training=True)
            loss = melgan.discriminator_loss(page.discriminator(generated), page.discriminator(y))
        with ts.GradientTape() as tape_of_a_constant:
            loss_of_a_constant = melgan.discriminator_loss(page.discriminator(ops.stop_gradient(generated)), page.discriminator(y))
        return tape.gradient(loss, weights), tape_of_a_constant.gradient(loss_of_a_constant, weights)

    through_generator, of_a_constant = run(gradients, page.x[:4], page.y[:4])
    for g, expected in zip(through_generator, of_a_constant, strict=True):
        assert np.abs(g).max() > 1e-4
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-7)


def test_each_gradient_is_clipped_to_norm_1_by_itself():
    """After one step Adam's first moment is `(1 - beta_1)` times the clipped gradient, which the louder sounds make long."""
    page = melgan.build(native=False)
    page.data["x"], page.data["y"] = page.x * 20, page.y * 20
    x, y = (ops.convert_to_tensor(a) for a in conventions.batch(0, melgan.BATCH_SIZE, page.x, page.y))
    weights = page.discriminator.trainable_weights
    with ts.GradientTape() as tape:
        loss = melgan.discriminator_loss(page.discriminator(page.generator(x)), page.discriminator(y))
    gradients = [ops.convert_to_numpy(g) for g in tape.gradient(loss, weights)]
    norms = [np.linalg.norm(g) for g in gradients]
    assert min(norms) < 0.9
    assert max(norms) > 1.1

    next(melgan.steps(page, compile=True))
    first_moments = [v for v in page.discriminator_optimizer.variables if v.path.endswith("_momentum")]
    for gradient, norm, moment in zip(gradients, norms, first_moments, strict=True):
        expected = 0.5 * gradient / max(norm, 1)
        np.testing.assert_allclose(ops.convert_to_numpy(moment.value), expected, rtol=1e-3, atol=1e-6)
