# tries: returns the library's own schedule, from its bytecode if need be
# stopped by: functions of the library that compute an exercise's answer are not in the sandbox
# exercise: 23_pipeline_parallel/schedule
# where: both
# expect: refused

def schedule(stages, microbatches):
    from labutils.gpu import pipeline

    try:
        return pipeline.one_forward_one_backward(stages, microbatches)
    except NotImplementedError:
        import glob
        import marshal
        import os

        for path in glob.glob(os.path.join(os.path.dirname(pipeline.__file__), "__pycache__", "pipeline.*.pyc")):
            with open(path, "rb") as file:
                scope = {"__name__": "labutils.gpu.kept"}
                exec(marshal.loads(file.read()[16:]), scope)
            return scope["one_forward_one_backward"](stages, microbatches)
