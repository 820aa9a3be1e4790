"""Loading the models of runs, and checking that several can form an ensemble."""

from __future__ import annotations

from functools import partial
from itertools import zip_longest

import torch

from regard.data import Codec
from regard.devices import DTYPES, Precision
from regard.errors import UserError
from regard.nn import Seq2Seq
from regard.nn.build import build_model
from regard.runs import MODEL, Run, expected_shapes
from regard.torch_state import private_torch_state


def load_model(run: Run, codec: Codec, device: torch.device, precision: Precision) -> Seq2Seq:
    """The best model of a run, in evaluation mode.

    Args:
        run: The run directory.
        codec: Its codec.
        device: The device that it will compute on.
        precision: The precision of its weights, and of what it computes from them.
    """
    build = partial(build_model, run.experiment.model, *codec.sizes)
    with run.open_tensors(MODEL) as weights:
        weights.check_weights(expected_shapes(build))  # before memory for the sizes in config.yaml is allocated
        # The weights are replaced at once: initializing them must not change the caller's random state.
        with private_torch_state():
            model = build().eval()
        weights.copy_weights(model)
    return model.to(device, DTYPES[precision])


def check_same_vocabularies(run: Run, codec: Codec, other_run: Run, other_codec: Codec) -> None:
    """Raise a `UserError` unless two runs have the same source and target tokens.

    Args:
        run: A run directory.
        codec: Its codec.
        other_run: Another run directory.
        other_codec: Its codec.
    """
    sides = {
        "source": (codec.source_vocabulary, other_codec.source_vocabulary),
        "target": (codec.target_vocabulary, other_codec.target_vocabulary),
    }
    for side, (own, others) in sides.items():
        for index, (token, other_token) in enumerate(zip_longest(own.tokens, others.tokens)):
            if token != other_token:
                raise UserError(
                    f"{run.path} and {other_run.path} cannot form an ensemble: their {side} vocabularies differ, token "
                    f"{index} is {token!r} in the first and {other_token!r} in the second; train both on the same data"
                )
