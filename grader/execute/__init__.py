"""Running submitted notebooks: `notebook` runs one, `worker` is the process it runs in, `local` keeps several busy.

A notebook goes in as JSON and comes out as JSON. Nothing here reads a gradebook or the course's folders, so a worker
can run in a sandbox or on another machine.
"""
