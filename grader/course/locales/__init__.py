"""Editions of the course in other languages, built from the same sources with a catalog of messages for each.

`locale/zh_CN/` holds the catalogs of the edition `zh`; another language is another such folder (docs/translating.md).
"""
