"""Where evidence comes from. A :class:`Source` is the only way to the machine, live or captured."""
