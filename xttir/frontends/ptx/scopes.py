"""Names in PTX: registers, variables and labels, by block scope (PTX ISA 9.1, chapter 5).

Registers of a scope that shadows another's are renamed, so that the whole function can be one list
of statements. `%r<100>` declares a hundred registers, which exist when they are first named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from xttir.dialects.ptx.function import DeclAttr
from xttir.frontends.ptx.ast import Label, Register, Statement

_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)", re.ASCII)


@dataclass
class Scope:
    """What one pair of braces declares."""

    registers: dict[str, Register | list[Register]] = field(default_factory=dict)
    """A register, or the elements of a vector register."""
    ranges: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """prefix -> (count, type, elements)."""
    variables: dict[str, DeclAttr] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    jump_tables: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    pending: list[tuple[Statement, list[tuple[str, int]]]] = field(default_factory=list)
    """Branches whose labels are not known yet."""


class Names:
    """The scopes of one function, innermost last; `scopes[0]` is the module."""

    def __init__(self, module: Scope):
        self.scopes = [module, Scope()]
        self.used: list[Register] = []
        self.names: set[str] = set()
        self._found: dict[str, Register | list[Register] | None] = {}
        """Registers by the names that mean them where the reader stands."""

    def enter(self) -> None:
        """`{`."""
        self.scopes.append(Scope())

    def leave(self) -> Scope:
        """`}`: what its scope declared means something else now."""
        scope = self.scopes.pop()
        if scope.ranges:
            self._found.clear()
        else:
            for name in (*scope.registers, *scope.variables):
                self._found.pop(name, None)
        return scope

    def unique(self, name: str) -> str:
        """`name`, or one like it that the function does not have yet."""
        found, number = name, 1
        while found in self.names:
            found, number = f"{name}_{number}", number + 1
        self.names.add(found)
        return found

    def new_register(self, name: str, kind: str) -> Register:
        register = Register(self.unique(name), kind, len(self.used))
        self.used.append(register)
        return register

    def declare(self, name: str, kind: str, elements: int) -> None:
        """`.reg .kind name` in the innermost scope."""
        registers = self.scopes[-1].registers
        self._found.pop(name, None)
        if elements == 1:
            registers[name] = self.new_register(name, kind)
        else:
            registers[name] = [self.new_register(f"{name}_{c}", kind) for c in "xyzw"[:elements]]

    def register(self, name: str) -> Register | list[Register] | None:
        """The register of this name, or None."""
        found = self._found.get(name, self)
        if found is self:
            found = self._found[name] = self._search(name)
        return found  # type: ignore

    def declare_range(self, prefix: str, count: int, kind: str, elements: int) -> None:
        """`.reg .kind prefix<count>` in the innermost scope."""
        self._found.clear()
        self.scopes[-1].ranges[prefix] = (count, kind, elements)

    def declare_variable(self, name: str, decl: DeclAttr) -> None:
        """A variable of the innermost scope."""
        self._found.pop(name, None)
        self.scopes[-1].variables[name] = decl

    def _search(self, name: str) -> Register | list[Register] | None:
        for scope in reversed(self.scopes):
            found = scope.registers.get(name)
            if found is not None:
                return found
            if name in scope.variables or (scope.ranges and self._from_range(scope, name)):
                return scope.registers.get(name)
        return None

    def _from_range(self, scope: Scope, name: str) -> bool:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            return False
        # `%r1<10>` has the prefix `%r1`: try every split into prefix and number.
        head, digits = match.groups()
        for cut in range(len(digits)):
            prefix, number = head + digits[:cut], digits[cut:]
            if prefix in scope.ranges and (number == "0" or number[0] != "0"):
                count, kind, elements = scope.ranges[prefix]
                if len(number) < 10 and int(number) < count:
                    self._declare_in(scope, name, kind, elements)
                    return True
        return False

    def _declare_in(self, scope: Scope, name: str, kind: str, elements: int) -> None:
        self.scopes.append(scope)
        self.declare(name, kind, elements)
        self.scopes.pop()

    def component(self, name: str) -> Register | None:
        """`%v.x` of a vector register, or None."""
        head, _, tail = name.rpartition(".")
        index = "xyzw".find(tail) if len(tail) == 1 else -1
        if index < 0:
            index = "rgba".find(tail) if len(tail) == 1 else -1
        if not head or index < 0:
            return None
        found = self.register(head)
        return found[index] if isinstance(found, list) and index < len(found) else None

    def variable(self, name: str) -> DeclAttr | None:
        """The declaration of the variable, parameter or function `name`, or None."""
        for scope in reversed(self.scopes):
            if name in scope.variables:
                return scope.variables[name]
        return None

    def known(self) -> list[str]:
        """Names that a misspelt one may have meant."""
        found: list[str] = []
        for scope in self.scopes:
            found += scope.registers
            found += scope.variables
            found += (f"{prefix}0" for prefix in scope.ranges)
        return found
