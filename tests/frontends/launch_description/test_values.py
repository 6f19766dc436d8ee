"""Data of launch descriptions, references, and comparison with them."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xttir.diagnostics import InputError
from xttir.frontends.launch_description import DTYPES, compare, from_dict, materialise, reference


def one(**tensor: Any) -> Any:
    """A description with the tensor `t`."""
    data = {"entry": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "params": []}
    return from_dict({**data, "tensors": {"t": tensor}})


@pytest.mark.parametrize("name", list(DTYPES))
def test_random_data_of_every_type(name: str) -> None:
    found = materialise(one(dtype=name, shape=[1000]))["t"]
    assert found.dtype == DTYPES[name].numpy
    assert len(set(found.astype(np.float64))) > 1
    assert np.isfinite(found.astype(np.float64)).all()


def test_range_and_seed() -> None:
    launch = one(dtype="i64", shape=[1000], range=[5, 7])
    a, b, c = (materialise(launch, seed)["t"] for seed in (0, 0, 1))
    assert set(a) == {5, 6, 7}
    assert (a == b).all()
    assert not (a == c).all()


def test_strided_tensors_in_larger_storage() -> None:
    launch = one(dtype="i32", shape=[3], strides=[2], storage=7, init=[10, 20, 30])
    flat = materialise(launch)["t"]
    assert flat.shape == (7,)
    assert list(flat[[0, 2, 4]]) == [10, 20, 30]


def test_copies(data: dict[str, Any]) -> None:
    data["tensors"]["y"] = {"dtype": "bf16", "shape": [64, 64], "init": {"copy_of": "x"}}
    found = materialise(from_dict(data))
    assert (found["x"] == found["y"]).all()
    assert found["x"] is not found["y"]


def test_only_some(data: dict[str, Any]) -> None:
    data["tensors"]["huge"] = {"dtype": "f32", "shape": [1 << 40]}
    assert list(materialise(from_dict(data), only=["x"])) == ["x"]


def test_reference_and_comparison(data: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    launch = from_dict(data)
    before = materialise(launch)
    expected = reference(launch, before)
    after = {name: array.copy() for name, array in before.items()}
    want = (before["x"][:8].astype(np.float32) * 0.5).astype(np.float32)
    assert (expected["out"] == want).all()
    after["out"][:] = want
    assert all(d.ok for d in compare(launch, after, expected))
    after["out"][3] += 1
    (found,) = compare(launch, after, expected)
    assert not found.ok
    assert (found.wrong, found.size, found.index, found.max_error) == (1, 8, (3,), 1.0)
    after["out"][5] = np.nan
    (found,) = compare(launch, after, expected)
    assert (found.wrong, found.index) == (2, (5,))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("y + 1", "ref.out: cannot be evaluated: NameError"),
        ("open('x')", "ref.out: cannot be evaluated: NameError"),
        ("exit()", "ref.out: cannot be evaluated: NameError"),
        ("__import__('os').getcwd()", "ref.out: cannot be evaluated: NameError"),
        ("1", "ref.out: expected a torch tensor, found int"),
        ("x", "ref.out: has shape [64, 64], but 'out' has [8]"),
    ],
)
def test_references_that_are_none(data: dict[str, Any], expression: str, message: str) -> None:
    pytest.importorskip("torch")
    data["ref"]["out"] = expression
    launch = from_dict(data)
    with pytest.raises(InputError) as caught:
        reference(launch, materialise(launch))
    assert message in caught.value.what


def test_types_travel_to_torch_and_back() -> None:
    torch = pytest.importorskip("torch")
    from xttir.frontends.launch_description.values import from_torch, to_torch

    for name in DTYPES:
        launch = one(dtype=name, shape=[4, 8])
        spec = launch.tensors["t"]
        array = spec.view(materialise(launch)["t"])
        tensor = to_torch(array, torch)
        assert from_torch(tensor, spec).tobytes() == array.tobytes()
    assert to_torch(np.ones(2, ml_dtypes.bfloat16), torch).dtype == torch.bfloat16
