"""Pure functions from a Host or a Report to text."""
