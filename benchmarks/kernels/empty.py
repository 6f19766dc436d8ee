"""Nothing at all: what is measured is the start-up."""
