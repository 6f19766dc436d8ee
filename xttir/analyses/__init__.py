"""What holds in every schedule: the events of a program, their order, and what breaks it."""
