"""The red team: submissions that try to get points by anything but a right kernel, and honest ones that look unusual.

Every file of `attacks/FAMILY/` is one attack, every file of `controls/` one honest submission. A file is the module
that takes the place of the answer cells; in the family `notebook` it defines `damage(notebook)`, which mangles a
notebook before it is submitted. It begins with

    # tries: what it does, in a sentence
    # stopped by: which rule of the judge stops it
    # exercise: 06_elementwise_triton/vector_add
    # where: both                 (or gpu: it needs one)
    # expect: refused             (or "no effect": the points are those of the baseline; "accepted" for a control;
                                "no undue points": no more than `due`; "harmless": whatever it earns, see below;
                                or "known limit": docs/judging.md says that it works, and what it is worth)
    # baseline: full              (of "no effect": what the submission earns without the attack; full or none)
    # due: 2                      (of "no undue points": the points that an honest count would give)

and may go on with `# slow: yes` (takes half a minute), `# stock: no` (would hurt the machine where nothing isolates it)
and `# plain child: no` (the same, for a judge without bubblewrap). Never import such a file.

A trial of the families `neighbors` and `denial` has a process of its own (`alone.py`), which must not fail, stall or
grow, whatever else is expected; "harmless" expects nothing else. Its header may say

    # submits: answers            (or "notebook": it defines `damage(notebook)`; "folder": it defines `plant(folder)`,
                                which fills the class's folder, where `alice.ipynb` is an honest submission)
    # beside: honest              (who else is judged at the same time: the solution, or the same file, `itself`;
                                with "later" it is judged afterwards. The honest one must earn full points)
"""
