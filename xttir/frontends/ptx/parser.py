"""PTX text to the `ptx` dialect: directives, declarations and the list of functions.

A file is read once, token by token; `body` reads the statements of a function and `ssa` makes them
blocks of SSA. Rules: PTX ISA 9.1, chapters 4, 5 and 11; what is not PTX is an InputError with its
place.
"""

from __future__ import annotations

import difflib

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region

from xttir.dialects.ptx.function import WIDTHS, DeclAttr, DirectiveOp, FuncOp, VariableOp
from xttir.dialects.ptx.instruction import Mnemonic
from xttir.dialects.ptx.operands import SymbolAttr
from xttir.dialects.ptx.words import words
from xttir.frontends.ptx.ast import Body, Register
from xttir.frontends.ptx.body import BodyParser, Operands
from xttir.frontends.ptx.lexer import Source, tokens
from xttir.frontends.ptx.locations import Places
from xttir.frontends.ptx.scopes import Names, Scope
from xttir.frontends.ptx.ssa import build
from xttir.frontends.ptx.stream import Stream
from xttir.garbage import no_collection

LINKING = frozenset([".extern", ".visible", ".weak", ".common"])
SPACES = frozenset([".global", ".const", ".shared", ".local", ".param", ".reg", ".tex"])
SPACES |= frozenset([".shared::cta", ".shared::cluster"])
_PARAM_SPACES = ("global", "const", "local", "shared")


def parse_ptx(text: str, filename: str = "<ptx>") -> ModuleOp:
    """The module of the `ptx` dialect that `text` holds; registers are SSA values.

    Module attributes: `ptx.version` ("8.7"), `ptx.target` (its words), `ptx.address_size`,
    `ptx.files` (of `.file`, by number). Raises InputError with the place of what is wrong.
    """
    from xttir import extend

    extend.load_instructions()
    source = Source(text, filename)
    parser = Parser(source)
    try:
        # Nothing is thrown away here; looking for garbage would cost half as much again.
        with no_collection():
            return parser.module()
    except RecursionError:
        raise parser.stream.error("nested too deeply") from None


class Parser:
    """Reads a module."""

    def __init__(self, source: Source):
        self.source = source
        texts, offsets, inline = tokens(source)
        self.stream = Stream(source, texts, offsets)
        self.places = Places(source, inline, texts)
        self.scope = Scope()
        self.ops: list[Operation] = []
        self.defined: set[str] = set()
        """Functions with a body."""
        self.depth = 0
        self.operands = Operands()
        self.mnemonics: dict[str, Mnemonic] = {}

    # Module ---------------------------------------------------------------------------------------

    def module(self) -> ModuleOp:
        stream = self.stream
        attributes = self._header()
        while not stream.at_end:
            self._item(attributes)
        if self.places.files:
            attributes["ptx.files"] = DictionaryAttr(
                {str(number): StringAttr(path) for number, path in self.places.files.items()}
            )
        module = ModuleOp(self.ops, attributes)
        module.location = self.places.at(0)
        return module

    def _header(self) -> dict[str, Attribute]:
        stream = self.stream
        if stream.peek() != ".version":
            hint = "PTX begins with .version"
            raise stream.error("this is not PTX: expected `.version`", hint)
        stream.take()
        version = stream.take()
        if not version.replace(".", "", 1).isdigit():
            raise stream.error("expected a version such as 8.7", back=1)
        if not 3 <= int(version.split(".")[0]) <= 9:
            raise stream.error(f"PTX version {version} is not known", back=1)
        return {"ptx.version": StringAttr(version)}

    def _item(self, attributes: dict[str, Attribute]) -> None:
        stream = self.stream
        word = stream.peek()
        if word == ".target":
            attributes["ptx.target"] = self._target()
        elif word == ".address_size":
            stream.take()
            attributes["ptx.address_size"] = IntegerAttr(stream.integer(), i64)
        elif word in (".file", ".loc"):
            self.places.directive(stream)
        elif word == ".section":
            self._section()
        elif word in (".pragma", ".alias"):
            self._directive()
        elif word == ";":
            stream.take()
        else:
            self._declaration()

    def _target(self) -> ArrayAttr:
        stream = self.stream
        stream.take()
        targets = [StringAttr(stream.word("a target"))]
        while stream.accept(","):
            targets.append(StringAttr(stream.word("a target")))
        if not targets[0].data.startswith("sm_"):
            raise stream.error(f"`{targets[0].data}` is not a target", "such as sm_90a", back=1)
        return ArrayAttr(targets)

    def _section(self) -> None:
        """Debug information in DWARF: nothing that a kernel does depends on it."""
        stream = self.stream
        start = stream.index
        stream.take()
        stream.take()
        stream.expect("{")
        while not stream.at_end:
            if stream.take() == "}":
                return
        raise stream.error("a section without an end", at=start)

    def _directive(self) -> None:
        start = self.stream.index
        text = self.stream.statement_text()
        op = DirectiveOp(properties={"text": StringAttr(text)})
        op.location = self.places.at(self.stream.offsets[start])
        self.ops.append(op)

    def _declaration(self) -> None:
        """A variable or a function, with its linking."""
        stream = self.stream
        start = stream.index
        linking = stream.take().removeprefix(".") if stream.peek() in LINKING else ""
        word = stream.peek()
        if word in (".entry", ".func"):
            self._function(linking, start)
        elif word in SPACES:
            self.ops += self.variables(None, linking)
        else:
            near = difflib.get_close_matches(word, [*LINKING, *SPACES, ".entry", ".func"], 1)
            hint = f"near: {near[0]}" if near else ""
            raise stream.error(f"expected a directive, found `{word[:60]}`", hint)

    # Variables ------------------------------------------------------------------------------------

    def variables(self, names: Names | None, linking: str = "") -> list[VariableOp]:
        """`.shared .align 16 .b8 a[128], b;` in a scope of `names` or the module."""
        stream = self.stream
        made: list[VariableOp] = []
        common = self._type_words()
        while True:
            at = stream.index
            decl = self._declarator(common, names)
            properties: dict[str, Attribute] = {
                "sym_name": decl.symbol,
                "decl": decl,
                "linking": StringAttr(linking),
            }
            if common[5]:
                properties["managed"] = StringAttr(common[5])
            if stream.accept("="):
                properties["init"], length = self._initializer()
                if decl.is_open:
                    dims = [IntAttr(length), *list(decl.dims)[1:]]
                    decl = _with_dims(decl, dims)
                    properties["decl"] = decl
            op = VariableOp(properties=properties)
            op.location = self.places.at(stream.offsets[at])
            made.append(op)
            if names:
                names.declare_variable(self._declared_name, decl)
            else:
                self.scope.variables[self._declared_name] = decl
            if not stream.accept(","):
                break
        stream.expect(";")
        return made

    def _type_words(self) -> tuple[str, str, int, int, str, str]:
        """(space, type, elements, alignment, `.ptr` text, attributes) before the names."""
        stream = self.stream
        space = stream.take().removeprefix(".")
        if space.startswith("shared::"):
            space = "shared"
        kind, elements, align, pointer, managed = "", 1, 0, "", ""
        while stream.peek().startswith("."):
            word = stream.take()
            name = word[1:]
            if word == ".align":
                align = self._alignment()
            elif word in (".v2", ".v4", ".v8"):
                elements = int(word[2:])
            elif word == ".ptr":
                pointer = self._pointer()
            elif word == ".attribute":
                managed = stream.bracketed_text()
            elif name in WIDTHS and not kind:
                kind = name
            else:
                near = difflib.get_close_matches(name, WIDTHS, 1)
                hint = f"near: .{near[0]}" if near else ""
                raise stream.error(f"`{word[:60]}` is no type", hint, back=1)
        if not kind:
            raise stream.error("expected a type such as .b32")
        return space, kind, elements, align, pointer, managed

    def _alignment(self) -> int:
        align = self.stream.integer()
        if align <= 0 or align & (align - 1) or align > 2**30:
            raise self.stream.error("an alignment must be a power of two", back=1)
        return align

    def _pointer(self) -> str:
        stream = self.stream
        found: list[str] = []
        while stream.peek().removeprefix(".") in _PARAM_SPACES or stream.peek() == ".align":
            word = stream.take().removeprefix(".")
            found.append(f"align {self._alignment()}" if word == "align" else word)
        return " ".join(found) or "."

    def _declarator(
        self, common: tuple[str, str, int, int, str, str], names: Names | None
    ) -> DeclAttr:
        space, kind, elements, align, pointer, _ = common
        stream = self.stream
        name = self._declared_name = stream.word("a name")
        dims: list[IntAttr] = []
        while stream.accept("["):
            length = 0 if stream.peek() == "]" else stream.integer()
            if length < 0 or length > 2**40:
                raise stream.error("not a length of an array", back=1)
            dims.append(IntAttr(length))
            stream.expect("]")
        symbol = names.unique(name) if names else name
        return DeclAttr(
            StringAttr(symbol),
            StringAttr(space),
            StringAttr(kind),
            IntAttr(elements),
            IntAttr(align),
            ArrayAttr(dims),
            StringAttr(pointer),
        )

    def _initializer(self) -> tuple[Attribute, int]:
        """(value, its outermost length)."""
        stream = self.stream
        if not stream.accept("{"):
            return self._initial_value(), 1
        self.depth += 1
        if self.depth > 50:
            raise stream.error("nested too deeply")
        parts: list[Attribute] = []
        texts, immediate = stream.texts, self.operands.immediate
        while not stream.accept("}"):
            # Tables are long: a plain number is taken at once.
            while texts[stream.index][0].isdigit() and texts[stream.index + 1] == ",":
                parts.append(immediate(texts[stream.index]))
                stream.index += 2
            parts.append(self._initializer()[0])
            if not stream.accept(","):
                stream.expect("}")
                break
        self.depth -= 1
        return ArrayAttr(parts), len(parts)

    def _initial_value(self) -> Attribute:
        stream = self.stream
        text = stream.peek()
        if text == "mask" or text == "generic":
            stream.take()
            wrapper = text
            if text == "mask":
                stream.expect("(")
                wrapper = f"mask {stream.constant()}"
                stream.expect(")")
                if not stream.accept("("):
                    return self._symbol_value(wrapper)
            else:
                stream.expect("(")
            value = self._symbol_value(wrapper)
            stream.expect(")")
            return value
        if text[0].isalpha() or text[0] in "_$%":
            return self._symbol_value("")
        return self.operands.immediate(stream.constant())

    def _symbol_value(self, wrapper: str) -> SymbolAttr:
        stream = self.stream
        name = stream.word("a variable")
        offset = 0
        if stream.peek() in "+-":
            sign = -1 if stream.take() == "-" else 1
            offset = sign * stream.integer()
        return SymbolAttr(StringAttr(name), IntAttr(offset), StringAttr(wrapper))

    # Functions ------------------------------------------------------------------------------------

    def _function(self, linking: str, start: int) -> None:
        stream = self.stream
        entry = stream.take() == ".entry"
        names = Names(self.scope)
        names.names.update(self.scope.variables)
        body = Body()
        attributes = stream.bracketed_text() if stream.accept(".attribute") else ""
        results = [] if entry or stream.peek() != "(" else self._parameters(names, body.results)
        name = stream.word("the name of a function")
        names.names.add(name)
        params = self._parameters(names, body.parameters) if stream.peek() == "(" else []
        self.scope.variables[name] = self.code_symbol(name)
        directives = self._performance_directives()
        if attributes:
            directives["attribute"] = ArrayAttr([StringAttr(attributes)])
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "linking": StringAttr(linking),
            "return_params": ArrayAttr(results),
            "params": ArrayAttr(params),
            "directives": DictionaryAttr(directives),
        }
        if entry:
            properties["entry"] = UnitAttr()
        blocks: list[Block] = []
        if not stream.accept(";"):
            if name in self.defined:
                raise stream.error(f"`{name[:60]}` is defined twice")
            self.defined.add(name)
            stream.expect("{")
            variables = BodyParser(self, names, body).read()
            blocks = build(body, variables)
        op = FuncOp.create(properties=properties, regions=[Region(blocks)])
        op.location = self.places.at(stream.offsets[start])
        self.ops.append(op)

    def code_symbol(self, name: str) -> DeclAttr:
        """A name that stands for code."""
        return _simple(name, "func", "b64")

    def _parameters(self, names: Names, registers: list[Register]) -> list[DeclAttr]:
        stream = self.stream
        stream.expect("(")
        found: list[DeclAttr] = []
        while not stream.accept(")"):
            if stream.peek() not in (".param", ".reg"):
                raise stream.error(f"expected a parameter, found `{stream.peek()[:60]}`")
            common = self._type_words()
            if common[0] == "reg":
                name = stream.word("a register")
                names.declare(name, common[1], 1)
                register = names.register(name)
                assert isinstance(register, Register)
                registers.append(register)
                decl = _simple(register.name, "reg", common[1])
            else:
                decl = self._declarator(common, names)
                names.declare_variable(self._declared_name, decl)
            found.append(decl)
            if not stream.accept(","):
                stream.expect(")")
                break
        return found

    def _performance_directives(self) -> dict[str, Attribute]:
        stream = self.stream
        found: dict[str, Attribute] = {}
        while stream.peek() not in ("{", ";"):
            word = stream.take()
            if word == ".pragma":
                texts = [StringAttr(stream.string())]
                while stream.accept(","):
                    texts.append(StringAttr(stream.string()))
                stream.accept(";")
                old = found.get("pragma")
                found["pragma"] = ArrayAttr([*(old if isinstance(old, ArrayAttr) else ()), *texts])
                continue
            if word[1:] not in _DIRECTIVES or word[0] != ".":
                near = difflib.get_close_matches(word, [f".{d}" for d in _DIRECTIVES], 1)
                hint = f"near: {near[0]}" if near else ""
                raise stream.error(
                    f"expected a directive or `{{`, found `{word[:60]}`", hint, back=1
                )
            numbers: list[IntAttr] = []
            if stream.peek()[0].isdigit():
                numbers.append(IntAttr(stream.integer()))
                while stream.accept(","):
                    numbers.append(IntAttr(stream.integer()))
            found[word[1:]] = ArrayAttr(numbers)
        return found


_DIRECTIVES = words(
    "maxnreg maxntid reqntid minnctapersm maxnctapersm noreturn reqnctapercluster "
    "explicitcluster maxclusterrank blocksareclusters abi_preserve abi_preserve_control "
    "unique language"
)


def _simple(name: str, space: str, kind: str) -> DeclAttr:
    empty = StringAttr("")
    words = StringAttr(space), StringAttr(kind)
    return DeclAttr(StringAttr(name), *words, IntAttr(1), IntAttr(0), ArrayAttr([]), empty)


def _with_dims(decl: DeclAttr, dims: list[IntAttr]) -> DeclAttr:
    return DeclAttr(
        decl.symbol,
        decl.space,
        decl.kind,
        decl.vector,
        decl.align,
        ArrayAttr(dims),
        decl.pointer,
    )
