# tries: unusual formatting, attributes, lambdas, structured bindings, names with umlauts in comments
# exercise: 00_start/scale_cuda
# expect: accepted

SOURCE = r"""
/* größer als nötig: "quoted", it's fine */
__global__
void
scale (
    const float * x , float factor ,
    [[maybe_unused]] float * out , int n )
{
    const auto times = [=] (float v) -> float { return factor * v; };   // a 'lambda'
    struct Place { int i; bool inside; };
    const auto [i, inside] = Place{int(blockIdx.x * blockDim.x + threadIdx.x), true};
    if (!inside or i >= n) [[unlikely]] return;
    out [ i ] = times ( x [ i ] ) ; const char c = '\'' ; (void) c ;
}
"""
scale = lab.cuda.compile(SOURCE, "scale")


def scale_cuda(x, factor, out):
    n = x.numel()
    scale[(n + 127) // 128, 128](x, factor, out, n)
