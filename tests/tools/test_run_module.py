"""`xttir run MODULE`: what is printed, saved and reported, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from xttir.tools import cli

ADD = str(Path(__file__).parents[1] / "data" / "modules" / "add.ttir")


@pytest.fixture
def run(capfd):
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["run", *words])
        out = capfd.readouterr()
        return code, out.out, out.err

    return run


def test_random_arguments(run) -> None:
    code, _, text = run(ADD, "--seed", "3")
    assert code == 0
    assert "add (" in text
    assert "no fault" in text


def test_what_changed_is_told(run) -> None:
    code, _, text = run(ADD, "--arg", "n=2", "--arg", "x=1:[2]", "--arg", "y=2:[2]")
    assert code == 0
    assert "x f32[2]: not changed" in text
    assert "now [3., 3., 0., ..., 0., 0., 0.]" in text


def test_faults_are_reported_as_by_sanitize(run) -> None:
    code, _, text = run("--arg", "out=zeros:[100]", ADD, "--arg", "n=100", "--grid", "2")
    assert code == 1
    assert "error[out-of-bounds]: store past the end of `out` (float32[100])" in text
    assert "add.ttir:20:5 in add" in text


def test_checks_can_be_chosen(run) -> None:
    code, _, text = run("--arg", "out=zeros:[100]", ADD, "--checks", "race", "--grid", "2")
    assert code == 0
    assert "bounds" in text.partition("Not checked")[2]


def test_memory_and_launch_are_saved(run, tmp_path) -> None:
    saved, launch = str(tmp_path / "out.npz"), str(tmp_path / "launch.json")
    assert (
        run(ADD, "--arg", "n=70", "--grid", "2", "--save", saved, "--save-launch", launch)[0] == 0
    )
    first = dict(np.load(saved))
    assert np.array_equal(first["out"][:70], first["x"] + first["y"])
    assert run(ADD, "--launch", launch, "--save", saved)[0] == 0
    assert np.array_equal(np.load(saved)["out"], first["out"])


def test_a_reference_is_compared_with(run, tmp_path) -> None:
    description = {
        "grid": [1, 1, 1],
        "tensors": {
            "x": {"dtype": "f32", "shape": [64]},
            "out": {"dtype": "f32", "shape": [64], "role": "out"},
        },
        "params": [{"pointer": "x"}, {"pointer": "x"}, {"pointer": "out"}, {"i32": 64}],
        "ref": {"out": "2 * x"},
    }
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(description))
    code, _, text = run(ADD, "--launch", str(path))
    assert code == 0
    assert "equal to the reference" in text
    path.write_text(json.dumps({**description, "ref": {"out": "3 * x"}}))
    code, _, text = run(ADD, "--launch", str(path))
    assert code == 1
    assert "error[mismatch]" in text


def test_results_of_a_function_and_json(run) -> None:
    code, out, _ = run(ADD, "--entry", "twice", "--arg", "v=4", "--format", "json")
    report = json.loads(out)
    assert code == report["exit_code"] == 0
    assert report["command"] == "run"
    assert "  result 0: 8" in report["results"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.ttir"], "cannot read"),
        ([ADD, "--arg", "m=1"], "no parameter 'm'"),
        ([ADD, "--arg", "n=1", "--arg", "n=2"], "given twice"),
        ([ADD, "--grid", "0x"], "is not X, X,Y"),
        ([ADD, "--schedule", "first"], "unknown option '--schedule'"),
        (["script.py"], "run takes a PTX file or a module"),
    ],
)
def test_wrong_input_is_exit_code_2(run, words, message) -> None:
    code, _, text = run(*words)
    assert code == 2
    assert message in text


def test_an_op_without_a_meaning_is_exit_code_3(run, tmp_path) -> None:
    path = tmp_path / "k.ttir"
    path.write_text("tt.func public @k(%p: !ttg.async.token) {\n  tt.return\n}\n")
    code, _, text = run(str(path))
    assert code == 3
    assert "unsupported" in text
