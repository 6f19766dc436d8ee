"""Instructions that the target of the PTX does not have are an input error at the instruction."""

from pathlib import Path

import pytest

from xttir.diagnostics import InputError
from xttir.frontends.launch_description import from_dict, load
from xttir.frontends.launch_description.match import match
from xttir.frontends.launch_description.write import to_dict
from xttir.frontends.ptx import parse_ptx

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("target", "needed"),
    [("sm_30", "mbarrier.init needs sm_80"), ("sm_80", "needs sm_90"), ("sm_90a", "")],
)
def test_targets(target: str, needed: str):
    text = (EXAMPLES / "ring.ptx").read_text().replace(".target sm_90a", f".target {target}")
    launch = from_dict(to_dict(load(EXAMPLES / "ring.json")) | {"arch": target})
    module = parse_ptx(text, "ring.ptx")
    if not needed:
        assert match(launch, module).arch == target
        return
    with pytest.raises(InputError, match=needed) as error:
        match(launch, module)
    assert error.value.location is not None
    assert error.value.location.line
