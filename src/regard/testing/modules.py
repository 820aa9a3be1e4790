"""Properties of a model as a PyTorch module: gradients, state, determinism, and weights that can be saved and loaded.

Each function checks one property of a model in evaluation mode, and raises `PropertyError` if it does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.data import Batch
from regard.nn import Seq2Seq
from regard.runs.weights import expected_shapes, named_weights
from regard.testing.failures import checks_that, describe_error, expect, expect_close
from regard.testing.samples import more_padding

# A softmax does not change when a constant is added to all scores, which is all that the bias of keys does.
WITHOUT_GRADIENT = ("attention.key_layer.bias",)


def batch_loss(model: Seq2Seq, batch: Batch, source: Tensor, valid: Tensor) -> Tensor:
    """The cross-entropy of the batch's outputs.

    Args:
        model: The model.
        batch: The targets.
        source: The sources, [batch, positions].
        valid: True for tokens, False for padding, [batch, positions].
    """
    return cross_entropy(model(source, valid, batch.inputs, batch.valid), batch.outputs[batch.valid])


def loss_gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor | None]:
    """The gradient of each parameter, by name; None if the loss does not depend on it.

    Args:
        model: The model.
        loss: A loss that it computed.
    """
    named = dict(model.named_parameters())
    return dict(zip(named, torch.autograd.grad(loss, list(named.values()), allow_unused=True), strict=True))


@checks_that("every parameter gets a finite gradient")
def check_gradients(
    model: Seq2Seq, batch: Batch, *, complete: bool = True, without_gradient: Iterable[str] = WITHOUT_GRADIENT
) -> None:
    """Gradients of the loss are finite, and every parameter affects the loss.

    Args:
        model: The model.
        batch: Sources and targets.
        complete: Whether all parameters must affect the loss. With hard attention, or none, some do not.
        without_gradient: Ends of the names of parameters whose gradient may be 0.
    """
    loss = batch_loss(model, batch, batch.source, batch.source_valid)
    for name, gradient in loss_gradients(model, loss).items():
        if gradient is not None:
            expect(
                gradient.isfinite().all(),
                f"the gradient of {name} is not finite",
                "look for a division by 0, a logarithm or root of 0, an exponential that overflows, or a softmax over "
                "scores that are all -inf",
            )
        if complete and not name.endswith(tuple(without_gradient)):
            expect(
                gradient is not None and gradient.any(),
                f"the parameter {name} does not affect the loss",
                "use it in `forward`, without `detach`, `.data` or a function that has no gradient, or remove it",
            )


@checks_that("padding changes no gradient")
def check_padding_gradients(model: Seq2Seq, batch: Batch) -> None:
    """The gradients do not depend on the padding of sources.

    Args:
        model: The model.
        batch: Sources of different lengths, and targets.
    """
    plain = loss_gradients(model, batch_loss(model, batch, batch.source, batch.source_valid))
    padded = loss_gradients(model, batch_loss(model, batch, *more_padding(batch)))
    for name, gradient in plain.items():
        other = padded[name]
        if gradient is not None and other is not None:
            expect_close(
                other,
                gradient,
                f"more padding changes the gradient of {name}",
                "mask positions where `valid` is False; they affect training although the outputs may be the same",
            )
        else:
            expect(other is gradient, f"padding decides whether {name} has a gradient", "do not branch on padding")


def stored_values(module: nn.Module) -> dict[tuple[str, str], Any]:
    """The attributes of a module and its submodules, by identity; containers by the identity of their items.

    Args:
        module: The module.
    """

    def identity(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: id(item) for key, item in value.items()}
        return [id(item) for item in value] if isinstance(value, list | tuple | set) else id(value)

    modules = module.named_modules()
    return {(name, key): identity(value) for name, each in modules for key, value in vars(each).items()}


def expect_stateless(module: nn.Module, call: Callable[[], object]) -> None:
    """Expect that a call stores nothing in a module and changes none of its weights.

    Args:
        module: The module.
        call: Calls its methods.
    """
    before, weights = stored_values(module), {name: value.clone() for name, value in module.state_dict().items()}
    call()
    after = stored_values(module)
    changed = {key: name for (name, key), value in after.items() if before.get((name, key)) != value}
    kept = ", ".join(f"`{f'{name}.' if name else ''}{key}`" for key, name in changed.items())
    expect(
        not changed,
        f"a call stores {kept} on the module",
        "hypotheses, sentences and threads share the module; keep what belongs to one call in the `Memory`, the "
        "`Encoding` or the state that is returned",
    )
    same = [name for name, value in module.state_dict().items() if not torch.equal(value, weights[name])]
    expect(not same, f"a call changes the weights {', '.join(same)}", "weights change only in training")


@checks_that("modules store nothing of a call")
@torch.inference_mode()
def check_stateless(model: Seq2Seq, batch: Batch) -> None:
    """Modules store parameters and sizes, and nothing that belongs to one call.

    Args:
        model: The model.
        batch: Sources and targets.
    """

    def call() -> None:
        state = model.start(batch.source, batch.source_valid)
        model.decoder.teacher_forced(batch.inputs, state)
        model.decoder.scheduled_sampling(batch.inputs, state, batch.valid)
        model.decoder.step(batch.inputs[:, 0], state)

    expect_stateless(model, call)


@checks_that("the same input gives the same output")
@torch.inference_mode()
def check_determinism(model: Seq2Seq, batch: Batch) -> None:
    """In evaluation mode nothing is random; in training mode, PyTorch's random state determines everything.

    Args:
        model: The model.
        batch: Sources and targets.
    """

    def outputs() -> Tensor:
        return model(batch.source, batch.source_valid, batch.inputs, batch.valid)

    expect(
        torch.equal(outputs(), outputs()),
        "the same batch gives other outputs the second time, in evaluation mode",
        "apply dropout and noise only if `self.training`, and keep nothing of a call on `self`",
    )
    model.train()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            once = outputs()
            torch.manual_seed(3)
            again = outputs()
    finally:
        model.eval()
    expect(
        torch.equal(once, again),
        "the same batch gives other outputs with the same seed, in training mode",
        "draw all random numbers from PyTorch, so that a training can be resumed",
    )


@checks_that("`source_attentions` and `decoder_states` are those of `forward_steps`")
@torch.inference_mode()
def check_source_attentions(model: Seq2Seq, batch: Batch) -> None:
    """`source_attentions` returns the mechanisms that compute the weights, `decoder_states` states of their query size.

    Args:
        model: The model.
        batch: Sources and targets.
    """
    decoder, recorded = model.decoder, []
    mechanisms = decoder.source_attentions
    hooks = [each.register_forward_hook(lambda *call: recorded.append(call[2][1])) for each in mechanisms]
    try:
        features, weights, _ = decoder.forward_steps(batch.inputs, model.start(batch.source, batch.source_valid))
    finally:
        for hook in hooks:
            hook.remove()
    advice = "`source_attentions` returns the mechanisms whose weights `forward_steps` returns, in the order of layers"
    expect(
        len(recorded) >= len(mechanisms) > 0,
        f"{len(recorded)} of {len(mechanisms)} `source_attentions` were called",
        f"{advice}; call the mechanism as a module, `self.attention(query, memory)`",
    )
    # One step per call or all steps at once; the recorded weights are the ones reported in both cases.
    by_layer = [torch.cat(recorded[layer :: len(mechanisms)], -2) for layer in range(len(mechanisms))]
    problem = "the weights of `forward_steps` are not those of `source_attentions`"
    expect_close(torch.stack(by_layer, 1).reshape(weights.shape), weights, problem, advice)
    states, expected = decoder.decoder_states(features), [*batch.inputs.shape, mechanisms[0].query_size]
    expect(
        list(states.shape) == expected,
        f"`decoder_states` has the shape {list(states.shape)} instead of {expected}",
        "it returns the part of the features that is the decoder's own state, [batch, steps, size]",
    )


@checks_that("weights can be saved and loaded")
@torch.inference_mode()
def check_saved_weights(model: Seq2Seq, build: Callable[[], Seq2Seq], batch: Batch) -> None:
    """A new model with the named parameters of another one computes the same.

    Args:
        model: The model.
        build: Returns a model with the same settings and other weights, in evaluation mode.
        batch: Sources and targets.
    """
    loaded, saved = build(), named_weights(model)
    own = named_weights(loaded)
    expect(own.keys() == saved.keys(), "two models with the same settings have other parameters", "see `__init__`")
    for name, weight in own.items():
        weight.copy_(saved[name])
    expect_close(
        loaded(batch.source, batch.source_valid, batch.inputs, batch.valid),
        model(batch.source, batch.source_valid, batch.inputs, batch.valid),
        "a model with the same parameters computes something else",
        "only parameters are saved; make every learned or random tensor an `nn.Parameter`, and compute constants anew "
        "in `__init__` without random numbers",
    )


@checks_that("the model can be built on the `meta` device")
def check_meta_device(model: Seq2Seq, build: Callable[[], Seq2Seq]) -> None:
    """Parameters have the same shapes on the `meta` device, where a run's weights are checked before they are loaded.

    Args:
        model: The model.
        build: Returns a model with the same settings.
    """
    advice = "a run's shapes are checked there before its weights are loaded; read no values of tensors in `__init__`"
    try:
        shapes = expected_shapes(build)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        expect(False, f"it cannot be built on the `meta` device ({describe_error(error)})", advice)
        raise
    expected = {name: tuple(weight.shape) for name, weight in named_weights(model).items()}
    expect(shapes == expected, "its parameters have other names or shapes on the `meta` device", advice)


@checks_that("a training step lowers the loss of its batch")
def check_training_step(model: Seq2Seq, batch: Batch) -> None:
    """A few steps of gradient descent on one batch lower its loss, which stays finite. Changes the weights.

    Args:
        model: The model.
        batch: Sources and targets.
    """
    losses = []
    for _ in range(4):
        loss = batch_loss(model, batch, batch.source, batch.source_valid)
        losses.append(loss.item())
        gradients, weights = loss_gradients(model, loss), named_weights(model)
        for name, gradient in gradients.items():
            if gradient is not None:
                weights[name].sub_(gradient, alpha=0.02)
    expect(
        all(map(math.isfinite, losses)),
        f"the losses of four steps are {', '.join(f'{each:.3g}' for each in losses)}",
        "look for divisions by 0 and for numbers that grow without limit",
    )
    expect(
        losses[-1] < losses[0],
        f"the loss of a batch rises from {losses[0]:.3f} to {losses[-1]:.3f} in four small steps",
        "gradients do not lead downhill; a function with a gradient of its own has an error, or the model is random",
    )
