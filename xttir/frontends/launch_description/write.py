"""Launch descriptions as JSON: the inverse of `read`, laid out for people to edit.

Large initial contents go to `.npy` files beside the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xttir.frontends.launch_description.spec import (
    BytesParam,
    LaunchDescription,
    Param,
    PointerParam,
    PointersParam,
    ScalarParam,
    TensorSpec,
    Tolerance,
    ValueParam,
)

MAX_INLINE = 256
"""Elements of an `init` that are written into the JSON itself."""


def to_dict(
    description: LaunchDescription, save: Callable[[str, np.ndarray], str] | None = None
) -> dict[str, Any]:
    """The description as `from_dict` reads it. `save(tensor name, contents)` stores large contents
    and returns the file's name; without it they are lists."""
    d = description
    data: dict[str, Any] = {"entry": d.entry}
    if d.arch:
        data["arch"] = d.arch
    data |= {"grid": list(d.grid), "block": list(d.block), "cluster": list(d.cluster)}
    data["dynamic_smem"] = d.dynamic_smem
    if d.smem_base != 1024:
        data["smem_base"] = d.smem_base
    if d.cooperative:
        data["cooperative"] = True
    data["tensors"] = {name: _tensor(spec, save) for name, spec in d.tensors.items()}
    data["params"] = [_param(p) for p in d.params]
    if d.ref:
        data["ref"] = dict(d.ref)
    if d.tolerance != Tolerance():
        data["tolerance"] = {"rtol": d.tolerance.rtol, "atol": d.tolerance.atol}
    if d.note:
        data["note"] = d.note
    return data


def _tensor(spec: TensorSpec, save: Callable[[str, np.ndarray], str] | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "dtype": spec.dtype.name,
        "shape": list(spec.shape),
        "strides": list(spec.strides),
        "role": spec.role,
    }
    if spec.copy_of is not None:
        data["init"] = {"copy_of": spec.copy_of}
    elif isinstance(spec.init, np.ndarray):
        if save is not None and spec.init.size > MAX_INLINE:
            data["init"] = {"file": save(spec.name, spec.init)}
        else:
            data["init"] = spec.init.ravel().tolist()
    elif spec.init is not None:
        data["init"] = _number(spec.init)
    if spec.range is not None:
        data["range"] = list(spec.range)
    if spec.storage != max(TensorSpec.span(spec.shape, spec.strides), 1):
        data["storage"] = spec.storage
    if spec.base_align != 256:
        data["base_align"] = spec.base_align
    return data


def _number(value: float | int) -> float | int | str:
    """JSON has no NaN and no infinities."""
    return value if isinstance(value, int) or abs(value) < float("inf") else str(value)


def _param(param: Param) -> dict[str, Any]:
    if isinstance(param, PointerParam):
        data: dict[str, Any] = {"pointer": param.tensor}
        return data | ({"offset": param.offset} if param.offset else {})
    if isinstance(param, ScalarParam):
        return {param.type.name: _number(param.value)}
    if isinstance(param, ValueParam):
        return {"value": param.tensor}
    if isinstance(param, PointersParam):
        return {"pointers": param.tensor}
    if isinstance(param, BytesParam):
        data = {"bytes": param.data.hex()}
        if param.fields:
            data["fields"] = [{"at": at, **_param(inner)} for at, inner in param.fields]
        return data
    data = {
        "tensormap": param.tensor,
        "box": list(param.box),
        "swizzle": param.swizzle,
        "rank": param.rank,
        "dims": list(param.dims),
        "strides_bytes": list(param.strides_bytes),
        "elem_strides": list(param.elem_strides),
        "interleave": param.interleave,
        "oob": param.oob,
        "dtype": param.dtype.name,
    }
    if param.offset:
        data["offset"] = param.offset
    if param.im2col is not None:
        im = param.im2col
        data["im2col"] = {
            "lower": list(im.lower),
            "upper": list(im.upper),
            "channels": im.channels,
            "pixels": im.pixels,
        }
    return data


def dump(description: LaunchDescription, path: str | Path) -> None:
    """Write the description to a JSON file; large contents go to `.npy` files beside it."""
    path = Path(path)

    def save(name: str, contents: np.ndarray) -> str:
        file = f"{path.name.removesuffix('.json')}.{name}.npy"
        np.save(path.parent / file, contents)
        return file

    path.write_text(text(to_dict(description, save)) + "\n")


def text(data: dict[str, Any]) -> str:
    """JSON with one key a line at the top, one tensor and one parameter a line."""
    lines = []
    for key, value in data.items():
        if key in ("tensors", "ref") and value:
            rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            shown = "{\n" + ",\n".join(rows) + "\n }"
        elif key == "params" and value:
            shown = "[\n" + ",\n".join(f"  {json.dumps(v)}" for v in value) + "\n ]"
        else:
            shown = json.dumps(value)
        lines.append(f" {json.dumps(key)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}"
