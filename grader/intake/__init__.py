"""Reads submissions: turns a learning platform's export into files, each with its owner."""
