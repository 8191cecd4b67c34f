"""The cases, a module for each repository: its `COLLECTION` holds them."""
