"""Pages that document rules: which there are, what each says and may do to values, and which passes run it, as Markdown."""
