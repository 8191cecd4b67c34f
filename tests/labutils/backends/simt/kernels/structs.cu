struct Particle {
    float x, y, z;
    int id;
};
struct Step {
    float dt;
    float3 wind;
};
__global__ void structs(Particle* p, Step step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Particle mine = p[i];
    mine.x += step.dt * step.wind.x;
    mine.y += step.dt * step.wind.y;
    mine.z += step.dt * step.wind.z;
    mine.id += 1;
    p[i] = mine;
}
