"""The course as released: text sources in solutions/ to notebooks without answers."""
