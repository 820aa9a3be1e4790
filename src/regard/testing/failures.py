"""How a broken property is reported: the class, the property and the likely mistake, in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

import torch
from torch import Tensor

from regard.nn import Seq2Seq

TOLERANCE = 1e-5  # relative and absolute, for 32-bit numbers
P = ParamSpec("P")


class PropertyError(AssertionError):
    """A property does not hold.

    Args:
        subject: What was checked, for example the name of a class.
        problem: Which property does not hold, the likely mistake, and what would be right.
    """

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject = subject
        self.problem = problem


class _Broken(Exception):  # noqa: N818 (becomes a PropertyError)
    """What `expect` raises; the function around it knows the subject."""


def checks_that(claim: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorator of a function that checks one property of its first argument, and raises `PropertyError` if it fails.

    An exception of the code that is checked becomes a `PropertyError`, too.

    Args:
        claim: The property, as in "padding changes nothing".
    """

    def decorate(check: Callable[P, None]) -> Callable[P, None]:
        @wraps(check)
        def reporting(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                check(*args, **kwargs)
            except _Broken as broken:
                raise PropertyError(name_subject(args[0]), str(broken)) from None
            except PropertyError:
                raise
            except Exception as error:
                problem = f"an error occurred while checking that {claim}: {describe_error(error)}"
                raise PropertyError(name_subject(args[0]), problem) from error

        return reporting

    return decorate


@contextmanager
def reported_for(kind: type, where: str = "") -> Iterator[None]:
    """Report broken properties as those of a class, instead of the model that it is a part of.

    Args:
        kind: The class.
        where: The conditions under which the property is broken.
    """
    try:
        yield
    except PropertyError as error:
        raise PropertyError(f"{kind.__name__} {where}".rstrip(), error.problem) from error.__cause__


def name_subject(value: object) -> str:
    """What a message calls the object that was checked: its class, or the classes of a model's parts.

    Args:
        value: The object, or its class.
    """
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Seq2Seq):
        attention = " and ".join(dict.fromkeys(type(each).__name__ for each in value.decoder.source_attentions))
        return f"{type(value.encoder).__name__}, {type(value.decoder).__name__} and {attention}"
    return str(getattr(value, "subject", type(value).__name__))


def describe_error(error: Exception) -> str:
    """The class and the first line of an exception.

    Args:
        error: Any exception.
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def expect(holds: bool | Tensor, problem: str, advice: str) -> None:
    """Raise an exception that `checks_that` reports, unless a condition holds.

    Args:
        holds: The condition.
        problem: What is wrong if it does not hold.
        advice: The likely mistake, and what would be right.
    """
    if not holds:
        raise _Broken(f"{problem}: {advice}")


def expect_close(actual: Tensor, expected: Tensor, problem: str, advice: str) -> None:
    """Raise an exception that `checks_that` reports, unless two tensors are equal up to rounding.

    Args:
        actual: What the code that is checked returned.
        expected: What it should have returned, of the same shape.
        problem: What is wrong if they differ.
        advice: The likely mistake, and what would be right.
    """
    if actual.shape != expected.shape:
        shapes = f"shape {list(actual.shape)} instead of {list(expected.shape)}"
        raise _Broken(f"{problem} ({shapes}): {advice}")
    if not torch.allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE):
        difference = float((actual - expected).abs().max())
        raise _Broken(f"{problem} (by up to {difference:.2g}): {advice}")
