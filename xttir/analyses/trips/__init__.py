"""Every number of iterations: what is verified for some trip counts of a loop holds for all.

The kernel is traced for numbers of iterations that differ by one. Where its agents come back to
the same state after `period` iterations, whatever the argument that counts them (`growth`), a
longer launch has the events of a shorter one with some periods more in between (`zone`). What
happens `distance` iterations apart is ordered (`distance`), so that whether two events are ordered
is decided by a window that a shorter launch, which has been verified, has as well (`prove`).
docs/explanation/every-schedule.md gives the argument.
"""
