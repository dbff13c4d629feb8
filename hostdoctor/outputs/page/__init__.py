"""The report: one page of HTML, or Markdown, about one host; pure functions of what was established before."""
