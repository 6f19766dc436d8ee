"""Launch descriptions against the kernel they are for."""

from typing import Any

import pytest

from tests.frontends.launch_description.conftest import PTX
from xttir.diagnostics import InputError
from xttir.frontends.launch_description import from_dict
from xttir.frontends.launch_description.match import match, template
from xttir.frontends.ptx import parse_ptx


@pytest.fixture(scope="module")
def module() -> Any:
    return parse_ptx(PTX, "scale.ptx")


def test_what_fits(module: Any, data: dict[str, Any]) -> None:
    del data["arch"]
    assert match(from_dict(data), module).arch == "sm_90a"


BAD = [
    ("entry", "scal", "entry: the PTX has no kernel 'scal', did you mean 'scale'?"),
    ("arch", "sm_100a", "arch: the PTX is for sm_90a, which does not run on sm_100a"),
    ("block", [64, 1, 1], "block: the kernel requires [128, 1, 1] threads (.reqntid)"),
    ("dynamic_smem", 232448, "dynamic_smem: 2048 static and 232448 dynamic bytes"),
    ("params", [], "params: the kernel has 4 parameters, the description 0"),
]


@pytest.mark.parametrize(("key", "value", "message"), BAD, ids=[k for k, _, _ in BAD])
def test_what_does_not_fit(
    module: Any, data: dict[str, Any], key: str, value: Any, message: str
) -> None:
    data[key] = value
    with pytest.raises(InputError) as caught:
        match(from_dict(data), module)
    assert message in caught.value.what


@pytest.mark.parametrize(
    ("index", "param", "message"),
    [
        (0, {"pointer": "x"}, "params[0]: the kernel declares .align 64 .b8 map[128]; this has 8"),
        (1, {"i32": 1}, "params[1]: the kernel declares .u64 out; this has 4 bytes, not 8"),
        (1, {"pointer": "out", "offset": 4}, "the pointer must be aligned to 16 bytes"),
        (2, {"f32": 1.0}, "params[2]: the kernel declares .u32 n; this is f32"),
        (3, {"i32": 1}, "params[3]: the kernel declares .f32 factor; this is i32"),
    ],
)
def test_parameters(
    module: Any, data: dict[str, Any], index: int, param: Any, message: str
) -> None:
    data["params"][index] = param
    with pytest.raises(InputError) as caught:
        match(from_dict(data), module)
    assert message in caught.value.what


@pytest.mark.parametrize(
    ("target", "arch", "fits"),
    [
        ("sm_80", "sm_90", True),
        ("sm_90", "sm_80", False),
        ("sm_90a", "sm_90a", True),
        ("sm_90a", "sm_90", True),
        ("sm_100f", "sm_103", True),
        ("sm_100f", "sm_120", False),
        ("sm_100a", "sm_103a", False),
    ],
)
def test_targets(target: str, arch: str, fits: bool) -> None:
    module = parse_ptx(PTX.replace("sm_90a", target), "k.ptx")
    launch = {"entry": "other", "arch": arch, "grid": [1, 1, 1], "block": [1, 1, 1], "params": []}
    if fits:
        match(from_dict(launch), module)
    else:
        with pytest.raises(InputError, match="does not run on"):
            match(from_dict(launch), module)


def test_clusters() -> None:
    text = PTX.replace(".reqntid 128", ".reqntid 128\n.reqnctapercluster 2, 1, 1")
    module = parse_ptx(text, "k.ptx")
    from tests.frontends.launch_description.conftest import DESCRIPTION

    with pytest.raises(InputError, match=r"requires clusters of \[2, 1, 1\]"):
        match(from_dict(DESCRIPTION), module)
    match(from_dict({**DESCRIPTION, "cluster": [2, 1, 1]}), module)


def test_a_template_is_a_description_that_fits(module: Any) -> None:
    blank = template(module)
    assert blank["block"] == [128, 1, 1]
    match(from_dict(blank), module)
    assert [next(iter(p)) for p in blank["params"]] == ["tensormap", "pointer", "i32", "f32"]
    assert template(module, "other")["params"] == []
    with pytest.raises(InputError, match="no kernel 'scales', did you mean 'scale'"):
        template(module, "scales")
