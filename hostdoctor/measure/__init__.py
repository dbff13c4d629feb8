"""Near against far: experiments on the running host."""
