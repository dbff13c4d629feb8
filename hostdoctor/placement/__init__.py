"""Which nodes these GPUs want, and how a command is started there: Host -> Binding -> Launch -> text."""
