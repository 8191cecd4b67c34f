"""Write theater.html: the film of a small ring of tiles, which the documentation site's first page shows.

python docs/pictures/theater.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

import labutils as lab  # noqa: E402
from labutils.backends.film import film  # noqa: E402
from labutils.plots.theater import Theater  # noqa: E402

RING = """
#include <lab/hopper.cuh>

// out = x: warp 1 copies tiles of 16 x 8 halves with the TMA into a ring of two stages, and warp 0 stores them.
__global__ void ring(const __grid_constant__ CUtensorMap x, half *out, int tiles) {
    __shared__ __align__(128) half tile[2][16 * 8];
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int stage = 0; stage < 2; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 1);
        }
        mbarrier_fence();
    }
    __syncthreads();
    for (int s = 0; s < tiles; s++) {
        int stage = s % 2, turn = s / 2;
        if (t == 32) {  // the producer
            mbarrier_wait(&empty[stage], (turn + 1) % 2);
            mbarrier_expect(&full[stage], sizeof(tile[stage]));
            tma_load(tile[stage], &x, &full[stage], 0, s * 8);
        }
        if (t < 32) {  // the consumers
            mbarrier_wait(&full[stage], turn % 2);
            for (int i = t; i < 16 * 8; i += 32) out[i / 8 * (tiles * 8) + s * 8 + i % 8] = tile[stage][i];
            __syncwarp();
            if (t == 0) mbarrier_arrive(&empty[stage]);
        }
    }
}
"""


def main() -> None:
    kernel = lab.cuda.compile(RING, "ring")
    x, out = torch.arange(16 * 40.0).reshape(16, 40).half(), torch.zeros(16, 40).half()
    made = film(lambda x, out: kernel[1, 64](lab.tensor_map(x, (16, 8)), out, 5), x, out)
    print(Theater(made).save(Path(__file__).with_suffix(".html")))


if __name__ == "__main__":
    main()
