// tries: namespaces, type aliases, enums, static assertions, constexpr functions, launch bounds
// exercise: 08_coalescing/transpose
// expect: accepted
namespace tiling {
enum : int { kTile = 32, kRows = 8 };
constexpr int pad(int banks) { return banks % 32 == 0 ? 1 : 0; }
template <typename T, int R, int C = R + pad(R)>
struct alignas(16) Tile {
    using value_type = T;
    static constexpr int rows = R, columns = C;
    value_type data[R][C];
    __device__ value_type& operator()(int r, int c) { return data[r][c]; }
};
}  // namespace tiling

using tile_t = tiling::Tile<float, tiling::kTile>;
static_assert(sizeof(tile_t) >= sizeof(float) * tiling::kTile * tiling::kTile, "too small");
static_assert(tile_t::columns == 33);

__global__ void __launch_bounds__(tiling::kTile * tiling::kRows, 4)
transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    using namespace tiling;
    __shared__ tile_t tile;
    const auto bx = static_cast<int>(blockIdx.x) * kTile, by = static_cast<int>(blockIdx.y) * kTile;
    const auto tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
    for (int r = ty; r < kTile; r += kRows)
        if (by + r < M and bx + tx < N) tile(r, tx) = x[(by + r) * N + bx + tx];
    __syncthreads();
    for (int r = ty; r < kTile; r += kRows)
        if (bx + r < N and by + tx < M) out[(bx + r) * M + by + tx] = tile(tx, r);
}
