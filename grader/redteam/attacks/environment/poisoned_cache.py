# tries: writes its own libraries over the emulator's cached ones
# stopped by: caches are copied fresh for each job, from a read-only folder
# exercise: 10_reduction/sum_v1
# where: both
# expect: refused
# stock: no
# plain child: no

import glob
import os

for folder in ("/warm", os.environ.get("GPULAB_CACHE", "/nowhere"), os.path.expanduser("~/.cache")):
    for path in glob.glob(f"{folder}/**/*.so", recursive=True):
        try:
            with open(path, "wb") as f:
                f.write(b"not a library")
        except OSError:
            pass
nothing = lab.cuda.compile("__global__ void nothing(float* out) {}", "nothing")


def sum_v1(x, out):
    nothing[1, 32](out)
