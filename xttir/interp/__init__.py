"""The interpreter: values, memory, the grid executor and one functions file per dialect."""
