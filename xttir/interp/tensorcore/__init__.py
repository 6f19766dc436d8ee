"""Tensor cores in plain numpy: layouts of their operands, and their arithmetic bit for bit.

Nothing here knows instructions, registers or memories; everything works on whole arrays. Rules: PTX
ISA 9.1, sections 5.5 (tensor maps), 9.7.14 to 9.7.16; the arithmetic as recorded on an H200.
"""
