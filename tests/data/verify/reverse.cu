extern "C" __global__ void reverse(const float *x, float *y, int n) {
    __shared__ float stage[64];
    int t = threadIdx.x;
    stage[t] = x[t];
    __syncthreads();
    if (t < n)
        y[t] = stage[63 - t];
}
