# Layers with mistakes.
let width = 7;
cell broken(x) {
    param w : f32[width, 8] = zeros;
    return matmul(x, w);
}
