"""What PTX instructions do: threads run in groups over arrays, on numbers or on unknown data."""
