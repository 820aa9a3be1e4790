"""Parse a study from a YAML file, or from command-line options as if they were one.

    question: Does attention help, and does it matter which states it attends to?
    experiment: multi30k                                  # a recipe, or an experiment file
    set: {training.epochs: 6}                             # what all runs have in common
    vary:
      model.attention.kind: [none, mean, scaled-dot]      # an axis: the values of a key …
      width:                                              # … or named groups of settings
        narrow: {model.encoder.size: 32, model.decoder.size: 64}
        wide: {model.encoder.size: 64, model.decoder.size: 128}
    test: {beam: [1, 5]}                                  # axes of how, or on what, each model is evaluated
    seeds: 3
    baseline: {model.attention.kind: none}                # what the others are compared with
    metrics: [bleu_lc, validation_loss]                  # the first is compared
    expect:
      - {order: [none, mean, scaled-dot]}                 # from worse to better

The axes of `test` have the keys of `DecodeOptions` (`beam`, `length_penalty`, `split`) and those of `data`. Every point
of the grid is validated before anything is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.config import loading, recipes, yaml_source
from regard.config.base import KeyPath
from regard.config.draft import ExperimentDraft, Override, key_path
from regard.config.explanations import explain_validation_error
from regard.config.references import absolute_paths
from regard.config.schema import Experiment
from regard.config.yaml_source import YamlLeaf
from regard.errors import UserError, suggest
from regard.studies.axes import Axis, Option, option_label
from regard.studies.definition import Condition, Plan, Study
from regard.studies.evaluations import DecodeOptions, EvaluationSpec
from regard.studies.study_checks import Origin, check_axes, check_conditions, check_plan

KEYS = ("set", "vary", "test", *Plan.model_fields)
SECTIONS = f"a study has the keys {', '.join(KEYS)}"
EXAMPLES = {
    "set": ("training.epochs", "2"),
    "vary": ("model.attention.kind", "none,dot"),
    "test": ("beam", "1,5"),
    "baseline": ("model.attention.kind", "none"),
}
# Runs are processes that share the cores. A study may override this.
ONE_THREAD = Override(("training", "threads"), 1, "a study's runs have one thread each")


def parse_study(text: str, where: str) -> list[YamlLeaf]:
    """The settings of a study.

    Args:
        text: YAML.
        where: Its origin, for error messages.
    """
    return list(yaml_source.parse_leaves(text, where, SECTIONS))


def parse_study_file(path: Path) -> list[YamlLeaf]:
    """The settings of a study in a file.

    Args:
        path: A YAML file.
    """
    text = yaml_source.read_text_file(path)
    if text is None:
        raise UserError(f"{path}: there is no such file; a study is a YAML file")
    return parse_study(text, str(path))


def from_options(**given: Any) -> list[YamlLeaf]:
    """The settings of a study from command-line options.

    Args:
        given: The values of a study's keys; None if not given. `set`, `vary`, `test` and `baseline` are lists of texts
            such as `KEY=VALUE`.
    """
    leaves: list[YamlLeaf] = []
    for key, value in given.items():
        if key in EXAMPLES:
            for text in value or ():
                leaves += _parse_option(key, text)
        elif value is not None:
            leaves.append(YamlLeaf((key,), value, "the command line", Path.cwd()))
    return leaves


def override_leaves(leaves: Sequence[YamlLeaf], added: Sequence[YamlLeaf]) -> list[YamlLeaf]:
    """The settings of a study with others added. A new baseline replaces the old one as a whole.

    Args:
        leaves: The settings of the study.
        added: From `from_options`, or from Python values.
    """
    replaced = {"baseline"} & {leaf.path[0] for leaf in added}
    return [*(leaf for leaf in leaves if leaf.path[0] not in replaced), *added]


def _parse_option(section: str, text: str) -> Iterator[YamlLeaf]:
    """Parse `--vary KEY=VALUE,VALUE` or `--set KEY=VALUE`. Paths are relative to the current folder."""
    several = section in ("vary", "test")
    origin = f"--{section} {text}"
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"{origin}: this should be KEY=VALUE, as in --{section} {'='.join(EXAMPLES[section])}")
    value = yaml_source.parse_value(f"[{values}]" if several else values, origin)
    return flatten_leaf(YamlLeaf((section, key.strip()), value, origin, Path.cwd()))


def flatten_leaf(leaf: YamlLeaf) -> Iterator[YamlLeaf]:
    """The leaves of a nested value, as in a file.

    Args:
        leaf: A key whose value may be a dictionary.
    """
    if isinstance(leaf.value, dict) and leaf.value:
        for key, value in leaf.value.items():
            yield from flatten_leaf(replace(leaf, path=(*leaf.path, option_label(key)), value=value))
    else:
        yield leaf


def build_study(
    name: str,
    leaves: Iterable[YamlLeaf],
    folder: Path = Path(),
    *,
    check_files: bool = False,
    load: Callable[[Sequence[Override]], Experiment] | None = None,
) -> Study:
    """Build a study and validate all of its experiments.

    Args:
        name: That of the study.
        leaves: Its settings; a later one replaces an earlier one.
        folder: What relative paths are relative to, unless a leaf has its own folder.
        check_files: Whether the files that the settings name must exist, as they must before a training.
        load: Returns the experiment with overrides, in place of the recipe or file that the study names.
    """
    draft, order = ExperimentDraft(name), dict[KeyPath, int]()
    for leaf in leaves:
        path = _canonical_path(leaf.path)
        draft.set(Override(path, leaf.value, leaf.origin, folder / leaf.folder))
        order.setdefault(path[:2], len(order))  # an axis that is replaced keeps its position
    kept = [YamlLeaf(path, value, draft.origins[path], draft.folders[path]) for path, value in draft.values.items()]
    kept.sort(key=lambda leaf: order[leaf.path[:2]])
    plan = _parse_plan([leaf for leaf in kept if leaf.path[0] not in ("set", "vary", "test")], draft.origin)
    common = [Override(leaf.path[1:], leaf.value, leaf.origin, leaf.folder) for leaf in _leaves_of(kept, "set")]
    vary = _parse_axes(_leaves_of(kept, "vary"), trains=True)
    tests = _parse_axes(_leaves_of(kept, "test"), trains=False)
    axes = (*vary, *tests)
    check_axes(axes, common)
    check_plan(plan, axes, draft.origin)
    load = load or partial(
        loading.load_experiment,
        plan.experiment,
        folder=folder,
        origin=f"{draft.origin(('experiment',))}: experiment",
        check_files=check_files,
    )
    conditions = list(_build_conditions(load, common, vary, tests))
    check_conditions(name, conditions)
    keys = {key for condition in conditions for key in condition.experiment.path_keys}
    paths: set[KeyPath] = {(*key, *rest) for key in keys for rest in ((), ("path",))}
    return Study(name, plan, axes, tuple(conditions), tuple(_with_absolute_paths(kept, paths)))


def extends_study(study: Study, text: str, where: str) -> bool:
    """True if a study is the one that `text` defines, or extends it by seeds, options or axes.

    Args:
        study: The new one.
        text: The definition of the earlier one, as YAML.
        where: Its origin, for error messages.
    """
    old = {_canonical_path(leaf.path): leaf.value for leaf in parse_study(text, where)}
    new = {leaf.path: leaf.value for leaf in study.leaves}
    for path in old.keys() | new.keys():
        known, now = old.get(path), new.get(path)
        if path[0] in ("experiment", "set") and known != now:
            return False
        if path[0] in ("vary", "test") and path in old:
            grown = isinstance(known, list) and isinstance(now, list) and all(value in now for value in known)
            if known != now and not grown:
                return False
    return True


def _canonical_path(path: KeyPath) -> KeyPath:
    """One path for each key, however it is written: with dots, as nested keys, or with its name in Regard 0.5."""
    section, *rest = path
    if section == "measures":
        return "metrics", *rest
    if section == "set" and rest:
        return section, *key_path(".".join(rest))
    return (section, ".".join(rest)) if section == "baseline" and rest else path


def _leaves_of(leaves: Sequence[YamlLeaf], key: str) -> list[YamlLeaf]:
    found = [leaf for leaf in leaves if leaf.path[0] == key]
    for leaf in found:
        if len(leaf.path) == 1 and leaf.value not in (None, {}):
            raise UserError(f"{leaf.origin}: {key}: this should have keys of its own, such as {EXAMPLES[key][0]}")
    return [leaf for leaf in found if len(leaf.path) > 1]


def _parse_plan(leaves: Sequence[YamlLeaf], origin: Origin) -> Plan:
    values: dict[str, Any] = {}
    for leaf in leaves:
        if leaf.path[0] not in KEYS:
            raise UserError(f"{leaf.origin}: {leaf.path[0]}: unknown key; {suggest(leaf.path[0], KEYS)}")
        if len(leaf.path) == 1:
            values[leaf.path[0]] = leaf.value
        else:
            values.setdefault(leaf.path[0], {})[".".join(leaf.path[1:])] = leaf.value
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise UserError(explain_validation_error(error, Plan, (), origin)) from None


def _parse_axes(leaves: Sequence[YamlLeaf], trains: bool) -> list[Axis]:
    options: dict[str, dict[str, list[Override]]] = {}
    origins: dict[str, str] = {}
    for leaf in leaves:
        _, name, *rest = leaf.path
        origins.setdefault(name, leaf.origin)
        own = options.setdefault(name, {})
        if rest:
            label, *keys = rest
            found = own.setdefault(label, [])
            if keys:
                found.append(Override(key_path(".".join(keys)), leaf.value, leaf.origin, leaf.folder))
            elif leaf.value not in (None, {}):
                example = "training.epochs: 2" if trains else "beam: 5"
                raise UserError(
                    f"{leaf.origin}: {name}: {label}: this should be a group of settings, such as {{{example}}}; "
                    f"an axis with the values of a key is written with dots, {name}.{label}"
                )
            continue
        if not isinstance(leaf.value, list) or not leaf.value:
            raise UserError(f"{leaf.origin}: {name}: this should be a list of values, or groups of settings with names")
        for value in leaf.value:
            label = option_label(value)
            if label in own and isinstance(value, str):
                label = value  # files of the same name in different folders
            if label in own:
                raise UserError(f"{leaf.origin}: {name}: {label} appears twice")
            own[label] = [Override(key_path(name), value, leaf.origin, leaf.folder)]
    return [
        Axis(name, tuple(Option(label, tuple(found)) for label, found in own.items()), origins[name], trains)
        for name, own in options.items()
    ]


def _build_conditions(
    load: Callable[[Sequence[Override]], Experiment],
    common: Sequence[Override],
    vary: Sequence[Axis],
    tests: Sequence[Axis],
) -> Iterator[Condition]:
    for trained in product(*(axis.options for axis in vary)):
        chosen = [ONE_THREAD, *common, *(setting for option in trained for setting in option.settings)]
        experiment = load(chosen)
        for tested in product(*(axis.options for axis in tests)):
            test_settings = [setting for option in tested for setting in option.settings]
            other = [setting for setting in test_settings if setting.path[0] == "data"]
            data = load([*chosen, *other]).data if other else experiment.data
            options = _parse_decode_options([setting for setting in test_settings if setting.path[0] != "data"])
            labels = tuple(option.label for option in (*trained, *tested))
            yield Condition(labels, experiment, EvaluationSpec(data, options))


def _parse_decode_options(chosen: Sequence[Override]) -> DecodeOptions:
    by_key = {".".join(setting.path): setting for setting in chosen}
    for key, setting in by_key.items():
        if key not in DecodeOptions.model_fields:
            raise UserError(
                f"{setting.origin}: {key}: unknown key; {suggest(key, DecodeOptions.model_fields)}, or one of data"
            )
    try:
        return DecodeOptions.model_validate({key: setting.value for key, setting in by_key.items()})
    except ValidationError as error:
        raise UserError(
            explain_validation_error(error, DecodeOptions, (), lambda path: by_key[path[0]].origin)
        ) from None


def _with_absolute_paths(leaves: Iterable[YamlLeaf], paths: Set[KeyPath]) -> Iterator[YamlLeaf]:
    """Leaves with absolute paths, so that files are found from any folder; options keep their labels.

    Args:
        leaves: The settings of a study.
        paths: The settings of its experiments that are paths of files.
    """
    for leaf in leaves:
        section, *rest = leaf.path
        has_texts = isinstance(leaf.value, list) and any(isinstance(value, str) for value in leaf.value)
        if section == "experiment":
            yield (
                leaf
                if leaf.value in recipes.recipe_names()
                else replace(leaf, value=absolute_paths(leaf.value, leaf.folder))
            )
        elif has_texts and len(rest) == 1 and key_path(rest[0]) in paths:
            for value in leaf.value:
                path = (*leaf.path, option_label(value), rest[0])
                yield replace(leaf, path=path, value=absolute_paths(value, leaf.folder))
        elif key_path(".".join(rest if section == "set" else rest[2:])) in paths:
            yield replace(leaf, value=absolute_paths(leaf.value, leaf.folder))
        else:
            yield leaf
