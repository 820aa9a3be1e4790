"""Reading a study: from a YAML file, or from the command line as if it were one.

    question: Does attention help, and is it the looking that helps?
    experiment: multi30k                                  # a recipe, or an experiment file
    set: {training.epochs: 6}                             # what all runs have in common
    vary:
      model.attention.kind: [none, mean, scaled-dot]      # an axis: the values of a key …
      width:                                              # … or groups of settings, each with a name
        narrow: {model.encoder.size: 32, model.decoder.size: 64}
        wide: {model.encoder.size: 64, model.decoder.size: 128}
    test: {beam: [1, 5]}                                  # the same for how, or on what, each model is tested
    seeds: 3
    baseline: {model.attention.kind: none}                # what the others are held against
    measures: [bleu_lc, validation_loss]                  # the first decides
    expect:
      - {order: [none, mean, scaled-dot]}                 # from worse to better

An axis has the values of a key, or groups of settings with names. Those of `test` are about `beam`, `length_penalty`,
`split` and the settings of `data`. Every point of the grid is checked before anything is trained.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.config import base, loading, recipes, yaml_source
from regard.config.loading import ExperimentDraft, KeyPath, Override, key_path
from regard.config.yaml_source import YamlLeaf
from regard.errors import UserError, suggest
from regard.evaluation.metrics import METRICS
from regard.studies.definition import Axis, Condition, Option, Plan, Study, label_of
from regard.studies.evaluations import DecodeOptions, EvaluationSpec
from regard.tasks import TASKS

MOST_POINTS = 1_000
KEYS = ("set", "vary", "test", *Plan.model_fields)
SECTIONS = f"a study has the keys {', '.join(KEYS)}"
EXAMPLES = {
    "set": ("training.epochs", "2"),
    "vary": ("model.attention.kind", "none,dot"),
    "test": ("beam", "1,5"),
    "baseline": ("model.attention.kind", "none"),
}
# Runs are processes that share the cores. A study may set this otherwise.
ONE_THREAD = Override(("training", "threads"), 1, "a study's runs have one thread each")
NO_AXES = "there is nothing of vary or test to choose from"
PATHS = {("data", key) for task in TASKS.values() for key in task.Section.path_keys}  # where a text names a file
Origin = Callable[[KeyPath], str]  # of a key of the study


def parse_study(text: str, where: str) -> list[YamlLeaf]:
    return list(yaml_source.parse_leaves(text, where, SECTIONS))


def parse_study_file(path: Path) -> list[YamlLeaf]:
    text = yaml_source.read_text_file(path)
    if text is None:
        raise UserError(f"{path}: there is no such file; a study is a YAML file")
    return parse_study(text, str(path))


def from_options(**given: Any) -> list[YamlLeaf]:
    """What the command line says, as if it were written in a file; what is None was not said."""
    leaves: list[YamlLeaf] = []
    for key, value in given.items():
        if key in EXAMPLES:
            for text in value or ():
                leaves += _keyed(key, text)
        elif value is not None:
            leaves.append(YamlLeaf((key,), value, "the command line"))
    return leaves


def override_leaves(leaves: Sequence[YamlLeaf], **given: Any) -> list[YamlLeaf]:
    """A study with what the command line says besides. Another baseline takes the place of the old one as a whole."""
    said = from_options(**given)
    replaced = {"baseline"} & {leaf.path[0] for leaf in said}
    return [*(leaf for leaf in leaves if leaf.path[0] not in replaced), *said]


def _keyed(section: str, text: str) -> Iterator[YamlLeaf]:
    """`--vary KEY=VALUE,VALUE` or `--set KEY=VALUE`. A path in it is meant from where we are."""
    several = section in ("vary", "test")
    origin = f"--{section} {text}"
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"{origin}: this should be KEY=VALUE, as in --{section} {'='.join(EXAMPLES[section])}")
    value = yaml_source.parse_value(f"[{values}]" if several else values, origin)
    return _spread(YamlLeaf((section, key.strip()), value, origin, Path.cwd()))


def _spread(leaf: YamlLeaf) -> Iterator[YamlLeaf]:
    """The leaves of a value that has keys of its own, as in a file."""
    if isinstance(leaf.value, dict) and leaf.value:
        for key, value in leaf.value.items():
            yield from _spread(replace(leaf, path=(*leaf.path, label_of(key)), value=value))
    else:
        yield leaf


def build_study(name: str, leaves: Iterable[YamlLeaf], folder: Path = Path()) -> Study:
    """The study, all of whose experiments are known to be sound. A later leaf takes the place of an earlier one.

    Files are named as seen from `folder`, unless a leaf has its own.
    """
    draft, places = ExperimentDraft(name), dict[KeyPath, int]()
    for leaf in leaves:
        path = _address(leaf.path)
        draft.set(Override(path, leaf.value, leaf.origin, folder / leaf.folder))
        places.setdefault(path[:2], len(places))  # an axis that is given anew stays where it was
    kept = [YamlLeaf(path, value, draft.origins[path], draft.folders[path]) for path, value in draft.values.items()]
    kept.sort(key=lambda leaf: places[leaf.path[:2]])
    plan = _plan([leaf for leaf in kept if leaf.path[0] not in ("set", "vary", "test")], draft.origin)
    common = [Override(leaf.path[1:], leaf.value, leaf.origin, leaf.folder) for leaf in _section(kept, "set")]
    vary = _axes(_section(kept, "vary"), trains=True)
    tests = _axes(_section(kept, "test"), trains=False)
    axes = (*vary, *tests)
    _check_axes(axes, common)
    _check_plan(plan, axes, draft.origin)
    conditions = list(_conditions(plan, draft.origin, common, vary, tests, folder))
    _check_conditions(name, conditions)
    _check_measures(plan, conditions, draft.origin)
    return Study(name, plan, axes, tuple(conditions), tuple(_at_home(kept)))


def continues(study: Study, text: str, where: str) -> bool:
    """Is this the study that `text` tells of, or has that one grown to be this: by seeds, options or axes?"""
    old = {_address(leaf.path): leaf.value for leaf in parse_study(text, where)}
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


def _address(path: KeyPath) -> KeyPath:
    """The same for the same key: a setting may be written with dots or with keys below keys, and so may an axis."""
    section, *rest = path
    if section == "set" and rest:
        return section, *key_path(".".join(rest))
    return (section, ".".join(rest)) if section == "baseline" and rest else path


def _section(leaves: Sequence[YamlLeaf], key: str) -> list[YamlLeaf]:
    found = [leaf for leaf in leaves if leaf.path[0] == key]
    for leaf in found:
        if len(leaf.path) == 1 and leaf.value not in (None, {}):
            raise UserError(f"{leaf.origin}: {key}: this should have keys of its own, such as {EXAMPLES[key][0]}")
    return [leaf for leaf in found if len(leaf.path) > 1]


def _plan(leaves: Sequence[YamlLeaf], origin: Origin) -> Plan:
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
        raise UserError(base.explain_validation_error(error, Plan, (), origin)) from None


def _axes(leaves: Sequence[YamlLeaf], trains: bool) -> list[Axis]:
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
            label = label_of(value)
            if label in own:
                raise UserError(f"{leaf.origin}: {name}: {label} appears twice")
            own[label] = [Override(key_path(name), value, leaf.origin, leaf.folder)]
    return [
        Axis(name, tuple(Option(label, tuple(found)) for label, found in own.items()), origins[name], trains)
        for name, own in options.items()
    ]


def _check_axes(axes: Sequence[Axis], common: Sequence[Override]) -> None:
    names = [axis.name for axis in axes]
    for place, axis in enumerate(axes):
        if axis.name in names[:place]:
            raise UserError(f"{axis.origin}: {axis.name}: this is an axis of vary already; give one another name")
    for setting in common:
        if ".".join(setting.path) in names:
            raise UserError(f"{setting.origin}: {'.'.join(setting.path)}: this is varied already; leave it out")
    for setting in (*common, *(s for axis in axes for option in axis.options for s in option.settings)):
        section = setting.value if setting.path == ("training",) and isinstance(setting.value, dict) else {}
        if setting.path == ("training", "seed") or "seed" in section:
            raise UserError(
                f"{setting.origin}: training.seed: a study repeats each run with other seeds; say how many by seeds"
            )
    points = prod(len(axis.options) for axis in axes)
    if points > MOST_POINTS:
        raise UserError(f"{axes[-1].origin}: with this, the grid has more than {MOST_POINTS:,} points; vary less")


def _check_plan(plan: Plan, axes: Sequence[Axis], origin: Origin) -> None:
    """Are there all axes and options of which it speaks?"""
    labels = {axis.name: axis.labels for axis in axes}
    wanted = [("baseline", axis, label, origin(("baseline", axis))) for axis, label in plan.baseline.items()]
    for expectation in plan.expect:
        wanted += [("expect: where", *held, origin(("expect",))) for held in expectation.where.items()]
    for key, name, label, where in wanted:
        if name not in labels:
            raise UserError(f"{where}: {key}: {name!r} is no axis; {suggest(name, labels) if labels else NO_AXES}")
        if label not in labels[name]:
            raise UserError(f"{where}: {key}: {name} has no {label!r}; {suggest(label, labels[name])}")
    for expectation in plan.expect:
        places = expectation.places(axes)
        if len(places) > 1:
            both = " and ".join(axes[place].name for place in places)
            raise UserError(
                f"{origin(('expect',))}: expect: {both} have all of {', '.join(expectation.order)}; "
                "name options of the one that is not meant by where"
            )
        if not places:
            free = [f"{name} has {', '.join(known)}" for name, known in labels.items() if name not in expectation.where]
            raise UserError(
                f"{origin(('expect',))}: expect: no axis{' besides those of where' if expectation.where else ''} "
                f"has all of {', '.join(expectation.order)}; {'; '.join(free) or NO_AXES}"
            )


def _check_conditions(name: str, conditions: Sequence[Condition]) -> None:
    known: dict[tuple[str, EvaluationSpec], Condition] = {}
    for condition in conditions:
        other = known.setdefault((condition.run_name(1), condition.exam), condition)
        if other is not condition:
            labels = [" · ".join(each.labels) for each in (other, condition)]
            raise UserError(f"{name}: {labels[0]} and {labels[1]} are the same; nothing differs but the name")


def _check_measures(plan: Plan, conditions: Sequence[Condition], origin: Origin) -> None:
    kinds = {None, *(condition.experiment.task.scored_by for condition in conditions)}
    possible = [name for name, measure in METRICS.items() if measure.only in kinds]
    for name in plan.measures:
        if name not in possible:
            raise UserError(f"{origin(('measures',))}: measures: this task has no {name}; {suggest(name, possible)}")


def _conditions(
    plan: Plan, origin: Origin, common: Sequence[Override], vary: Sequence[Axis], tests: Sequence[Axis], folder: Path
) -> Iterator[Condition]:
    load = partial(
        loading.load_experiment, plan.experiment, folder=folder, origin=f"{origin(('experiment',))}: experiment"
    )
    for trained in product(*(axis.options for axis in vary)):
        chosen = [ONE_THREAD, *common, *(setting for option in trained for setting in option.settings)]
        experiment = load(chosen)
        for tested in product(*(axis.options for axis in tests)):
            test_settings = [setting for option in tested for setting in option.settings]
            other = [setting for setting in test_settings if setting.path[0] == "data"]
            data = load([*chosen, *other]).data if other else experiment.data
            manner = _manner([setting for setting in test_settings if setting.path[0] != "data"])
            labels = tuple(option.label for option in (*trained, *tested))
            yield Condition(labels, experiment, EvaluationSpec(data, manner))


def _manner(chosen: Sequence[Override]) -> DecodeOptions:
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
            base.explain_validation_error(error, DecodeOptions, (), lambda path: by_key[path[0]].origin)
        ) from None


def _at_home(leaves: Iterable[YamlLeaf]) -> Iterator[YamlLeaf]:
    """The same with whole paths, so that files are found from anywhere; options keep their labels."""
    for leaf in leaves:
        section, *rest = leaf.path
        has_texts = isinstance(leaf.value, list) and any(isinstance(value, str) for value in leaf.value)
        if section == "experiment":
            yield leaf if leaf.value in recipes.recipe_names() else replace(leaf, value=_whole(leaf.value, leaf.folder))
        elif has_texts and len(rest) == 1 and key_path(rest[0]) in PATHS:
            for value in leaf.value:
                path = (*leaf.path, label_of(value), rest[0])
                yield replace(leaf, path=path, value=_whole(value, leaf.folder))
        elif key_path(".".join(rest if section == "set" else rest[2:])) in PATHS:
            yield replace(leaf, value=_whole(leaf.value, leaf.folder))
        else:
            yield leaf


def _whole(value: Any, folder: Path) -> Any:
    """A path as it is seen from anywhere; what is not a text is no path."""
    return os.path.abspath(folder / os.path.expanduser(value)) if isinstance(value, str) else value
