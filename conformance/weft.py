"""WEFT's own kernels (github.com/lightsighter/Weft): warp-specialised code with named barriers.

python -m conformance.weft --source WEFT_CHECKOUT [--only sgemv,negatives]

Every example is compiled to PTX by nvcc and verified. Those under `negatives` must be refused; of
the others a fault is printed, to be judged: the combustion kernels for Fermi rely on the threads of
a warp running in step, which compute capability 7.0 and later no longer promise.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conformance import results

EXIT = {0: "verified", 1: "fault", 2: "error", 3: "unknown"}
ELEMENTS = {"f32": 1 << 23, "f64": 1 << 20}
"""Enough for every pointer at the sizes below."""

SGEMV = {"n": 256, "m": 8192, "n1": 256, "lda": 128}
STENCIL = {
    "row_stride": 64,
    "slice_stride": 64 * 24,
    "nz": 64,
    "R_x_row_stride": 4 * 64,
    "tile_y_x_row_stride": 4 * 64,
    "Pn_P_diff": 0,
    "lead_pad": 0,
    "offset": 8 * 64 * 24,
    "q_start_idx": 0,
}
COMBUSTION = {
    "slice_stride": 1024,
    "row_stride": 32,
    "total_steps": 4,
    "spec_stride": 4096,
    "step_stride": 0,
}
SCALARS = SGEMV | STENCIL | COMBUSTION


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.weft")
    parser.add_argument("--source", type=Path, required=True, help="a checkout of Weft")
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--arch", default="compute_75")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a kernel (600)")
    parser.add_argument("--results", type=Path, default=results.default_path("weft"))
    args = parser.parse_args()
    wanted = [w for w in args.only.split(",") if w]
    for source in sorted((args.source / "examples").glob("*/*.cu")):
        name = f"{source.parent.name}/{source.stem}"
        if wanted and not any(w in name for w in wanted):
            continue
        entry = {"name": name} | verify(source, args)
        results.append(args.results, entry)
        print(f"{entry['status']:14} {name:32} {entry.get('seconds', 0):6.1f} s  {entry['detail']}")
    known = list(results.read(args.results, ("name",)).values())
    right = sum(e["status"] == "right" for e in known)
    print(f"\n{right} of {len(known)} right: {results.counts(known)}")
    return int(right < len(known))


def verify(source: Path, args: argparse.Namespace) -> results.Entry:
    """One example: compiled, described, verified; `right` when the verdict is the one expected."""
    expected = "fault" if source.parent.name == "negatives" else "verified"
    with tempfile.TemporaryDirectory() as scratch:
        ptx = Path(scratch) / "kernel.ptx"
        command = [args.nvcc, "-ptx", "-lineinfo", "-m64", f"-arch={args.arch}"]
        command += ["-DTOTAL_STEPS=4", "-o", str(ptx), str(source)]
        built = subprocess.run(command, capture_output=True, text=True, cwd=source.parent)
        if built.returncode:
            return {"status": "not compiled", "detail": first_error(built.stderr)}
        launch = Path(scratch) / "launch.json"
        launch.write_text(json.dumps(describe(source, ptx.read_text())))
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "xttir", "verify", "--format", "json", "-o", str(report)]
        command += [str(ptx), "--launch", str(launch)]
        start = time.time()
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
        except subprocess.TimeoutExpired:
            return {"status": "timeout", "detail": f"more than {args.timeout:.0f} s"}
        seconds = time.time() - start
        verdict = EXIT.get(ended.returncode, f"exit {ended.returncode}")
        told = json.loads(report.read_text()) if report.exists() else {}
    detail = f"{verdict}: " + "; ".join(
        f"{f['kind']} {f['message']}" for f in told.get("faults", [])[:2]
    )
    if verdict not in ("verified", "fault"):
        detail += first_error(ended.stderr)
    return {
        "status": "right" if verdict == expected else verdict,
        "detail": detail[:200],
        "seconds": round(seconds, 2),
    }


def describe(source: Path, ptx: str) -> dict[str, Any]:
    """A launch of the only kernel of a file: sizes by the names of its parameters."""
    found = re.search(r"\.visible \.entry (\w+)\((.*?)\)", ptx, re.S)
    assert found, source
    threads = re.search(r"\.maxntid (\d+)", ptx)
    kinds = re.findall(r"\.param \.(\w+)", found[2])
    names = parameter_names(source.read_text())
    assert len(kinds) == len(names), (source, kinds, names)
    element = "f64" if "double *" in source.read_text() else "f32"
    tensors, params = {}, []
    for kind, name in zip(kinds, names, strict=True):
        if kind == "u64":
            tensors[name] = {"dtype": element, "shape": [ELEMENTS[element]], "role": "inout"}
            params.append({"pointer": name})
        elif kind in ("f32", "f64"):
            params.append({kind: 1.0})
        else:
            params.append({"i32": SCALARS[name]})
    return {
        "entry": found[1],
        "arch": "sm_75",
        "grid": [1, 1, 1],
        "block": [int(threads[1]) if threads else 1, 1, 1],
        "dynamic_smem": 0,
        "tensors": tensors,
        "params": params,
    }


def parameter_names(code: str) -> list[str]:
    """Names of the parameters of the only kernel of a CUDA file, in order."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", code, flags=re.S)
    found = re.search(r"\)\s*\w+\s*\((.*?)\)\s*\{", code[code.index("__launch_bounds__") :], re.S)
    assert found
    body = re.sub(r"#if[^\n]*USE_CONSTANT.*?#endif", " ", found[1], flags=re.S)
    body = re.sub(r"#[^\n]*", " ", body)
    return [p.split()[-1].lstrip("*") for p in body.split(",") if p.strip() not in ("", "void")]


def first_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line]
    return (lines or text.splitlines() or [""])[0].strip()[:160]


if __name__ == "__main__":
    sys.exit(main())
