"""`tt` functions, calls and returns, and the debugging ops print and assert."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FunctionType,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    i32,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    CallableOpInterface,
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    MemoryWriteEffect,
    Pure,
    ReturnLike,
    SymbolOpInterface,
    SymbolTable,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.ods import BOOL_ATTR
from xttir.dialects.tt.traits import TTOp
from xttir.dialects.tt.types import ANY_TYPE, BOOL_LIKE

_RESERVED = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")


class _FuncCallable(CallableOpInterface):
    @classmethod
    def get_callable_region(cls, op: Operation) -> Region:
        assert isinstance(op, FuncOp)
        return op.body

    @classmethod
    def get_argument_types(cls, op: Operation) -> tuple[Attribute, ...]:
        assert isinstance(op, FuncOp)
        return op.function_type.inputs.data

    @classmethod
    def get_result_types(cls, op: Operation) -> tuple[Attribute, ...]:
        assert isinstance(op, FuncOp)
        return op.function_type.outputs.data


@irdl_op_definition
class FuncOp(TTOp):
    """A kernel, or a function it calls. Kernels are public. No body: declared elsewhere."""

    name = "tt.func"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    sym_visibility = opt_prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body: Region = region_def()
    traits = traits_def(
        IsolatedFromAbove(), SymbolOpInterface(), _FuncCallable(), HasParent(ModuleOp)
    )

    def __init__(
        self,
        name: str,
        function_type: FunctionType | tuple[Sequence[Attribute], Sequence[Attribute]],
        region: Region | None = None,
        visibility: str | None = None,
        *,
        arg_attrs: ArrayAttr[DictionaryAttr] | None = None,
        res_attrs: ArrayAttr[DictionaryAttr] | None = None,
    ):
        if isinstance(function_type, tuple):
            function_type = FunctionType.from_lists(*function_type)
        if region is None:
            region = Region(Block(arg_types=function_type.inputs))
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": function_type,
                "sym_visibility": StringAttr(visibility) if visibility else None,
                "arg_attrs": arg_attrs,
                "res_attrs": res_attrs,
            },
            regions=[region],
        )

    @property
    def args(self) -> tuple[BlockArgument, ...]:
        """The arguments; () for a declaration."""
        block = self.body.blocks.first
        return () if block is None else block.args

    @property
    def is_declaration(self) -> bool:
        return self.body.blocks.first is None

    def arg_attr(self, index: int, name: str) -> Attribute | None:
        """Attribute `name` of argument `index`, such as `tt.divisibility`."""
        return self.arg_attrs.data[index].data.get(name) if self.arg_attrs else None

    def verify_(self) -> None:
        entry = self.body.blocks.first
        if entry is not None and self.function_type.inputs.data != tuple(entry.arg_types):
            raise VerifyException("types of the entry block's arguments differ from the signature")
        for what, attrs, types in (
            ("argument", self.arg_attrs, self.function_type.inputs),
            ("result", self.res_attrs, self.function_type.outputs),
        ):
            if attrs is not None and len(attrs) != len(types):
                raise VerifyException(f"{what} attributes given for {len(attrs)} of {len(types)}")

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        visibility = parser.parse_optional_visibility_keyword()
        name, inputs, outputs, region, attributes, arg_attrs, res_attrs = parse_func_op_like(
            parser, reserved_attr_names=_RESERVED
        )
        func = cls(
            name,
            (inputs, outputs),
            region,
            visibility.data if visibility else None,
            arg_attrs=arg_attrs,
            res_attrs=res_attrs,
        )
        if attributes is not None:
            func.attributes |= attributes.data
        return func

    def print(self, printer: Printer) -> None:
        if self.sym_visibility is not None:
            printer.print_string(f" {self.sym_visibility.data}")
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            self.attributes,
            arg_attrs=self.arg_attrs,
            res_attrs=self.res_attrs,
            reserved_attr_names=_RESERVED,
            print_empty_outputs=False,
        )


class _CalleeInterface(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallOp)
        callee = SymbolTable.lookup_symbol(op, op.callee)
        if not isinstance(callee, FuncOp):
            raise VerifyException(f"{op.callee} does not name a tt.func")
        want, got = callee.function_type.inputs.data, tuple(v.type for v in op.args_)
        if want != got:
            raise VerifyException(
                f"call of {op.callee} with ({', '.join(map(str, got))}),"
                f" which takes ({', '.join(map(str, want))})"
            )
        if callee.function_type.outputs.data != tuple(op.result_types):
            raise VerifyException(f"result types differ from those of {op.callee}")


@irdl_op_definition
class CallOp(TTOp):
    """Direct call of a `tt.func` of the module. ODS calls the operands `operands`."""

    name = "tt.call"
    callee = prop_def(FlatSymbolRefAttrConstr)
    args_ = var_operand_def()
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res = var_result_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $args_ `)` attr-dict `:` functional-type($args_, $res)"
    traits = traits_def(_CalleeInterface())


@irdl_op_definition
class ReturnOp(TTOp):
    """Return from a `tt.func`."""

    name = "tt.return"
    srcs = var_operand_def()
    assembly_format = "attr-dict ($srcs^ `:` type($srcs))?"
    traits = traits_def(HasParent(FuncOp), Pure(), IsTerminator(), ReturnLike())

    def verify_(self) -> None:
        func = self.parent_op()
        if isinstance(func, FuncOp):
            want = func.function_type.outputs.data
            got = tuple(value.type for value in self.srcs)
            if want != got:
                raise VerifyException(
                    f"returns ({', '.join(map(str, got))}),"
                    f" but the function returns ({', '.join(map(str, want))})"
                )


@irdl_op_definition
class PrintOp(TTOp):
    """`tl.device_print`."""

    name = "tt.print"
    prefix = prop_def(StringAttr)
    hex = prop_def(BOOL_ATTR)
    args = var_operand_def(ANY_TYPE)
    is_signed = prop_def(DenseArrayBase.constr(i32), prop_name="isSigned")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$prefix attr-dict (`:` $args^ `:` type($args))?"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class AssertOp(TTOp):
    """`tl.device_assert`: the program aborts with `message` where `condition` is false."""

    name = "tt.assert"
    condition = operand_def(BOOL_LIKE)
    message = prop_def(StringAttr)
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"
    traits = traits_def(MemoryWriteEffect())


def function_named(module: ModuleOp, name: str) -> FuncOp | None:
    """The function of that name in `module`, if there is one."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == name:
            return op
    return None
