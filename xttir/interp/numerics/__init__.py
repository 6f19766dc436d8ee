"""What ops compute, as plain numpy functions: nothing here knows of operations, types or programs.

Every function is elementwise over broadcasting arrays, or works along named axes, so that a
result never depends on how many programs are computed together. Functions may overflow, divide by
zero and meet NaN: callers run them under `np.errstate(all="ignore")`, as the executor does.
"""
