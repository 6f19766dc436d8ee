"""A contract in words: `n >= 1`, `len(x) == rows * stride`, `grid[0] == cdiv(n, 128)`,
`0 <= values(idx) < n`.

The language is that of Python comparisons over the kernel's parameters, read with `ast` and never
run. An equality whose left side is a plain number of the contract (an argument, `grid[i]`,
`len(x)`) is put in its place; everything else is a fact.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr

from xttir.analyses.sizes.contract import (
    GENERAL,
    INT32_MAX,
    Contract,
    TensorFacts,
)
from xttir.analyses.sizes.matching import axes_used
from xttir.analyses.sizes.terms import (
    Cond,
    Symbol,
    Term,
    Unknown,
    as_term,
    at_most,
    equal,
    floor_div,
    least,
    less,
    modulo,
    most,
    negation,
    term_of,
)
from xttir.analyses.sizes.tiles import Address, Tile, limits
from xttir.diagnostics import InputError, Unsupported
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.interp.launch import Argument, Launch, ScalarArg, Storage, TensorArg
from xttir.interp.types import numpy_dtype

Compare = Callable[[Term, Term], Cond]
_COMPARE: dict[type, Compare] = {
    ast.Eq: equal,
    ast.NotEq: lambda a, b: negation(equal(a, b)),
    ast.Lt: less,
    ast.LtE: at_most,
    ast.Gt: lambda a, b: less(b, a),
    ast.GtE: lambda a, b: at_most(b, a),
}


def _power(a: Term, b: Term) -> Term:
    if a.constant is None or b.constant is None or not 0 <= b.constant <= 64:
        raise InputError("a power in the contract that is not one of constants")
    return as_term(a.constant**b.constant)


Binary = Callable[[Term, Term], Term]
_BINARY: dict[type, Binary] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: floor_div,
    ast.Mod: modulo,
    ast.Pow: _power,
}
_CALLS: dict[str, Binary] = {
    "cdiv": lambda a, b: floor_div(a + b - 1, b),
    "min": least,
    "max": most,
}


def from_words(module: ModuleOp, function: tt.FuncOp, words: str) -> Contract:
    """The contract of a kernel without a launch: anything that `words` do not rule out.

    Raises InputError for words that cannot be read.
    """
    reader = _Reader(_parameter_names(function), _statements(words))
    contract = reader.read(function)
    contract.launch = Launch(
        module, function.sym_name.data, (1, 1, 1), tuple(reader.arguments), cc=90
    )
    return contract


def add_words(contract: Contract, words: str) -> None:
    """Add what `words` say to the contract of a launch, where it has the names they use, and to its
    other readings.

    Raises InputError for words that cannot be read.
    """
    reader = _Reader.of(contract)
    reader.declared = True
    for text, tree in ((s, _parse(s)) for s in _statements(words)):
        names = {_key(n) for n in ast.walk(tree)} - {""}
        names |= {_values_of(n) for n in ast.walk(tree)} - {""}
        if names - set(_FUNCTIONS) <= reader.known():
            for name in contract.tensors:
                # Whoever speaks of a length says how long the tensor may be.
                if f"len({name})" in names and name in contract.short:
                    contract.facts.remove(contract.short.pop(name))
                    contract.guessed -= set(contract.tensors[name].length.atoms())  # pyright: ignore
            reader.state(text, tree)
            contract.text.append(text)
    for other in contract.others:
        add_words(other, words)


_FUNCTIONS = ("cdiv", "min", "max", "len", "values", "grid")


def _statements(words: str) -> list[str]:
    return [s.strip() for s in re.split(r"[;\n]|,(?![^(\[]*[)\]])", words) if s.strip()]


class _Reader:
    def __init__(self, names: list[str], statements: list[str]):
        self.trees = [(s, _parse(s)) for s in statements]
        self.arguments: list[Argument] = []
        one = as_term(1)
        self.contract = Contract([], (one, one, one))
        self.names = names
        self.declared = False
        self.placed: dict[str, Term] = {}
        """What stands for an argument, `len(x)` or `grid[i]`."""

    @classmethod
    def of(cls, contract: Contract) -> _Reader:
        """A reader of further words about the arguments of `contract`."""
        reader = cls(contract.names, [])
        reader.contract = contract
        reader.placed = {
            **contract.scalars,
            **{f"len({n})": t.length for n, t in contract.tensors.items()},
            **{f"grid[{axis}]": term for axis, term in enumerate(contract.grid)},
        }
        return reader

    def known(self) -> set[str]:
        """The names that words may use."""
        return {*self.placed, *self.names}

    def read(self, function: tt.FuncOp) -> Contract:
        """The contract of a function of which nothing is known but the words."""
        c = self.contract
        block = function.body.blocks[0]
        kinds = {n: a.type for n, a in zip(self.names, block.args, strict=True)}
        rest: list[tuple[str, ast.Compare]] = []
        for name, ty in kinds.items():
            if isinstance(ty, IntegerType) and ty.width.data > 1:
                self.placed[name] = term_of(Symbol(name, *limits(ty), True))
            elif isinstance(ty, tt.PointerType | tt.TensorDescType):
                key = f"len({name})"
                self.placed[key] = term_of(Symbol(key, 0, INT32_MAX, True))
        for axis in range(3):
            high = INT32_MAX if axis == 0 else 65535
            key = f"grid[{axis}]"
            self.placed[key] = term_of(Symbol(key, 1, high, True))
            if axis not in axes_used(function) and not self._speaks_of(key):
                self.placed[key] = as_term(1)
                c.text.append(f"{key} == 1 (the kernel does not ask for its program id)")
        bounded: set[str] = set()
        for text, tree in self.trees:
            bounded |= {_key(n) for n in ast.walk(tree) if _key(n)}
            if not self._place(tree):
                rest.append((text, tree))
        for text, tree in rest:
            self.state(text, tree)
        c.text += [text for text, _ in self.trees]
        c.grid = tuple(self.placed[f"grid[{axis}]"] for axis in range(3))  # pyright: ignore
        for term in self.placed.values():
            for atom in term.atoms():
                if isinstance(atom, Symbol):
                    c.values.setdefault(atom, max(1, atom.low or 1))
        for name, ty in kinds.items():
            c.names.append(name)
            if isinstance(ty, tt.TensorDescType):
                what = "every size of a kernel that takes descriptors, without a launch"
                raise Unsupported(what, location_of(function))
            self._parameter(name, ty, f"len({name})" in bounded)
        self._divisibility(function)
        return c

    def _speaks_of(self, key: str) -> bool:
        return any(_key(node) == key for _, tree in self.trees for node in ast.walk(tree))

    def _parameter(self, name: str, ty: Any, bounded: bool) -> None:
        c = self.contract
        if isinstance(ty, tt.PointerType):
            length = self.placed[f"len({name})"]
            c.bases[name] = name
            dtype = numpy_dtype(ty.pointee_type)
            storage = Storage(np.zeros(0, np.uint8), 0)
            argument = TensorArg(name, storage, 0, (0,), (1,), dtype)
            self.arguments.append(argument)
            c.tensors[name] = TensorFacts(
                name, (length,), (as_term(1),), length, argument, bounded=bounded
            )
            address = Address(name, as_term(0))
            c.parameters.append(Tile((), lambda _: address))
        elif isinstance(ty, IntegerType) and ty.width.data > 1:
            term = self.placed[name]
            c.scalars[name] = term
            self.arguments.append(ScalarArg(name, 1))
            c.parameters.append(Tile((), lambda _: term))
        elif isinstance(ty, IntegerType):
            key = Unknown(("argument", name), name)
            self.arguments.append(ScalarArg(name, 0))
            c.parameters.append(Tile((), lambda _: key))
        else:
            self.arguments.append(ScalarArg(name, 1.0))
            c.parameters.append(Tile((), lambda _: None))

    def _divisibility(self, function: tt.FuncOp) -> None:
        attributes = function.arg_attrs
        if attributes is None:
            return
        for name, found in zip(self.names, attributes.data, strict=False):
            divisor = found.data.get("tt.divisibility")
            term = self.placed.get(name)
            if divisor is not None and term is not None:
                d = divisor.value.data  # pyright: ignore
                self.contract.fact(f"{name} % {d} == 0", equal(modulo(term, as_term(d)), 0), 0)

    def _place(self, tree: ast.Compare) -> bool:
        """`name == term`: put the term in place of the name, if the term does not speak of it."""
        if len(tree.ops) != 1 or not isinstance(tree.ops[0], ast.Eq):
            return False
        key = _key(tree.left)
        if not key or key not in self.placed:
            return False
        symbol = self.placed[key]
        if len(symbol.parts) != 1 or not isinstance(next(iter(symbol.atoms())), Symbol):
            return False
        if any(_key(node) == key for node in ast.walk(tree.comparators[0])):
            return False
        value = self._term(tree.comparators[0])
        own = next(iter(symbol.atoms()))
        for other, term in self.placed.items():
            if other != key and own in set(term.atoms()):
                return False
        self.placed[key] = value
        low, high = own.low, own.high  # pyright: ignore
        text = f"{key} fits its type"
        if low is not None:
            self.contract.fact(text, at_most(low, value), GENERAL)
        if high is not None:
            self.contract.fact(text, at_most(value, high), GENERAL)
        return True

    def state(self, text: str, tree: ast.Compare) -> None:
        """Make a fact of a comparison."""
        sides = [tree.left, *tree.comparators]
        for left, op, right in zip(sides, tree.ops, sides[1:], strict=False):
            compare = _COMPARE.get(type(op))
            if compare is None:
                raise InputError(f"cannot read `{text}` of the contract: an unknown comparison")
            for a, b, swap in ((left, right, False), (right, left, True)):
                name = _values_of(a)
                if name:
                    self._bound_data(name, type(op), self._term(b), swap, text)
                    break
            else:
                condition = compare(self._term(left), self._term(right))
                self.contract.fact(text, condition, GENERAL)

    def _bound_data(self, name: str, op: type, bound: Term, swap: bool, text: str) -> None:
        """`values(name) op bound`, or the other way round."""
        if name not in self.names:
            raise InputError(f"cannot read `{text}` of the contract: no parameter `{name}`")
        if self.declared:
            # Words count for more than what this launch happens to have.
            if name not in self.contract.declared:
                self.contract.below.pop(name, None)
                self.contract.above.pop(name, None)
            self.contract.declared.add(name)
        mirrored = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
        kind = mirrored.get(op, op) if swap else op
        if kind is ast.Lt:
            self.contract.below.setdefault(name, []).append((bound, text))
        elif kind is ast.LtE:
            self.contract.below.setdefault(name, []).append((bound + 1, text))
        elif kind in (ast.GtE, ast.Gt):
            low = bound if kind is ast.GtE else bound + 1
            self.contract.above.setdefault(name, []).append((low, text))
        else:
            raise InputError(f"cannot read `{text}` of the contract: values can be bounded only")

    def _term(self, node: ast.expr) -> Term:
        key = _key(node)
        if key:
            found = self.placed.get(key)
            if found is None:
                known = ", ".join(self.placed)
                raise InputError(f"the contract speaks of `{key}`; known are {known}")
            return found
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return as_term(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._term(node.operand)
        if isinstance(node, ast.BinOp):
            binary = _BINARY.get(type(node.op))
            if binary is not None:
                return binary(self._term(node.left), self._term(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            call = _CALLS.get(node.func.id)
            if call is not None:
                return call(self._term(node.args[0]), self._term(node.args[1]))
        raise InputError(f"cannot read `{ast.unparse(node)}` in the contract")


def _parse(text: str) -> ast.Compare:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"cannot read `{text[:200]}` of the contract: {error}") from error
    if not isinstance(tree, ast.Compare):
        raise InputError(f"`{text[:200]}` of the contract is not a comparison")
    return tree


def _key(node: ast.AST) -> str:
    """`n`, `len(x)` or `grid[0]`, if the node is one of them."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            return f"len({name})"
        case ast.Subscript(value=ast.Name(id="grid"), slice=ast.Constant(value=axis)):
            return f"grid[{axis}]"
        case _:
            return ""


def _values_of(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id="values"), args=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def _parameter_names(function: tt.FuncOp) -> list[str]:
    """The user's names where the module has them, else `arg0`, `arg1`, ..."""
    from xdsl.dialects.builtin import NameLoc

    out: list[str] = []
    for n, argument in enumerate(function.body.blocks[0].args):
        location = argument.location
        name = location.desc if isinstance(location, NameLoc) else None
        text = name.data if isinstance(name, StringAttr) else argument.name_hint or f"arg{n}"
        out.append(text if text not in out else f"{text}_{n}")
    return out
