"""One file per format: text in, frozen records out, or ``ParseError``. Nothing here touches the machine."""
