"""Running submitted notebooks: `notebook` runs one, `worker` is the process it runs in, `local` keeps several busy.

A notebook goes in as JSON and comes out as JSON. Nothing in here reads a grade book or the course's folders, so that a
worker can be put into a sandbox or on another machine.
"""
