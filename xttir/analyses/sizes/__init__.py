"""Every size: does a TTIR kernel race, or leave its tensors, for any grid, sizes and strides?

`terms` are integers over symbols, `evaluate` makes them of a kernel, `contract` says what is known
of the arguments, `solver` decides with z3, `questions` asks, `confirm` runs what was refuted.
"""
