"""The course as released: from text sources in solutions/ to notebooks without answers."""
