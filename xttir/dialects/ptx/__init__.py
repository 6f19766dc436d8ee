"""The `ptx` dialect: NVIDIA's PTX as SSA blocks of instructions.

An op class is an instruction family of PTX ISA 9.1, section 9.7; see `Instruction` for what they
have in common, `operands` for the structure of operands, `control` for how blocks end.
"""

from xdsl.ir import Dialect

from xttir.dialects.ptx.arithmetic import ARITHMETIC
from xttir.dialects.ptx.control import CONTROL
from xttir.dialects.ptx.copies import COPIES
from xttir.dialects.ptx.function import STRUCTURE, DeclAttr
from xttir.dialects.ptx.logic import LOGIC_OPS
from xttir.dialects.ptx.matrix import MATRIX
from xttir.dialects.ptx.memory import MEMORY
from xttir.dialects.ptx.operands import OPERANDS, RegType
from xttir.dialects.ptx.sync import SYNC
from xttir.dialects.ptx.texture import TEXTURE

PTX = Dialect(
    "ptx",
    [*STRUCTURE, *ARITHMETIC, *LOGIC_OPS, *MEMORY, *COPIES, *SYNC, *MATRIX, *TEXTURE, *CONTROL],
    [*OPERANDS, RegType, DeclAttr],
)
