from __future__ import annotations

from typing import Any

import pytest

from xttir.policy import CHECKS, RunPolicy
from xttir.tools import options
from xttir.tools.options import ALL_OPTIONS, RUN_OPTIONS, UsageError


def parsed(*words: str, environment: dict[str, str] | None = None) -> tuple[dict[str, Any], list]:
    values = options.defaults(ALL_OPTIONS, environment or {})
    given, rest = options.split(words, ALL_OPTIONS, also=("-m",))
    return values | given, rest


def test_options_end_at_the_script():
    values, rest = parsed("--cc", "80", "--strict", "-o", "f", "s.py", "--cc", "100", "-q")
    assert (values["cc"], values["strict"], values["output"]) == (80, True, "f")
    assert rest == ["s.py", "--cc", "100", "-q"]
    assert values["quiet"] is False


@pytest.mark.parametrize(
    "words", [("--grid-order=shuffled",), ("--grid-order", "shuffled"), ("--seed=1",)]
)
def test_values_may_follow_an_equals_sign(words: tuple[str, ...]):
    values, rest = parsed(*words, "-m", "pkg", "--x")
    assert rest == ["-m", "pkg", "--x"]
    assert values["grid_order"] == "shuffled" or values["seed"] == 1


def test_two_dashes_end_the_options():
    assert parsed("--", "--odd.py", "-m")[1] == ["--odd.py", "-m"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cc", "70", "s.py"], "--cc: '70' is not one of 80, 90, 100"),
        (["--cc"], "--cc needs a value"),
        (["--max-steps", "0", "s.py"], "--max-steps: 0 is less than 1"),
        (["--max-steps=many"], "--max-steps: 'many' is not an integer"),
        (["--checks", "bounds,oob"], "--checks: unknown check 'oob'; known: bounds"),
        (["--strict=1"], "--strict takes no value"),
        (["--grid-ordr", "x"], "unknown option '--grid-ordr'; did you mean '--grid-order'?"),
    ],
)
def test_wrong_options_are_named(words: list[str], message: str):
    with pytest.raises(UsageError) as error:
        parsed(*words)
    assert str(error.value).startswith(message)


def test_the_environment_mirrors_the_flags_which_win():
    environment = {
        "XTTIR_CC": "100",
        "XTTIR_CHECKS": "-race",
        "XTTIR_STRICT": "1",
        "XTTIR_NO_PROGRESS": "no",
        "XTTIR_GRID_ORDER": "",
    }
    values, _ = parsed("--cc", "80", environment=environment)
    assert values["cc"] == 80
    assert values["checks"] == frozenset(CHECKS) - {"race"}
    assert values["strict"] is True
    assert values["no_progress"] is False
    assert values["grid_order"] == "forward"
    with pytest.raises(UsageError, match="XTTIR_SEED: 'x' is not an integer"):
        parsed(environment={"XTTIR_SEED": "x"})


def test_a_policy_survives_the_way_through_the_environment():
    policy = RunPolicy(
        frozenset({"bounds"}), 80, "shuffled", seed=7, max_steps=5, batch=2, strict=True
    )
    variables = options.to_environment(policy)
    assert options.policy_of(options.defaults(RUN_OPTIONS, variables)) == policy
    none = RunPolicy(frozenset())
    assert options.policy_of(options.defaults(RUN_OPTIONS, options.to_environment(none))) == none


def test_every_field_of_the_policy_has_an_option():
    import dataclasses

    # `validate` alone decides about promises: they are compared as values there.
    fields = {f.name for f in dataclasses.fields(RunPolicy)} - {"late_promises"}
    assert {o.policy for o in RUN_OPTIONS} == fields
    assert options.policy_of(options.defaults(RUN_OPTIONS, {})) == RunPolicy()


def test_options_behind_the_script_are_told():
    assert "--cc, --seed after the script" in options.misplaced(
        ["--cc", "90", "--seed=3", "x"], RUN_OPTIONS
    )
    assert not options.misplaced(["-q", "--size", "cc"], RUN_OPTIONS)
