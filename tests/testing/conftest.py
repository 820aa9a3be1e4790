"""How a check reports a class that breaks a property."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from regard.testing import PropertyError


@pytest.fixture(scope="session")
def failure() -> Callable[..., str]:
    """The message of a check that must fail, without the name of the class, which must come first."""

    def run(check: Callable[..., None], checked: Any, **options: Any) -> str:
        with pytest.raises(PropertyError) as error:
            check(checked, **options)
        name = checked.__name__ if isinstance(checked, type) else type(checked).__name__
        message = str(error.value)
        assert isinstance(error.value, AssertionError)
        assert message.startswith((f"{name}: ", f"{name} in a model of ", f"{name} with a small model: "))
        return message.removeprefix(name)

    return run
