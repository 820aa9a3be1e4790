"""Pictures of lines of text."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from regard.config.schema import Experiment
from regard.data import Codec, load
from regard.errors import UserError
from regard.images import picture_from_uri
from regard.tasks.text_line import TextLineDataset, TextLineSection, TextLineTask, covered
from regard.testing import check_task

SMALL = {"train": 60, "validation": 5, "test": 7}


def pairs(**settings):
    dataset = TextLineDataset(TextLineSection.model_validate(settings))
    random = Random(3)
    return [dataset.generate(random) for _ in range(40)]


@pytest.mark.parametrize("options", [{}, {"patch_height": 8, "patch_width": 8}, {"alphabet": "abgÄω", "max_length": 3}])
def test_the_task_fulfills_the_interface(options) -> None:
    check_task(TextLineTask, **SMALL, **options)


def test_pictures_depend_on_the_seed_alone() -> None:
    first, again, other = (load("text-line", **SMALL, seed=seed)["test"] for seed in (1, 1, 2))
    assert first == again
    assert {pair.source for pair in first}.isdisjoint(pair.source for pair in other)


def test_texts_of_a_seed_never_change() -> None:
    """Pixels may: they depend on the version of the library that draws the fonts."""
    pair = load("text-line", **SMALL)["test"][0]
    assert (pair.target, picture_from_uri(pair.source).height) == ("32448470", 32)


@pytest.mark.parametrize("patch_height", [None, 8])
def test_aligned_patches_have_the_ink_of_their_character(patch_height: int | None) -> None:
    """In a picture of separate characters without noise, patches that belong to no character have no strong ink."""
    for pair in pairs(noise=0.0, patch_height=patch_height, patch_width=2, fonts=["mono"], alphabet="0123456789"):
        grid = TextLineSection(patch_height=patch_height, patch_width=2).patches
        patches = [np.frombuffer(patch, np.uint8) for patch in grid.read(pair.source).patches]
        of_character = [[s for s, t in pair.alignment if t == index] for index in range(len(pair.target))]
        ink = [sum(int(patches[s].sum()) for s in aligned) for aligned in of_character]
        assert all(ink)
        if patch_height is None:
            assert sum(ink) > 0.75 * sum(int(patch.sum()) for patch in patches)
            starts = [min(aligned) for aligned in of_character]
            assert starts == sorted(starts)


def test_patches_of_a_box() -> None:
    columns = ((0, 0, 4, 8), (4, 0, 8, 8), (8, 0, 12, 8))
    assert covered(columns, (1, 3, 7, 5)) == [0, 1]
    assert covered(columns, (3, 3, 5, 5)) == [0]  # none of their centers is inside: the nearest one
    squares = ((0, 0, 4, 4), (4, 0, 8, 4), (0, 4, 4, 8), (4, 4, 8, 8))
    assert covered(squares, (4, 1, 8, 7)) == [1, 3]


def test_settings_vary_what_they_name() -> None:
    centered = pairs(shift=0.0, noise=0.0, min_size=0.8, max_size=0.8, fonts=["mono"], max_length=1)
    tops = {int(np.flatnonzero((np.asarray(picture_from_uri(pair.source)) < 128).any(1))[0]) for pair in centered}
    assert max(tops) - min(tops) <= 1
    shifted = pairs(shift=1.0, noise=0.0, min_size=0.4, max_size=0.8, max_length=1)
    tops = {int(np.flatnonzero((np.asarray(picture_from_uri(pair.source)) < 128).any(1))[0]) for pair in shifted}
    assert max(tops) - min(tops) > 8
    clean, noisy = (np.asarray(picture_from_uri(pairs(noise=noise)[0].source)).astype(float) for noise in (0.0, 0.5))
    assert len(np.unique(clean)) < len(np.unique(noisy))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patch_height": 5}, "data.patch_height: patches of 5 do not fill a height of 32; give a divisor"),
        ({"min_size": 0.9, "max_size": 0.5}, "data.min_size: 0.9 is more than max_size, 0.5; make it smaller"),
        ({"alphabet": "a b"}, "data.alphabet: white space leaves no ink; omit it"),
        ({"alphabet": "a漢"}, "data.alphabet: the font 'sans' has no '漢'; omit it, or the font"),
        ({"fonts": ["monospace"]}, "data.fonts: .* there is no font 'monospace'; did you mean 'mono'"),
    ],
)
def test_settings_that_make_no_picture_are_refused(settings, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Experiment.load({"data": {"task": "text-line", **settings}})


def test_lines_that_are_wider_than_the_model_reads_are_refused() -> None:
    with pytest.raises(UserError, match=r"data\.max_width: the picture of '\d+' is \d+ pixels wide"):
        pairs(max_width=40)


@pytest.mark.parametrize("option", ["model.share_embeddings", "decoding.copy_unknown"])
def test_options_without_meaning_are_refused(option: str) -> None:
    with pytest.raises(UserError, match=rf"{option}: .*set it to false"):
        Experiment.load("digits", {option: True, "model.encoder.embedding": 32})


def test_a_codec_knows_patches_and_characters() -> None:
    splits = load("text-line", **SMALL)
    task = TextLineTask(TextLineSection.model_validate(SMALL))
    codec = Codec.build(task.tokenization, splits["train"])
    pair = splits["test"][0]
    example = codec.example(pair)
    assert codec.sizes == (task.section.patches, len(codec.target_vocabulary))
    assert codec.source_tokens(pair.source)[:2] == ["1", "2"]
    assert len(codec.source_tokens(pair.source)) == len(example.source)
    assert example.source[-1] == bytes(128)
    assert codec.text(example.target[1:]) == pair.target
