"""The trained models of runs, and how they encode texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from regard.data import Codec, EncodedSource, Example
from regard.devices import check_precision, select_device
from regard.errors import UserError
from regard.images import is_picture, picture_uri
from regard.inference.model_loading import check_same_vocabularies, load_model
from regard.inference.translation import Translation
from regard.nn import Seq2Seq
from regard.runs import Run
from regard.search import Ensemble
from regard.text import Pair, Vocabulary

if TYPE_CHECKING:
    from PIL.Image import Image

    SourceInput = str | Path | Image | EncodedSource


class RunEnsemble:
    """The best model of a run, or of several runs with the same vocabularies.

    Args:
        run: A run directory.
        others: More run directories.
        device: The device of the models: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.
        precision: The precision of the models: `float32`, `bfloat16` or `float16`.

    Attributes:
        runs: The run directories.
        experiment: The settings of the first run.
        codecs: The codec of each run.
        codec: That of the first run.
        ensemble: The models.

    Raises:
        UserError: If a run has no model, the runs have different vocabularies, or there is no such device.
    """

    def __init__(self, run: Run, *others: Run, device: str | torch.device = "auto", precision: str = "float32") -> None:
        for each in (run, *others):
            if not isinstance(each, Run):
                raise UserError(f"{each!r:.80} is not an open run; regard.load opens a run directory")
        chosen_device = select_device(str(device))
        chosen_precision = check_precision(precision, chosen_device)
        codecs = [each.codec for each in (run, *others)]
        for other, codec in zip(others, codecs[1:], strict=True):
            check_same_vocabularies(run, codecs[0], other, codec)
        models = [
            load_model(each, codec, chosen_device, chosen_precision)
            for each, codec in zip((run, *others), codecs, strict=True)
        ]
        self._set_models((run, *others), codecs, models)

    @classmethod
    def of_model(cls, run: Run, model: Seq2Seq) -> Self:
        """With a model in memory, such as one that is being trained, in place of the best one of its run.

        Args:
            run: The run directory, for settings and vocabularies.
            model: The model.
        """
        ensemble = cls.__new__(cls)  # `__init__` would load a model
        ensemble._set_models((run,), [run.codec], [model])
        return ensemble

    def _set_models(self, runs: tuple[Run, ...], codecs: list[Codec], models: Sequence[Seq2Seq]) -> None:
        self.runs = runs
        self.experiment = runs[0].experiment
        self.codecs = codecs
        self.codec = codecs[0]
        self.ensemble = Ensemble(models)

    @property
    def model(self) -> Seq2Seq:
        """The model of the first run."""
        return self.ensemble.models[0]

    @property
    def device(self) -> torch.device:
        """The device of the models, on which every search runs."""
        return next(self.model.parameters()).device

    @property
    def banned_tokens(self) -> tuple[int, ...]:
        """The ids of tokens that are never generated."""
        known = self.codec.target_vocabulary
        tags = known.to_ids(tag for tag in self.codec.tokenization.tags if tag in known)
        always = (Vocabulary.pad, Vocabulary.begin, *tags)
        return always if self.experiment.decoding.copy_unknown else (*always, Vocabulary.unknown)

    @property
    def reads_pictures(self) -> bool:
        """True if sources are pictures, False if they are texts."""
        return self.codec.tokenization.patches is not None

    def encode(self, source: SourceInput) -> EncodedSource:
        """A source text as token ids, or a picture as patches; those of a text without tokens are empty.

        Args:
            source: A source text; or a picture, as a data URI, the path of a PNG or JPEG file, or a PIL image.

        Raises:
            UserError: If a model cannot process it.
        """
        if isinstance(source, EncodedSource):
            return source
        text = self._source_text(source)
        check_unicode(text)
        encoded = self.codec.encode_source(text) if text else EncodedSource("", (), (), Vocabulary.begin)
        if not encoded.ids:
            return encoded
        for run, codec in zip(self.runs[1:], self.codecs[1:], strict=True):
            other = codec.encode_source(text)
            if (other.ids, other.start) != (encoded.ids, encoded.start):
                raise UserError(
                    f"{run.path} tokenizes this text differently from {self.runs[0].path}: they cannot form an ensemble"
                )
        limit = self.ensemble.max_source_length
        if limit is not None and len(encoded.ids) > limit:
            what, parts = ("picture", "patches") if encoded.image else ("text", "tokens")
            count = f"this {what} has {len(encoded.ids)} {parts}, <end> included"
            raise UserError(f"{count}; this model has {limit} positions")
        return encoded

    def _source_text(self, source: str | Path | Image) -> str:
        """The text or the data URI of a source; a `UserError` if it is not what the models read."""
        if self.reads_pictures:
            return source if isinstance(source, str) else picture_uri(source)
        if not isinstance(source, str):
            raise UserError(f"{source!r:.80} is not a text")
        if is_picture(source):
            raise UserError("this is a picture, and this model reads texts; choose a run of the task text-line")
        return source

    def encode_pair(self, source: SourceInput, target: str) -> Example:
        """A source text and its translation as token ids; both are empty if both texts are.

        Args:
            source: What `encode` accepts.
            target: A translation of it.

        Raises:
            UserError: If a model cannot process one of them.
        """
        encoded = self.encode(source)
        if not encoded.ids:
            if target:
                raise UserError("its source is empty, and an empty text has an empty translation")
            return Example((), ())
        check_unicode(target)
        output = self.codec.target(Pair(encoded.text, target))
        self.check_target_length("this target", len(output))
        return Example(encoded.ids, (encoded.start, *output))

    def encode_translation(self, source: SourceInput, translation: Translation) -> Example:
        """A source text and its translation by this model as token ids.

        Args:
            source: What `encode` accepts.
            translation: What `translate` returned for it.
        """
        encoded = self.encode(source)
        return Example(encoded.ids, (encoded.start, *self.codec.target_vocabulary.output_to_ids(translation.tokens)))

    def check_target_length(self, what: str, tokens: int) -> None:
        """Raise `UserError` if a model has fewer positions than a target needs.

        Args:
            what: What the target is, for the message.
            tokens: Its number of tokens, `<end>` included.
        """
        limit = self.ensemble.max_target_length
        if limit is not None and tokens > limit:
            raise UserError(f"{what} has {tokens} tokens, <end> included; this model has {limit} positions")


def check_unicode(text: str) -> None:
    """Raise `UserError` at a lone surrogate, which Python has in place of an invalid byte of the command line.

    Args:
        text: A text from a user.
    """
    if not isinstance(text, str):
        raise UserError(f"{text!r:.80} is not a text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"character {error.start + 1}, {text[error.start]!r}, is not Unicode; write it in UTF-8"
        ) from None
